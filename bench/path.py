"""`python -m bench path`: the user instructions of a daemon for one durable set and one reliable
take, and those of a router and its slice for a set.

    the kernel counts, or valgrind ──▶ N rounds, 3 N rounds ──▶ the difference, over the requests

Fifty connections send one request each (or `--depth` requests each) at once, and the next when all
are answered: `path_load.py`. A busy machine changes times, but not instructions. Those of the
kernel and of uvloop's sockets are not counted.

One rule: a figure is a difference, so it contains neither the start nor the measuring.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench import loadgen
from bench.path_load import CONNECTIONS
from bench.servers import ServerFailed, environment

LOAD = Path(__file__).with_name("path_load.py")
ROUNDS = 10
DUMP_LIMIT_S = 120.0
TOTAL = re.compile(r"^(?:summary|totals): (\d+)", re.MULTILINE)


def arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench path", description=__doc__)
    parser.add_argument("--python", default=sys.executable, help="what kestrelpy runs on")
    parser.add_argument("--depth", type=int, default=1, help="requests in flight per connection")
    parser.add_argument("--dir", type=Path, default=loadgen.OUT, help="where data goes")
    parser.add_argument("--keep", type=Path, help="a folder for the profiles of callgrind")
    return parser.parse_args(words)


def missing() -> str:
    """Return why valgrind cannot count here; empty: it can."""
    for name in ("valgrind", "callgrind_control"):
        if not shutil.which(name):
            return f"{name} is not installed (Debian package valgrind)"
    return ""


class Load:
    """The load in a process of its own, and its instructions: as the kernel counts them."""

    def __init__(
        self, python: str, place: Path, depth: int = 1, prefix: Sequence[str] = ()
    ) -> None:
        self.place = place
        self._requests = CONNECTIONS * depth  # of a round
        self._log = (place / "log").open("w+")
        self.process = subprocess.Popen(
            [*prefix, python, "-P", str(LOAD), str(place / "data"), str(depth)], text=True,
            cwd=place, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log,
            env=environment(python) | {"PYTHONHASHSEED": "0"},
        )  # fmt: skip
        try:
            self._counted = self._wait()
        except ServerFailed:
            self.close()
            raise

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()
        self._log.close()

    def count(self) -> int:
        """Return the instructions so far; -1: they are not counted."""
        return self._counted

    def run(self, name: str, rounds: int) -> None:
        """Send this many rounds of requests."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{name} {rounds}\n")
        self.process.stdin.flush()
        self._counted = self._wait()

    def cost(self, name: str) -> float:
        """Return the instructions of one request."""
        at = [self.count()]
        for rounds in (ROUNDS, 3 * ROUNDS):
            self.run(name, rounds)
            at.append(self.count())
        return (at[2] - 2 * at[1] + at[0]) / (2 * ROUNDS * self._requests)

    def costs(self) -> dict[str, float]:
        """Return the instructions of a set, of a take, and of a set through a router."""
        self.run("set", ROUNDS)
        stored = self.cost("set")
        self.run("open", 1)
        self.run("take", ROUNDS // 2)
        taken = self.cost("take")
        self.run("routed", ROUNDS)
        return {"set": stored, "take": taken, "routed set": self.cost("routed")}

    def _wait(self) -> int:
        assert self.process.stdout is not None
        word, _, number = self.process.stdout.readline().partition(" ")
        if word != "done":
            self._log.seek(0)
            raise ServerFailed(f"the load of bench path has ended: {self._log.read()[-500:]}")
        return int(number)


class ValgrindLoad(Load):
    """The same where the kernel counts nothing: callgrind counts, some fifty times slower."""

    def __init__(self, python: str, place: Path, depth: int = 1) -> None:
        out = f"--callgrind-out-file={place}/callgrind.out"
        self._dumps = self._total = 0
        super().__init__(python, place, depth, ("valgrind", "--tool=callgrind", out))

    def count(self) -> int:
        command = ["callgrind_control", "--dump", str(self.process.pid)]
        subprocess.run(command, check=True, capture_output=True, timeout=DUMP_LIMIT_S)
        self._dumps += 1
        profile = self.place / f"callgrind.out.{self._dumps}"
        found = TOTAL.search(profile.read_text(errors="replace"))
        if found is None:
            raise ServerFailed(f"{profile} names no total")
        self._total += int(found[1])  # a dump begins to count anew
        return self._total


def costs(python: str, place: Path, depth: int = 1) -> dict[str, float]:
    """Return the user instructions of each kind of request; raise ServerFailed."""
    load = Load(python, place, depth)
    if load.count() < 0:
        load.close()
        if why := missing():
            raise ServerFailed(f"the kernel counts no instructions here, and {why}")
        shutil.rmtree(place / "data", ignore_errors=True)
        load = ValgrindLoad(python, place, depth)
    try:
        return load.costs()
    finally:
        load.close()


def main(words: Sequence[str]) -> int:
    wanted = arguments(words)
    wanted.dir.mkdir(parents=True, exist_ok=True)
    place = Path(tempfile.mkdtemp(prefix="path-", dir=wanted.dir)).resolve()
    try:
        for name, instructions in costs(wanted.python, place, wanted.depth).items():
            print(f"a {name:10} takes {instructions:8,.0f} user instructions")
        if wanted.keep is not None:
            wanted.keep.mkdir(parents=True, exist_ok=True)
            for profile in place.glob("callgrind.out.*"):
                shutil.copy(profile, wanted.keep)
    except (ServerFailed, OSError, subprocess.SubprocessError) as failure:
        print(f"bench: {failure}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return 0
