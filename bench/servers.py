"""The daemons: how each one is started, found ready, and stopped.

One rule: every daemon has its own folder and loopback port. Daemon and folder are gone when its
`with` block ends, however it ends.
"""

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

ROOT = Path(__file__).resolve().parent.parent

START_LIMIT_S = 20.0
POLL_S = 0.01
LOG_TAIL_LINES = 5

# The line by which kestrelpy names its memcache listener; the last line of its start.
MEMCACHE_LISTENER = re.compile(r"memcache.*?127\.0\.0\.1:(\d+)", re.IGNORECASE)
READY = re.compile(r"^ready\b", re.MULTILINE)


class ServerFailed(Exception):
    """A daemon did not start; the text says which, and what it said last."""


class Server(Protocol):
    """One kind of daemon. `store` and `consume` are dialects of the load generator."""

    @property
    def name(self) -> str: ...
    @property
    def store(self) -> str: ...
    @property
    def consume(self) -> str: ...
    @property
    def settings(self) -> str: ...

    def missing(self) -> str | None:
        """Return why it cannot run here, and the Debian package that helps; None: it can."""

    def command(self, folder: Path, port: int) -> list[str]: ...

    def listening(self, port: int, output: str) -> int | None:
        """Return the port once the daemon is ready, None before; `output` is all it has printed."""


@dataclass(frozen=True)
class DebianServer:
    """A daemon from a Debian package. It gets its port, and is ready when the port accepts."""

    name: str
    program: str
    package: str
    store: str
    consume: str
    settings: str  # said on the command line and in the report; {folder} is filled in
    listen: str

    def missing(self) -> str | None:
        if shutil.which(self.program):
            return None
        return f"{self.program} is not installed (Debian package {self.package}); left out."

    def command(self, folder: Path, port: int) -> list[str]:
        words = f"{self.program} {self.listen} {self.settings}".split()
        return [{"{folder}": str(folder), "{port}": str(port), '""': ""}.get(w, w) for w in words]

    def listening(self, port: int, output: str) -> int | None:
        with socket.socket() as probe:
            probe.settimeout(1.0)
            return port if probe.connect_ex(("127.0.0.1", port)) == 0 else None


@dataclass(frozen=True)
class Kestrelpy:
    """Our daemon on its defaults. It picks its ports, prints them, and then prints `ready`."""

    name: str = "kestrelpy"
    store: str = "memcache-set"
    consume: str = "memcache-consume"
    settings: str = "defaults: sync = always, confirms = written"
    python: str = sys.executable

    def missing(self) -> str | None:
        if shutil.which(self.python):
            return None
        return f"{self.python} is not there (make compile makes the compiled one); left out."

    def command(self, folder: Path, port: int) -> list[str]:
        listen = ["--host", "127.0.0.1", "--port", "0", "--http-port", "off"]
        return [self.python, "-m", "kestrelpy", "serve", *listen, "--data-dir", str(folder)]

    def listening(self, port: int, output: str) -> int | None:
        found = MEMCACHE_LISTENER.search(output)
        return int(found[1]) if found and READY.search(output) else None


KESTRELPY = Kestrelpy()
# The same source compiled, if `make compile` has run. It has turns of its own.
COMPILED = Kestrelpy("compiled", python=str(ROOT / "build/compiled/.venv/bin/python"))
# Redis would rewrite its log in the background, on a core that the others need. That is off, which
# favours Redis.
REDIS = DebianServer(
    name="redis",
    program="redis-server",
    package="redis-server",
    store="redis-push",
    consume="redis-consume",
    settings='--appendonly yes --appendfsync always --save "" --auto-aof-rewrite-percentage 0',
    listen="--bind 127.0.0.1 --port {port} --dir {folder} --maxclients 5000",
)
BEANSTALKD = DebianServer(
    name="beanstalkd",
    program="beanstalkd",
    package="beanstalkd",
    store="beanstalk-put",
    consume="beanstalk-consume",
    settings="-b {folder} -f0",
    listen="-l 127.0.0.1 -p {port}",
)
# The ceiling: no disk, one thread like the others.
MEMCACHED = DebianServer(
    name="memcached",
    program="memcached",
    package="memcached",
    store="memcache-set",
    consume="memcache-get",
    settings="-t 1 -m 256",
    listen="-l 127.0.0.1 -p {port} -U 0 -c 5000",
)


