"""What a good client notices of a bad one: each attacker in turn, on a fresh daemon.

    victim    one connection: `version`, `set` and `get` in turn, a millisecond apart
    attacker  one process with one or many connections

The victim is measured alone and then with the attacker, on the same daemon. A ratio compares the
two p99. Memory is read while the attacker is there and after it has left.

One rule: a bad client does what the port accepts. Only the attackers that are named for it break
the protocol.
"""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import os
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, cycle
from pathlib import Path
from statistics import median
from typing import Final

from bench.daemon import Daemon, Line
from bench.figures import MIB, Figure
from bench.scenarios import Bench, Goals
from bench.servers import ServerFailed
from kestrelpy.examples.lines import Failed, Run
from kestrelpy.examples.results import expected_checksums, verdict

PAUSE_S: Final = 0.001
WARM_UP_S: Final = 0.5
AFTERWARDS_S: Final = 2.0
NICE: Final = 10  # the victim's own process must not wait for the attacker's
KINDS: Final = ("version", "set", "get")
MAIN_JOB_SEED: Final = 14
_READ_BYTES: Final = 1 << 16
_BODY_BYTES: Final = 8 << 20
_CONNECT_LIMIT_S: Final = 30.0
_LOOK_S: Final = 0.1
_PUMP_PAUSE_S: Final = 0.0005
_AGAIN_S: Final = 0.1
_WORKER_STARTS_S: Final = 1.0

Attack = Callable[[int], None]  # gets the port, and runs until its process is ended
Waits = dict[str, list[float]]


# -- the victim -----------------------------------------------------------------------------


def victim(line: Line, seconds: float) -> Waits:
    """Return how long each kind of request took, in ms, one request after the other."""
    waits: Waits = {kind: [] for kind in KINDS}
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for kind in KINDS:
            began = time.perf_counter()
            _ask(line, kind)
            waits[kind].append((time.perf_counter() - began) * 1000)
            time.sleep(PAUSE_S)
    return waits


def _ask(line: Line, kind: str) -> None:
    if kind == "version":
        wanted, answer = b"VERSION", line.ask(b"version\r\n")
    elif kind == "set":
        wanted, answer = b"STORED", line.ask(b"set victim 0 0 100\r\n%b\r\n" % bytes(100))
    else:
        wanted, answer = b"VALUE", line.ask(b"get victim\r\n")
        if answer.startswith(wanted):
            line.rest_of_item()
    if not answer.startswith(wanted):
        raise ServerFailed(f"the victim's {kind} was answered {answer[:80]!r}")


def quantile(waits: Sequence[float], share: float) -> float:
    """Return the wait that this share of all waits does not exceed."""
    ordered = sorted(waits)
    return ordered[min(math.ceil(share * len(ordered)), len(ordered)) - 1]


# -- attackers ------------------------------------------------------------------------------


def _connected(port: int, count: int) -> list[socket.socket]:
    found = []
    for _ in range(count):
        with contextlib.suppress(OSError):
            found.append(socket.create_connection(("127.0.0.1", port), _CONNECT_LIMIT_S))
            found[-1].setblocking(False)
    return found


def _hold(links: Sequence[socket.socket]) -> None:
    """Keep these connections and read nothing, until the server has ended them all."""
    while links:
        time.sleep(_LOOK_S)
        links = [link for link in links if not _has_ended(link)]


def _has_ended(link: socket.socket) -> bool:
    try:
        return not link.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    except OSError:
        return True


def _pump(port: int, count: int, data: bytes, reads: bool = True) -> None:
    """Send the same bytes without end over `count` connections, as fast as the server reads."""
    sent = dict.fromkeys(_connected(port, count), 0)
    while sent:
        moved = False
        for link in sent:
            with contextlib.suppress(BlockingIOError):
                sent[link] = (sent[link] + link.send(data[sent[link] :])) % len(data)
                moved = True
            if reads:
                with contextlib.suppress(BlockingIOError):
                    link.recv(_READ_BYTES)
        if not moved:
            time.sleep(_PUMP_PAUSE_S)


