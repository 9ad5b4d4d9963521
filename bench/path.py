"""`python -m bench path`: the daemon's user instructions for one durable set and one reliable take.

    valgrind counts ──▶ warm up ──▶ N sets, 2 N sets ──▶ N takes, 2 N takes
                                    the difference, over N, is the cost of one

Each of a few connections sends one request, and the next ones when all are answered. Instructions
are the same on a busy machine; times are not.

The one rule: valgrind slows the daemon down some fifty times, so that a turn handles fewer requests
than in life. Compare figures of this command with each other, and with no others.
"""

import argparse
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench import loadgen
from bench.servers import MEMCACHE_LISTENER, READY, ServerFailed, environment

CONNECTIONS = 16
ROUNDS = 30
START_LIMIT_S = 300.0
ANSWER_LIMIT_S = 120.0
POLL_S = 0.1
BODY = b"x" * 100
SET = b"set path 0 0 100\r\n%b\r\n" % BODY
STORED = b"STORED\r\n"
OPEN = b"path/open"
TAKE = b"path/close/open"  # it confirms the item before
TOTAL = re.compile(r"^(?:summary|totals): (\d+)", re.MULTILINE)


def arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench path", description=__doc__)
    parser.add_argument("--python", default=sys.executable, help="what kestrelpy runs on")
    parser.add_argument("--dir", type=Path, default=loadgen.OUT, help="where data goes")
    parser.add_argument("--keep", type=Path, help="a folder for the profiles of callgrind")
    return parser.parse_args(words)


class Counted:
    """A daemon under callgrind, and connections to it."""

    def __init__(self, pid: int, port: int, place: Path) -> None:
        self._pid = pid
        self._place = place
        self._dumps = 0
        self._lines = [
            socket.create_connection(("127.0.0.1", port), ANSWER_LIMIT_S)
            for _ in range(CONNECTIONS)
        ]

    def rounds(self, request: bytes, reply: bytes, many: int) -> int:
        """Send the request that often on each connection; return the instructions that took."""
        self._dump()
        for _ in range(many):
            for line in self._lines:
                line.sendall(request)
            for line in self._lines:
                _expect(line, reply)
        return self._dump()

    def close(self) -> None:
        for line in self._lines:
            line.close()

    def _dump(self) -> int:
        """Return the instructions since the last dump."""
        command = ["callgrind_control", "--dump", str(self._pid)]
        subprocess.run(command, check=True, capture_output=True, timeout=ANSWER_LIMIT_S)
        self._dumps += 1
        profile = self._place / f"callgrind.out.{self._dumps}"
        found = TOTAL.search(profile.read_text(errors="replace"))
        if found is None:
            raise ServerFailed(f"{profile} names no total")
        return int(found[1])


def _expect(line: socket.socket, reply: bytes) -> None:
    data = b""
    while len(data) < len(reply):
        more = line.recv(len(reply) - len(data))
        if not more:
            raise ServerFailed("kestrelpy closed the connection")
        data += more
    if data != reply:
        raise ServerFailed(f"kestrelpy answered {data[:60]!r}")


@contextmanager
def counted(python: str, place: Path) -> Iterator[Counted]:
    """Run the daemon under callgrind; raise ServerFailed."""
    command = [
        "valgrind", "--tool=callgrind", f"--callgrind-out-file={place}/callgrind.out",
        python, "-m", "kestrelpy", "serve", "--host", "127.0.0.1", "--port", "0",
        "--http-port", "off", "--data-dir", str(place / "data"),
    ]  # fmt: skip
    with (place / "log").open("wb") as out:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
            cwd=place, env=environment(python),
        )  # fmt: skip
    try:
        port = _wait_ready(process, place / "log")
        daemon = Counted(process.pid, port, place)
        yield daemon
        daemon.close()
    finally:
        process.kill()
        process.wait()


def _wait_ready(process: subprocess.Popen[bytes], log: Path) -> int:
    deadline = time.monotonic() + START_LIMIT_S
    while time.monotonic() < deadline and process.poll() is None:
        said = log.read_text(errors="replace")
        found = MEMCACHE_LISTENER.search(said)
        if found and READY.search(said):
            return int(found[1])
        time.sleep(POLL_S)
    raise ServerFailed(f"kestrelpy did not start: {log.read_text(errors='replace')[-500:]}")


def cost(daemon: Counted, request: bytes, reply: bytes) -> float:
    """Return the instructions of one request: of some rounds, and twice as many, subtracted."""
    few = daemon.rounds(request, reply, ROUNDS)
    many = daemon.rounds(request, reply, 2 * ROUNDS)
    return (many - few) / (ROUNDS * CONNECTIONS)


def fetch(key: bytes) -> tuple[bytes, bytes]:
    """Return a request for an item, and its reply."""
    return b"get %b\r\n" % key, b"VALUE %b 0 100\r\n%b\r\nEND\r\n" % (key, BODY)


def main(words: Sequence[str]) -> int:
    wanted = arguments(words)
    missing = [name for name in ("valgrind", "callgrind_control") if not shutil.which(name)]
    if missing:
        print(f"bench: no {missing[0]} (Debian package valgrind)", file=sys.stderr)
        return 1
    wanted.dir.mkdir(parents=True, exist_ok=True)
    place = Path(tempfile.mkdtemp(prefix="path-", dir=wanted.dir)).resolve()
    try:
        with counted(wanted.python, place) as daemon:
            daemon.rounds(SET, STORED, ROUNDS)
            stored = cost(daemon, SET, STORED)
            daemon.rounds(*fetch(OPEN), 1)
            daemon.rounds(*fetch(TAKE), ROUNDS // 2)
            taken = cost(daemon, *fetch(TAKE))
        print(f"a set  {stored:8.0f} user instructions\na take {taken:8.0f}")
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