@dataclass(frozen=True)
class EchoServer:
    """The ceiling of Python: `bench/echo.py`."""

    name: str = "echo"
    store: str = "memcache-set"
    consume: str = "memcache-get"
    settings: str = "no queue, no disk"

    def missing(self) -> str | None:
        return None

    def command(self, folder: Path, port: int) -> list[str]:
        return [sys.executable, "-m", "bench.echo", str(port)]

    def listening(self, port: int, output: str) -> int | None:
        return MEMCACHED.listening(port, output)


ECHO = EchoServer()


def free_port() -> int:
    """Return a loopback port that is free at this moment."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port: int = s.getsockname()[1]
        return port


def file_system(folder: Path) -> str:
    """Return the type of the file system of a folder, as the kernel names it."""
    best, kind = "", "unknown"
    for line in Path("/proc/mounts").read_text().splitlines():
        point, fs = line.split()[1:3]
        if folder.resolve().is_relative_to(point) and len(point) >= len(best):
            best, kind = point, fs
    return kind


def _tail(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines()
    return " | ".join(lines[-LOG_TAIL_LINES:]) or "it said nothing"


def _wait_ready(server: Server, process: subprocess.Popen[bytes], port: int, log: Path) -> int:
    deadline = time.monotonic() + START_LIMIT_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            code = process.returncode
            raise ServerFailed(f"{server.name} ended at once with code {code}: {_tail(log)}")
        ready = server.listening(port, log.read_text(errors="replace"))
        if ready is not None:
            return ready
        time.sleep(POLL_S)
    raise ServerFailed(f"{server.name} was not ready in {START_LIMIT_S:.0f} s: {_tail(log)}")


def _command(server: Server, folder: Path, port: int) -> list[str]:
    words = server.command(folder, port)
    if server.name == MEMCACHED.name and os.geteuid() == 0:
        words += ["-u", "root"]  # memcached refuses root unless it is told so
    return words


def environment(python: str = sys.executable) -> dict[str, str]:
    """Return our environment without settings of kestrelpy, so that the defaults are measured.

    Our own Python runs this tree; another one runs the kestrelpy that is installed for it.
    """
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("KESTRELPY_", "PYTHONPATH"))}
    if python == sys.executable:
        kept["PYTHONPATH"] = str(ROOT)
    return kept | {"PYTHONUNBUFFERED": "1"}


@dataclass(frozen=True)
class Running:
    """A daemon that runs."""

    port: int
    pid: int

    def processor_s(self) -> tuple[float, float]:
        """Return the processor time of all its threads so far, in seconds: user and system."""
        words = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        ticks = os.sysconf("SC_CLK_TCK")
        return int(words[11]) / ticks, int(words[12]) / ticks


@contextmanager
def started(
    server: Server, parent: Path, extra: Mapping[str, str] | None = None
) -> Iterator[int]:
    """Run a daemon as `running` does; yield its port. Raises ServerFailed."""
    with running(server, parent, extra) as found:
        yield found.port


@contextmanager
def running(
    server: Server, parent: Path, extra: Mapping[str, str] | None = None
) -> Iterator[Running]:
    """Run a daemon in a new folder under `parent`. Raises ServerFailed.

    `extra` goes into its environment.
    """
    place = Path(tempfile.mkdtemp(prefix=f"{server.name}-", dir=parent))
    try:
        folder, log, port = place / "data", place / "log", free_port()
        folder.mkdir()
        with log.open("wb") as out:
            process = subprocess.Popen(
                _command(server, folder, port),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                cwd=place,
                env=environment(server.python if isinstance(server, Kestrelpy) else sys.executable)
                | dict(extra or {}),
            )
        try:
            yield Running(_wait_ready(server, process, port, log), process.pid)
        finally:
            process.kill()  # its folder is removed next, so a clean stop is not needed
            process.wait()
    finally:
        shutil.rmtree(place, ignore_errors=True)
