"""Open pages: the cost of a hundred for the daemon and its producers, and many queues.

    pages    100 streams of /events, half of them the overview: the daemon's share of a core while a
             setter sets, and the rate of sets of 50 connections, with them and without, in turns
    crowd    10,000 queues: the overview and the first 100 rows, as the server makes them

One rule: a figure with pages is compared with one without pages of the same round.
"""

from __future__ import annotations

import json
import os
import select
import time
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

from bench.daemon import Daemon
from bench.figures import Figure
from bench.scenarios import Bench, Goals
from bench.servers import ServerFailed, free_port
from bench.web import HttpLine, at_work, request

STREAMS: Final = 100
VIEWS: Final = ("overview", "queues")
OPEN_LIMIT_S: Final = 60.0
SETS_PER_SECOND: Final = 20  # the figures of the pages change
FEW_QUEUES: Final = 20
_READ_BYTES: Final = 1 << 20


class _Sets(NamedTuple):
    """A turn of sets: how many a second, and the processor time that the daemon took for each."""

    a_second: float
    cpu_seconds: float


def pages(bench: Bench) -> list[Figure]:
    """Return the cost of open pages."""
    idle, watched = list[float](), list[float]()
    alone, beside = list[_Sets](), list[_Sets]()
    with Daemon(bench.parent, bench.python, http_port=free_port()) as daemon:
        _store(daemon, FEW_QUEUES)
        for _ in range(bench.sizes.web_rounds):
            idle.append(_share(daemon, bench.sizes.web_seconds))
            alone.append(_set(bench, daemon))
            with at_work(_streams, daemon.http_port or 0) as count:
                _wait_for(count, STREAMS)
                watched.append(_share(daemon, bench.sizes.web_seconds))
                beside.append(_set(bench, daemon))
        bench.say(f"pages: {daemon.memory_bytes() >> 20} MiB")
    added = median(b - a for a, b in zip(idle, watched, strict=True))
    rounds = list(zip(alone, beside, strict=True))
    ratio = median(b.a_second / a.a_second for a, b in rounds)
    effort = median(b.cpu_seconds / a.cpu_seconds for a, b in rounds)
    where = f"{STREAMS} open pages, {SETS_PER_SECOND} sets a second"
    return [
        Figure(where, "share of a core without pages", median(idle) * 100, "%"),
        Figure(where, "share of a core", median(watched) * 100, "%"),
        Figure(where, "share of a core above without", added * 100, "%",
               at_most=Goals.pages_core_percent),
        Figure(f"{STREAMS} open pages", "sets with 50 connections over those without", ratio,
               at_least=Goals.pages_set_ratio),
        Figure(f"{STREAMS} open pages", "the daemon's time for a set over that without", effort),
    ]  # fmt: skip


def crowd(bench: Bench) -> list[Figure]:
    """Return how long the server takes for the first views of many queues."""
    took: dict[str, list[float]] = {view: [] for view in VIEWS}
    with Daemon(bench.parent, bench.python, _IN_MEMORY, http_port=free_port()) as daemon:
        _store(daemon, bench.sizes.queues)
        line = HttpLine(daemon.http_port or 0)
        _wait_for_sampler(line, bench.sizes.queues)
        for number in range(max(bench.sizes.web_rounds, 3)):
            for view in VIEWS:
                # An offset of its own: no round finds the order that another one made.
                more = f"&offset={number + 1}" if view == "queues" else ""
                asked = request("GET", f"/views?view={view}{more}")
                began = time.perf_counter()
                line.ask(asked, 200)
                took[view].append((time.perf_counter() - began) * 1000)
        line.close()
        bench.say(f"crowd: {daemon.memory_bytes() >> 20} MiB")
    where = f"{bench.sizes.queues:,} queues"
    return [
        Figure(where, f"{view}, the slowest of {len(took[view])}", max(took[view]), "ms",
               at_most=Goals.crowd_view_ms)
        for view in VIEWS
    ]  # fmt: skip


_IN_MEMORY: Final = "[queue_defaults]\ndurable = false\n"


def _store(daemon: Daemon, queues: int) -> None:
    line = daemon.connect()
    for number in range(queues):
        line.ask(b"set q%05d 0 0 1\r\nx\r\n" % number)
    line.close()


def _wait_for_sampler(line: HttpLine, queues: int) -> None:
    """Wait until the sampler, which looks at 500 queues a second, has seen all of them."""
    until = time.monotonic() + OPEN_LIMIT_S + queues / 100
    while json.loads(line.ask(request("GET", "/views?view=queues&limit=1"), 200))["total"] < queues:
        if time.monotonic() > until:
            raise ServerFailed("the sampler has not seen all queues")
        time.sleep(0.5)


def _share(daemon: Daemon, seconds: float) -> float:
    """Return the share of a core that the daemon takes while a setter sets now and then."""
    line, used, began = daemon.connect(), _cpu_seconds(daemon.pid), time.monotonic()
    number = 0
    while time.monotonic() < began + seconds:
        line.ask(b"set q%05d 0 0 1\r\nx\r\n" % (number % FEW_QUEUES))
        number += 1
        time.sleep(max(began + number / SETS_PER_SECOND - time.monotonic(), 0))
    line.close()
    return (_cpu_seconds(daemon.pid) - used) / (time.monotonic() - began)


def _cpu_seconds(pid: int) -> float:
    """Return the processor time that the threads of a process have used."""
    tasks = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(each.read_text().split()[0]) for each in tasks) / 1e9


def _set(bench: Bench, daemon: Daemon) -> _Sets:
    """Set with 50 connections as fast as possible."""
    used = _cpu_seconds(daemon.pid)
    done = bench.load("memcache-set", daemon.port, "load", seconds=bench.sizes.web_seconds)
    return _Sets(done.ops_per_s, (_cpu_seconds(daemon.pid) - used) / max(done.ops, 1))


def _wait_for(count: Any, wanted: int) -> None:
    """Wait until the wanted number of streams have had their first view."""
    until = time.monotonic() + OPEN_LIMIT_S
    while count.value < wanted:
        if time.monotonic() > until:
            raise ServerFailed(f"{count.value} of {wanted} streams began")
        time.sleep(0.05)


def _streams(port: int, count: Any) -> None:
    """Open the streams, and read all that they send."""
    lines = [HttpLine(port) for _ in range(STREAMS)]
    for number, line in enumerate(lines):
        line.send(request("GET", f"/events?view={VIEWS[number % len(VIEWS)]}"))
    begun = set[HttpLine]()
    while True:
        for line in select.select(lines, [], [])[0]:
            if not os.read(line.fileno(), _READ_BYTES):
                raise ServerFailed("a stream has ended")
            begun.add(line)
            count.value = len(begun)
