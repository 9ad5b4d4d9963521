"""`python -m bench stalls`: the longest wait of another client during one costly operation.

    begin      once per daemon: the state that all rounds share
    prepare    before each round: the state that the operation uses up
    run        the operation, on one connection, until it has been answered

A probe asks `version` every millisecond from a process of its own. Each round gives its worst wait
in an idle second before `run`, and its worst from the beginning of `run` until a little after its
answer, so that work put off by the answer counts. The median over the rounds is shown.

One rule: an operation is one `Operation` in a table. `bench/stalls_server.py` has those of the
server, `bench/stalls_queue.py` those of a queue, `bench/stalls_http.py` those of HTTP.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Final

from bench.daemon import Daemon, Line
from bench.figures import Figure
from bench.probe import Probe, Wait
from bench.scenarios import Bench, Goals
from bench.servers import ServerFailed, free_port

IDLE_S: Final = 1.0
# Work that an answer leaves for later (a snapshot, a removal, a wake-up) begins within this time.
AFTER_S: Final = 0.3
AT_ONCE: Final = 200  # requests sent before their answers are read
COUNT_MIN: Final = 20


class Stage:
    """One running daemon, one connection to it, and the scale of the run."""

    def __init__(self, bench: Bench, daemon: Daemon) -> None:
        self.bench = bench
        self.daemon = daemon
        self.line: Line = daemon.connect()

    def count(self, full: int) -> int:
        """Return the number for this run; a full run has `full`."""
        return scaled(self.bench, full)

    def fill(self, queue: str, items: int, body_bytes: int = 26) -> None:
        """Store items in a queue, with the load generator."""
        self.bench.load("memcache-set", self.daemon.port, queue, ops=items,
                        body_bytes=body_bytes, in_flight=64)  # fmt: skip

    def say(self, requests: list[bytes], answer: bytes) -> None:
        """Send all requests, many at once; raise ServerFailed unless each has this answer."""
        for first in range(0, len(requests), AT_ONCE):
            some = requests[first : first + AT_ONCE]
            self.line.send(b"".join(some))
            for request in some:
                self.expect(request, answer)

    def ask(self, request: bytes, answer: bytes) -> None:
        """Send one request; raise ServerFailed unless it has this answer."""
        self.line.send(request)
        self.expect(request, answer)

    def expect(self, request: bytes, answer: bytes) -> None:
        """Read one line; raise ServerFailed unless it is this answer."""
        if (found := self.line.line()) != answer:
            what = request[:60].decode(errors="replace").strip()
            raise ServerFailed(f"{what}: {found.decode(errors='replace')}")


def nothing(stage: Stage) -> None:
    """Prepare nothing."""


@dataclass(frozen=True)
class Operation:
    """One operation that could hold up the loop. `{}` in its title: `size` of them."""

    title: str
    size: int  # the size of the state of a full run, for the title
    run: Callable[[Stage], None]
    begin: Callable[[Stage], None] = nothing
    prepare: Callable[[Stage], None] = nothing
    rounds: int = 3
    config: str = ""
    # Prepare another daemon for every round: the state cannot be made again in the same one.
    is_fresh_each: bool = False
    has_http: bool = False


@dataclass(frozen=True)
class Round:
    """The waits that the probe noticed in one round; `took_s`: the operation itself."""

    idle: list[Wait]
    during: list[Wait]
    took_s: float


def scaled(bench: Bench, full: int) -> int:
    """Return the number for this run; a full run has `full`."""
    return max(COUNT_MIN, round(full * bench.sizes.stall_scale))


def stall(bench: Bench, operation: Operation) -> list[Figure]:
    """Run an operation for all its rounds; return its figures."""
    title = operation.title.format(f"{scaled(bench, operation.size):,}")
    wanted = min(operation.rounds, bench.sizes.rounds)
    rounds: list[Round] = []
    while len(rounds) < wanted:
        http_port = free_port() if operation.has_http else None
        with Daemon(
            bench.parent, bench.python, operation.config, http_port=http_port
        ) as daemon:
            stage = Stage(bench, daemon)
            operation.begin(stage)
            for _ in range(1 if operation.is_fresh_each else wanted):
                operation.prepare(stage)
                rounds.append(_round(stage, operation))
                bench.say(f"{title}: {_worst(rounds[-1].during):.1f} ms, "
                          f"idle {_worst(rounds[-1].idle):.1f} ms")  # fmt: skip
            stage.line.close()
    during = [each.during for each in rounds]
    idle = [each.idle for each in rounds]
    return [
        Figure(title, "worst wait", median(map(_worst, during)), "ms", at_most=Goals.slice_ms),
        Figure(title, "worst wait of all rounds", max(map(_worst, during)), "ms"),
        Figure(title, "99 of 100 waits", median(map(_p99, during)), "ms"),
        Figure(title, "worst wait, idle", median(map(_worst, idle)), "ms"),
        Figure(title, "99 of 100 waits, idle", median(map(_p99, idle)), "ms"),
        Figure(title, "the operation", median(each.took_s for each in rounds), "s"),
    ]


def _round(stage: Stage, operation: Operation) -> Round:
    stage.daemon.wait_until_steady()
    with Probe(stage.daemon.port) as probe:
        rested = time.monotonic()
        time.sleep(IDLE_S)
        began = time.monotonic()
        operation.run(stage)
        ended = time.monotonic()
        time.sleep(AFTER_S)
        over = time.monotonic()
        waits = probe.waits()
    idle = [each for each in waits if rested <= each.asked_s < began - each.took_s]
    # A probe may have been asked just before the operation, and been held up by it.
    during = [each for each in waits if began - each.took_s <= each.asked_s < over]
    if not idle or not during:
        raise ServerFailed(f"{operation.title}: the probe was never answered")
    return Round(idle, during, ended - began)


def _worst(waits: list[Wait]) -> float:
    return max(each.took_s for each in waits) * 1000


def _p99(waits: list[Wait]) -> float:
    ordered = sorted(each.took_s for each in waits)
    return ordered[min(len(ordered) * 99 // 100, len(ordered) - 1)] * 1000
