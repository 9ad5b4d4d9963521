"""Very many delayed items: the memory of each, and how late they come.

    a million, due in an hour or more          their memory, and a start with all of them
    some that are due soon, one after another  how late each reaches a waiting consumer
    10,000 sets a second into another queue    all the while

Lateness is the time from the moment an item was due (`at=`, wall clock) to its first byte at a
waiting consumer. It includes the sync of its release.

One rule: daemon and consumer run on one machine, so they have the same clock.
"""

import os
import tempfile
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from statistics import median

from bench.daemon import Daemon, Line
from bench.figures import Figure
from bench.scenarios import Bench, Goals
from bench.servers import ServerFailed

AT_ONCE = 500  # requests sent before their answers are read
BODY = b"x" * 100
FAR_SECONDS = 3600  # these are not due while the bench runs
SPREAD_SECONDS = 36_000
FIRST_SECONDS = 3  # until the first of those that come due
DUE_PER_S = 200
SETS_PER_S = 10_000
BATCHES_PER_S = 100
SYNC_PROBES = 200


def delayed(bench: Bench) -> list[Figure]:
    """Return all figures."""
    many, seconds = bench.sizes.delayed_items, bench.sizes.delayed_seconds
    where = f"{many:,} delayed"
    sync_ms = _sync_ms(bench.parent)
    with Daemon(bench.parent, bench.python) as daemon:
        line = daemon.connect()
        _put(line, [1.0] * 1000)  # the memory that any use takes is there
        if line.ask(b"flush jobs\r\n") != b"END":
            raise ServerFailed("no flush")
        before, began = daemon.memory_bytes(), time.monotonic()
        now = time.time()
        step = SPREAD_SECONDS / many
        # In no order of their dates: 7919 and `many` have no divisor in common.
        _put(line, (now + FAR_SECONDS + n * 7919 % many * step for n in range(many)))
        stored = many / (time.monotonic() - began)
        counted = int(line.stats(b"jobs")["delayed"])
        if counted != many:
            raise ServerFailed(f"{counted} delayed, and not {many}")
        daemon.wait_until_steady()
        each = (daemon.memory_bytes() - before) / many
        bench.say(f"{where}: stored at {stored:,.0f}/s")
        late_ms, sets = _lateness(daemon, line, seconds)
        line.close()
        daemon.kill()
        restart = daemon.start()
        line = daemon.connect()
        if int(line.stats(b"jobs")["delayed"]) != many:
            raise ServerFailed("delayed items are gone after a restart")
        line.close()
    late_ms.sort()
    goal = Goals.late_ms + sync_ms
    return [
        Figure(where, "stored, one connection", stored, "/s"),
        Figure(where, "memory of each", each, "B", at_most=Goals.delayed_bytes),
        Figure(where, "sets a second meanwhile", sets, "/s", at_least=SETS_PER_S * 0.98),
        Figure(where, "a write and a sync here, median", sync_ms, "ms"),
        Figure(where, "late, median", median(late_ms), "ms", at_most=goal),
        Figure(where, "late, 99 of 100", late_ms[len(late_ms) * 99 // 100], "ms", at_most=goal),
        Figure(where, "late, at most", late_ms[-1], "ms"),
        Figure(where, "start after kill -9", restart, "s"),
    ]


def _put(line: Line, dates: Iterable[float]) -> None:
    """Store an item for each of these dates (unix seconds)."""
    some: list[bytes] = []
    for date in dates:
        some.append(b"set jobs/at=%.3f 0 0 %d\r\n%b\r\n" % (date, len(BODY), BODY))
        if len(some) == AT_ONCE:
            _say(line, some)
    _say(line, some)


def _say(line: Line, requests: list[bytes]) -> None:
    line.send(b"".join(requests))
    for _ in requests:
        if (found := line.line()) != b"STORED":
            raise ServerFailed(found.decode(errors="replace"))
    requests.clear()


def _lateness(daemon: Daemon, line: Line, seconds: float) -> tuple[list[float], float]:
    """Return how late each of many small delays came, in ms, and the sets a second meanwhile."""
    ends = threading.Event()
    sets: list[float] = []
    storing = threading.Thread(target=_store, args=(daemon, ends, sets))
    storing.start()
    try:
        first, count = time.time() + FIRST_SECONDS, int(seconds * DUE_PER_S)
        due = [round(first + n / DUE_PER_S, 3) for n in range(count)]
        for start in range(0, count, AT_ONCE):
            _put(line, due[start : start + AT_ONCE])
        late = []
        for date in due:
            line.send(b"get jobs/t=60s\r\n")
            if not line.line().startswith(b"VALUE "):
                raise ServerFailed("an item that was due did not come in a minute")
            late.append((time.time() - date) * 1000)
            line.rest_of_item()
    finally:
        ends.set()
        storing.join()
    return late, sets[0]


def _store(daemon: Daemon, ends: threading.Event, sets: list[float]) -> None:
    """Send 10,000 sets a second into another queue until the end; count them in `sets`."""
    line, size = daemon.connect(), SETS_PER_S // BATCHES_PER_S
    batch = b"set others 0 0 %d\r\n%b\r\n" % (len(BODY), BODY) * size
    began, done = time.monotonic(), 0
    while not ends.is_set():
        line.send(batch)
        for _ in range(size):
            line.line()
        done += size
        time.sleep(max(began + done / SETS_PER_S - time.monotonic(), 0))
    sets.append(done / (time.monotonic() - began))
    line.close()


def _sync_ms(folder: Path) -> float:
    """Return the median time of an append of 100 bytes and its sync now."""
    times = []
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        for _ in range(SYNC_PROBES):
            began = time.perf_counter()
            os.write(file.fileno(), bytes(100))
            os.fdatasync(file.fileno())
            times.append((time.perf_counter() - began) * 1000)
    return median(times)
