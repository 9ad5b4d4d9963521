"""The load generator as a function: build it once, run it with bounds, read its line of JSON.

One rule: a run that failed has no figures. The last words of the generator become the text of a
`LoadFailed`.
"""

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCE = HERE / "loadgen.c"
OUT = HERE / "out"

BUILD_LIMIT_S = 60
GRACE_S = 20  # beyond the generator's own time limit, before it is killed


class LoadFailed(Exception):
    """The generator could not be built, or ended without doing what it was asked for."""


@dataclass(frozen=True)
class Load:
    """The task of one run: at least one of `ops` and `seconds` bounds it."""

    dialect: str
    port: int
    connections: int = 1
    in_flight: int = 1
    body_bytes: int = 100
    ops: int | None = None
    seconds: float | None = None
    seed: int = 1
    queue: str = "bench"
    time_limit_s: float = 60.0


@dataclass(frozen=True)
class Result:
    """The result of one run. An op is one item; a request is one trip to the server.

    `user_s` and `system_s` are the server's processor time, where it was measured.
    """

    ops: int
    requests: int
    seconds: float
    ops_per_s: float
    p50_us: float
    p99_us: float
    bytes: int
    empty: int
    generator_busy: float
    errors: int
    user_s: float = 0.0
    system_s: float = 0.0

    @property
    def requests_per_s(self) -> float:
        return self.requests / self.seconds if self.seconds else 0.0


def build(out: Path = OUT) -> Path:
    """Compile loadgen.c unless that is done; raise LoadFailed with the compiler's words."""
    binary = out / "loadgen"
    if binary.exists() and binary.stat().st_mtime > SOURCE.stat().st_mtime:
        return binary
    out.mkdir(parents=True, exist_ok=True)
    fresh = out / f"loadgen.{os.getpid()}"
    compiler = os.environ.get("CC", "cc")
    command = [compiler, "-O2", "-Wall", "-Wextra", "-o", str(fresh), str(SOURCE)]
    try:
        made = subprocess.run(
            command, capture_output=True, text=True, timeout=BUILD_LIMIT_S, check=False
        )
    except FileNotFoundError:
        raise LoadFailed(f"no C compiler {compiler!r} (Debian packages: gcc libc6-dev)") from None
    if made.returncode != 0:
        raise LoadFailed(f"loadgen.c does not compile:\n{made.stderr}")
    fresh.replace(binary)
    return binary


def command_line(binary: Path, load: Load) -> list[str]:
    options = {
        "dialect": load.dialect,
        "port": load.port,
        "connections": load.connections,
        "in-flight": load.in_flight,
        "body-bytes": load.body_bytes,
        "ops": load.ops,
        "seconds": load.seconds,
        "seed": load.seed,
        "queue": load.queue,
        "time-limit": load.time_limit_s,
    }
    words = [str(binary)]
    for name, value in options.items():
        if value is not None:
            words += [f"--{name}", str(value)]
    return words


def run(binary: Path, load: Load) -> Result:
    """Run one load to its end; raise LoadFailed with the generator's last words."""
    try:
        ran = subprocess.run(
            command_line(binary, load),
            capture_output=True,
            text=True,
            timeout=load.time_limit_s + GRACE_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise LoadFailed(f"{load.dialect}: still running after its time limit") from None
    if ran.returncode != 0:
        raise LoadFailed(ran.stderr.strip() or f"loadgen ended with code {ran.returncode}")
    return parse(ran.stdout)


def parse(line: str) -> Result:
    """Return one line of the generator's JSON as a Result."""
    said = json.loads(line)
    said.pop("dialect")
    return Result(**said)
