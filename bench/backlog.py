"""A backlog far larger than memory: its cost, the rates of storing and draining, a restart.

    A  holds the backlog               B  holds little
    set       A B | B A | A B …        into the backlog's end; into an empty queue
    drain     A B | B A | A B …        the backlog's beginning; a queue that fits in memory

B begins with segments as large as A's have become, so that both prepare segments as often; a turn
begins when neither prepares one.

One rule: a ratio is taken within a round, in which the turns follow each other at once, and the
median over the rounds counts.
"""

import time
from statistics import median

from bench.daemon import Daemon
from bench.figures import MIB, Figure
from bench.scenarios import Bench, Goals
from bench.servers import ServerFailed

IN_MEMORY_BYTES = 16 << 20  # far less than memory
LOADS = {100: "100 B", 10 << 10: "10 KiB"}


def backlog(bench: Bench, body_bytes: int, items: int) -> list[Figure]:
    """Return all figures of one backlog."""
    where = f"{items:,} x {LOADS[body_bytes]}"
    with Daemon(bench.parent, bench.python) as full:
        bench.load("memcache-set", full.port, "warm", ops=1000, body_bytes=body_bytes)
        empty = full.memory_bytes()
        stored = bench.load(
            "memcache-set", full.port, "backlog", ops=items, body_bytes=body_bytes, in_flight=16
        )
        bench.say(f"{where}: stored at {stored.ops_per_s:,.0f}/s")

        def above_empty(name: str, kind: str, at_most: float) -> Figure:
            found = (full.memory_bytes(kind) - empty) / MIB
            return Figure(where, f"{name} above the empty daemon", found, "MiB", at_most=at_most)

        figures = [
            above_empty("memory", "VmRSS", Goals.memory_mib),
            Figure(where, "disk over bytes of bodies", full.disk_bytes() / (items * body_bytes)),
        ]
        # On the disk a file may take a little more than its segment.
        largest = min(full.largest_segment_bytes(), int(64 * MIB))
        config = f"[journal]\nsegment_min = {largest}\n"
        with Daemon(bench.parent, bench.python, config) as small:
            figures += _rates(bench, where, full, small, body_bytes, items)
        figures.append(above_empty("most memory", "VmHWM", Goals.peak_memory_mib))
        full.kill()
        seconds = _first_item_seconds(full)
        figures += [
            Figure(where, "kill -9, start to the first item served", seconds, "s",
                   at_most=Goals.first_item_s),
            above_empty("memory after that", "VmRSS", Goals.memory_mib),
        ]  # fmt: skip
    return figures


def _rates(
    bench: Bench, where: str, full: Daemon, small: Daemon, body_bytes: int, items: int
) -> list[Figure]:
    sets: dict[Daemon, list[float]] = {}
    drains: dict[Daemon, list[float]] = {}
    rounds, seconds = bench.sizes.rounds, bench.sizes.seconds
    fits = min(IN_MEMORY_BYTES // body_bytes, items)
    drained = min(items // rounds, fits)
    turns = [full, small]
    for daemon in turns:  # both have a sync thread, and a segment to write to
        bench.load("memcache-set", daemon.port, "warm", ops=1000, body_bytes=body_bytes)
    _fill_and_empty(bench, small, "empty", 1000, body_bytes)
    for number in range(rounds):
        ordered = turns if number % 2 == 0 else turns[::-1]
        for daemon in ordered:
            full.wait_until_steady()
            small.wait_until_steady()
            queue = "backlog" if daemon is full else "empty"
            done = bench.load(
                "memcache-set", daemon.port, queue, seconds=seconds, body_bytes=body_bytes, seed=2
            )
            sets.setdefault(daemon, []).append(done.ops_per_s)
            if daemon is small:
                bench.load(
                    "memcache-consume", small.port, queue, ops=done.ops, body_bytes=body_bytes,
                    seed=2,
                )  # fmt: skip
        bench.load("memcache-set", small.port, "fits", ops=drained, body_bytes=body_bytes)
        for daemon in ordered:
            full.wait_until_steady()
            small.wait_until_steady()
            queue = "backlog" if daemon is full else "fits"
            done = bench.load(
                "memcache-consume", daemon.port, queue, ops=drained, body_bytes=body_bytes
            )
            drains.setdefault(daemon, []).append(done.ops_per_s)
        bench.say(f"{where}: round {number + 1} of {rounds}")
    return [
        Figure(where, "sets with it over sets without", _ratio(sets[full], sets[small]),
               at_least=Goals.set_ratio),
        Figure(where, "sets with it", median(sets[full]), "/s"),
        Figure(where, "draining it over draining from memory",
               _ratio(drains[full], drains[small]), at_least=Goals.drain_ratio),
        Figure(where, "draining it", median(drains[full]), "/s"),
    ]  # fmt: skip


def _ratio(these: list[float], those: list[float]) -> float:
    """Return the median of the ratios, each taken within a round."""
    return median(one / other for one, other in zip(these, those, strict=True))


def _fill_and_empty(
    bench: Bench, daemon: Daemon, queue: str, items: int, body_bytes: int
) -> None:
    for dialect in ("memcache-set", "memcache-consume"):
        bench.load(dialect, daemon.port, queue, ops=items, body_bytes=body_bytes)


def _first_item_seconds(daemon: Daemon) -> float:
    """Return the seconds from the start of the process to the first item."""
    began = time.monotonic()
    daemon.start()
    line = daemon.connect()
    if not line.ask(b"get backlog/open\r\n").startswith(b"VALUE "):
        raise ServerFailed("the backlog is empty after a restart")
    line.rest_of_item()
    took = time.monotonic() - began
    line.close()
    return took