def _whole(line: bytes) -> bytes:
    """Return the line, repeated until a buffer is full."""
    return line * max(1, (256 << 10) // len(line))


def _floods(count: int, line: bytes, reads: bool = True) -> Attack:
    return lambda port: _pump(port, count, _whole(line), reads)


def _declarations(port: int) -> None:
    header = b"[" + b"a." * 20_000 + b"a]\n"
    body = (header + b"".join(b"k%d=1\n" % n for n in range(9000)))[: 64 << 10]
    _pump(port, 1, b"set q/declare 0 0 %d\r\n%b\r\n" % (len(body), body))


def _unread(port: int) -> None:
    """Fill a queue, ask for all of it on 200 connections, and never read."""
    filler = Line(port)
    for _ in range(1000):
        filler.send(b"set big 0 0 10240\r\n%b\r\n" % bytes(10 << 10))
        filler.line()
    links = _connected(port, 200)
    for link in links:
        link.send(b"get big/peek/after=0/n=10000\r\n" * 3)
    _hold(links)


def _stalled(port: int) -> None:
    """Send all but the last byte of a large body, on 200 connections."""
    left = dict.fromkeys(_connected(port, 200), _BODY_BYTES - 1)
    for number, link in enumerate(left):
        link.send(b"set big%d 0 0 %d\r\n" % (number, _BODY_BYTES))
    while left:
        for link, size in left.items():
            with contextlib.suppress(BlockingIOError):
                left[link] = size - link.send(bytes(min(size, 1 << 20))) if size else 0
        time.sleep(0.001 if any(left.values()) else _LOOK_S)
        if all(map(_has_ended, left)):
            return


def _many_queues(port: int) -> None:
    """Write a thousand queues at once from a thousand connections, one set in flight each."""
    links = _connected(port, 1000)
    sets = [b"set many%d 0 0 100\r\n%b\r\n" % (n, bytes(100)) for n in range(len(links))]
    for link, data in zip(links, sets, strict=True):
        link.send(data)
    while True:
        for link, data in zip(links, sets, strict=True):
            with contextlib.suppress(BlockingIOError):
                if not link.recv(_READ_BYTES):
                    return
                link.send(data)


def _wrong_protocol(port: int) -> None:
    """Send HTTP requests and binary packets, each on a connection of its own."""
    for data in cycle((b"GET / HTTP/1.1\r\n\r\n", b"\x80" + bytes(23))):
        with socket.create_connection(("127.0.0.1", port)) as link:
            link.sendall(data)
            with contextlib.suppress(ConnectionResetError):
                link.recv(_READ_BYTES)


def _idle_crowd(port: int) -> None:
    _hold(_connected(port, 9000))


_KEYS: Final = b"get" + b" a" * 4080 + b"\r\n"
_PEEKS: Final = b"get" + b" a/peek" * 1160 + b"\r\n"
_UNKNOWN: Final = b"get q/unknwon\r\n"
_REFUSED: Final = b"set q/nosuch 0 0 1 noreply\r\nx\r\n"

ATTACKS: Final[dict[str, Attack]] = {
    "quiet-touches": _floods(1, b"touch a 1 noreply\r\n"),
    "quiet-touches-x6": _floods(6, b"touch a 1 noreply\r\n"),
    "quiet-refused-sets": _floods(1, _REFUSED),
    "refused-gets-x20": _floods(20, b"get q/open/peek\r\n"),
    "unknown-options": _floods(1, _UNKNOWN),
    "get-4080-keys": _floods(1, _KEYS),
    "get-1160-peeks": _floods(1, _PEEKS),
    "declarations-64KiB": _declarations,
    "quiet-sets": _floods(1, b"set bulk 0 0 100 noreply\r\n%b\r\n" % bytes(100)),
    "unread-sets-x4": _floods(
        4, b"set bulk 0 0 100\r\n%b\r\n" % bytes(100), reads=False
    ),
    "unread-peeks-x200": _unread,
    "stalled-bodies-x200": _stalled,
    "queues-x1000": _many_queues,
    "wrong-protocols": _wrong_protocol,
    "idle-x9000": _idle_crowd,
}


def _run(attack: Attack, port: int) -> None:
    """Attack; begin again when the server has ended the connections, or was started again."""
    os.nice(NICE)
    while True:
        with contextlib.suppress(OSError, ServerFailed):
            attack(port)
        time.sleep(_AGAIN_S)


@contextlib.contextmanager
def attacking(names: Sequence[str], port: int) -> Iterator[None]:
    """Run these attackers, each in a process of its own."""
    fork = multiprocessing.get_context("fork")
    processes = [fork.Process(target=_run, args=(ATTACKS[n], port), daemon=True) for n in names]
    for process in processes:
        process.start()
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.join()


# -- what is found --------------------------------------------------------------------------


def beside(bench: Bench, name: str) -> list[Figure]:
    """Return what the victim notices of one attacker."""
    seconds = bench.sizes.attack_seconds
    config = "[queue_defaults]\nmax_item_size = \"8MiB\"\n"
    with Daemon(bench.parent, bench.python, config) as daemon:
        line = daemon.connect()
        victim(line, WARM_UP_S)
        before = daemon.memory_bytes()
        alone = victim(line, seconds)
        with attacking([name], daemon.port):
            time.sleep(WARM_UP_S)
            during = victim(line, seconds)
            most = daemon.memory_bytes("VmHWM")
        time.sleep(AFTERWARDS_S)
        after = daemon.memory_bytes()
    figures = []
    for kind in KINDS:
        first, then = quantile(alone[kind], 0.99), quantile(during[kind], 0.99)
        figures += [
            Figure(name, f"{kind}: p50", median(during[kind]), "ms"),
            Figure(name, f"{kind}: p99", then, "ms"),
            Figure(name, f"{kind}: p99 alone", first, "ms"),
            Figure(name, f"{kind}: p99 over alone", then / first, at_most=Goals.attack_ratio),
            Figure(name, f"{kind}: max", max(during[kind]), "ms", at_most=Goals.answer_ms),
        ]
    figures += [
        Figure(name, "memory at most, above before", (most - before) / MIB, "MiB"),
        Figure(name, "memory after it left, above before", (after - before) / MIB, "MiB",
               at_most=Goals.left_mib),
    ]  # fmt: skip
    bench.say(
        f"{name}: p99 {' '.join(f'{k} {quantile(during[k], 0.99):.1f}' for k in KINDS)} ms "
        f"(alone {' '.join(f'{quantile(alone[k], 0.99):.1f}' for k in KINDS)}), "
        f"max {max(chain.from_iterable(during.values())):.0f} ms, "
        f"{(most - before) / MIB:.0f} MiB, {(after - before) / MIB:.0f} MiB left"
    )
    return figures


# -- the main job ---------------------------------------------------------------------------

# All at once, while the main job runs.
CROWD: Final = (
    "quiet-touches-x6", "refused-gets-x20", "declarations-64KiB", "stalled-bodies-x200",
    "wrong-protocols", "idle-x9000",
)  # fmt: skip


class CrowdedRun(Run):
    """The main job, with attackers that begin when its daemon listens."""

    def __init__(self, folder: Path, lines: int, seed: int, names: Sequence[str]) -> None:
        super().__init__(folder, lines, seed)
        self._names = names
        self._crowd = contextlib.ExitStack()
        self.seconds = 0.0

    def start(self, name: str) -> None:
        super().start(name)
        if name == "daemon":
            self._crowd.close()
            self._crowd.enter_context(attacking(self._names, self.servers[0][1]))

    def end(self) -> None:
        self.seconds = time.monotonic() - self.began
        self._crowd.close()
        time.sleep(_WORKER_STARTS_S)  # one that was killed last may not hear SIGTERM yet
        super().end()

    def kill_all(self) -> None:
        self._crowd.close()
        super().kill_all()


def main_job(bench: Bench) -> list[Figure]:
    """Return the figures of lines of real text through four workers with kills, alone and with a
    crowd."""
    count = bench.sizes.main_job_lines
    expected = expected_checksums(count)
    seconds, lost = [], 0
    for names in ((), CROWD):
        folder = Path(tempfile.mkdtemp(prefix="lines-", dir=bench.parent))
        run = CrowdedRun(folder, len(expected), MAIN_JOB_SEED, names)
        try:
            run.run()
        except Failed as failure:
            raise ServerFailed(str(failure)) from failure
        finally:
            run.kill_all()
            shutil.rmtree(folder, ignore_errors=True)
        seconds.append(run.seconds)
        sentences, holds = verdict(expected, run.results, run.reasons)
        lost += not holds
        bench.say(f"{' '.join(names) or 'alone'}: {seconds[-1]:.1f} s; {' '.join(sentences)}")
    where = f"main job, {len(expected):,} lines"
    return [
        Figure(where, "alone", seconds[0], "s"),
        Figure(where, "beside a crowd", seconds[1], "s"),
        Figure(where, "beside a crowd over alone", seconds[1] / seconds[0],
               at_most=Goals.main_job_ratio),
        Figure(where, "runs in which anything was lost", float(lost), at_most=0.0),
    ]  # fmt: skip
