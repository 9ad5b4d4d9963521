"""One item stays open at the head while work goes on after it: the disk must not keep history.

    returned   leases by the hundred thousand, opened and given back; nothing is ever confirmed
    consumed   all items after the stuck one are stored, fetched and confirmed

One rule: used disk is compared, again and again during the run, with twice the bytes that are
alive then and four segments of the largest size of that moment.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bench.daemon import Daemon, Line
from bench.figures import MIB, Figure
from bench.scenarios import Bench, Goals
from bench.servers import ServerFailed

BODY_BYTES = 100
RECORD_BYTES = 64  # around a body, in the log
RETURNED_ITEMS = 1000
SAMPLE_S = 0.1


class Watch:
    """A watch of the disk while something else goes on."""

    def __init__(self, daemon: Daemon, queue: bytes) -> None:
        self._daemon = daemon
        self._queue = queue
        self._line = daemon.connect()
        self.ratios: list[float] = []
        self.used: list[int] = []

    def look(self) -> None:
        """Take one sample. Ready and leased items are alive."""
        facts = self._line.stats(self._queue)
        items = int(facts["items"]) + int(facts["leased"])
        allowed = 2 * items * (BODY_BYTES + RECORD_BYTES) + 4 * self._daemon.largest_segment_bytes()
        self.used.append(self._daemon.disk_bytes())
        self.ratios.append(self.used[-1] / max(allowed, 1))

    @contextmanager
    def during(self) -> Iterator[None]:
        """Take samples until the end of the block, and one more."""
        over = threading.Event()

        def look_repeatedly() -> None:
            while not over.wait(SAMPLE_S):
                self.look()

        thread = threading.Thread(target=look_repeatedly, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
            self.look()


def stuck(bench: Bench) -> list[Figure]:
    """Return the figures of both scenarios."""
    config = (
        f'[journal]\nsegment_max = "{bench.sizes.segment_max}"\n'
        '[queue_defaults]\nlease = "none"\nmax_attempts = "none"\n'
    )
    figures = []
    works: dict[str, tuple[int, Callable[[Bench, Daemon], None]]] = {
        f"{bench.sizes.leases:,} leases returned behind a stuck item": (RETURNED_ITEMS, _return),
        f"{bench.sizes.stuck_items:,} consumed behind a stuck item": (
            bench.sizes.stuck_items,
            _consume,
        ),
    }
    for where, (items, work) in works.items():
        with Daemon(bench.parent, bench.python, config) as daemon:
            bench.load("memcache-set", daemon.port, "jobs", ops=items, in_flight=4)
            holder = _hold_first(daemon)
            watch = Watch(daemon, b"jobs")
            with watch.during():
                work(bench, daemon)
            holder.close()
        bench.say(f"{where}: {len(watch.used)} looks at the disk")
        figures += [
            Figure(where, "disk over 2 x live + 4 segments, the worst", max(watch.ratios),
                   at_most=Goals.disk_ratio),
            Figure(where, "the same at the end", watch.ratios[-1], at_most=Goals.disk_ratio),
            *(
                Figure(where, f"disk at {quarter} %",
                       watch.used[(len(watch.used) - 1) * quarter // 100] / MIB, "MiB")
                for quarter in (25, 50, 75, 100)
            ),
        ]  # fmt: skip
    return figures


def _hold_first(daemon: Daemon) -> Line:
    line = daemon.connect()
    if not line.ask(b"get jobs/open\r\n").startswith(b"VALUE "):
        raise ServerFailed("there is nothing to hold open")
    line.rest_of_item()
    return line


def _return(bench: Bench, daemon: Daemon) -> None:
    bench.load("memcache-return", daemon.port, "jobs", ops=bench.sizes.leases)


def _consume(bench: Bench, daemon: Daemon) -> None:
    bench.load("memcache-consume", daemon.port, "jobs", ops=bench.sizes.stuck_items - 1)
