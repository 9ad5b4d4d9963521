"""One look at the queues for all who watch: the figures of the server, and of its queues.

    each second: the next 500 queues ──▶ a row each ──▶ sums ──▶ the server's rings
                                              └──▶ rings of the 500 most recently active queues

With more than 500 queues a round takes several seconds, and the rates are those of the last round.

One rule: a tick looks at a bounded number of queues, and changes nothing.
"""

from __future__ import annotations

from math import nan
from typing import Final, NamedTuple

from kestrelpy.core import Broker, Queue
from kestrelpy.http.live.rings import RANGES, Ring, Rings
from kestrelpy.http.metrics import COLUMNS, row_of

PER_TICK: Final = 500
KEPT_QUEUES: Final = 500
_SECOND_MS: Final = 1000


class Row(NamedTuple):
    """The figures of a queue: six that only grow, then what there is now."""

    stored: int = 0
    delivered: int = 0
    confirmed: int = 0
    expired: int = 0
    dead_total: int = 0
    duplicates: int = 0
    ready: int = 0
    delayed: int = 0
    leased: int = 0
    dead: int = 0
    keys_blocked: int = 0
    age_ms: int = 0


RATES: Final = Row._fields[:6]
STATES: Final = ("ready", "delayed", "leased", "dead")
QUEUE_SERIES: Final = ("stored", "delivered", "confirmed", *STATES, "age_ms")
SERVER_SERIES: Final = (*RATES, *STATES, "age_ms", "sync_p99_ms", "disk_free")
_PLACES: Final = [COLUMNS[name] for name in Row._fields]
_NO_ROW: Final = Row()


def figures_of(queue: Queue, now_ms: int) -> Row:
    """Return the figures of a queue."""
    row = row_of(queue, now_ms)
    return Row(*[row[place] for place in _PLACES])


def percentile(counts: list[int], part: float) -> int:
    """Return a bound that this part of the values keeps: `counts[b]` have b bits."""
    left = sum(counts) * part
    for bits, count in enumerate(counts):
        left -= count
        if count and left <= 0:
            return (1 << bits) - 1
    return 0


class Kept:
    """What is kept of an active queue: its last hour, and its rates since the look before."""

    __slots__ = ("_at_ms", "rates", "ring")

    def __init__(self) -> None:
        self.ring = Ring(QUEUE_SERIES, RANGES["1h"], "f")
        self.rates = dict.fromkeys(RATES, 0.0)
        self._at_ms = 0

    def see(self, now_ms: int, row: Row, events: list[int]) -> None:
        """Count a look in: `events` are those since the look before."""
        seconds = max(now_ms - self._at_ms, _SECOND_MS) / _SECOND_MS if self._at_ms else 1.0
        self._at_ms = now_ms
        self.rates = {name: count / seconds for name, count in zip(RATES, events, strict=True)}
        self.ring.add(now_ms, [
            self.rates["stored"], self.rates["delivered"], self.rates["confirmed"],
            row.ready, row.delayed, row.leased, row.dead, row.age_ms,
        ])  # fmt: skip


class Sampler:
    """The samples of one server."""

    __slots__ = (
        "_at", "_begun_ms", "_events", "_names", "_oldest_ms", "_syncs", "kept", "oldest_ms",
        "rates", "rings", "rounds", "rows", "states", "ticks",
    )  # fmt: skip

    def __init__(self) -> None:
        self.ticks = 0
        self.rounds = 0
        self.rows: dict[bytes, Row] = {}  # of every queue, as the last look saw it
        self.rates = dict.fromkeys(RATES, 0.0)  # events a second, in the last whole round
        self.states = dict.fromkeys(STATES, 0)  # items
        self.oldest_ms = 0  # age of the oldest item that waits
        self.kept: dict[bytes, Kept] = {}  # the most recently active queue is the last one
        self.rings = Rings(SERVER_SERIES, tuple(RANGES))
        self._names: list[bytes] = []  # of this round
        self._at = 0
        self._events = [0] * len(RATES)  # in this round
        self._begun_ms = 0
        self._oldest_ms = 0
        self._syncs: list[int] = []

    def look(self, broker: Broker, now_ms: int, sync_us: list[int], disk_free: int | None) -> None:
        """Take the sample of this second. `sync_us` is the server's histogram of syncs."""
        self.ticks += 1
        if self._at >= len(self._names):
            self._begin_round(broker, now_ms)
        for name in self._names[self._at : self._at + PER_TICK]:
            self._see(name, broker.queues.get(name), now_ms)
        self._at += PER_TICK
        if self._at >= len(self._names):
            self.rounds += 1
            self.oldest_ms = self._oldest_ms
        self.rings.add(now_ms, [
            *self.rates.values(), *self.states.values(), self.oldest_ms,
            self._sync_p99_ms(sync_us), nan if disk_free is None else disk_free,
        ])  # fmt: skip

    def _begin_round(self, broker: Broker, now_ms: int) -> None:
        """Say what the round before counted, and begin the next one."""
        if self.rounds > 1 and now_ms > self._begun_ms:
            seconds = (now_ms - self._begun_ms) / _SECOND_MS
            self.rates = {
                name: count / seconds for name, count in zip(RATES, self._events, strict=True)
            }
        for name in [each for each in self.rows if each not in broker.queues]:
            self._forget(name)
        self._names, self._at = list(broker.queues), 0
        self._events, self._begun_ms, self._oldest_ms = [0] * len(RATES), now_ms, 0

    def _see(self, name: bytes, queue: Queue | None, now_ms: int) -> None:
        """Count the figures of this queue in."""
        if queue is None:
            self._forget(name)
            return
        before, row = self.rows.get(name, _NO_ROW), figures_of(queue, now_ms)
        self.rows[name] = row
        self._oldest_ms = max(self._oldest_ms, row.age_ms)
        for state in STATES:
            self.states[state] += getattr(row, state) - getattr(before, state)
        if not self.rounds:
            return  # what was counted before the first look did not happen now
        if row.stored < before.stored:  # deleted and made again
            before = _NO_ROW
        events = [row[at] - before[at] for at in range(len(RATES))]
        if any(events):
            self._events = [old + new for old, new in zip(self._events, events, strict=True)]
            self._keep(name)
        if (kept := self.kept.get(name)) is not None:
            kept.see(now_ms, row, events)

    def _keep(self, name: bytes) -> None:
        """This queue is active: keep its past, and forget that of the queue that was not so for
        the longest time."""
        self.kept[name] = self.kept.pop(name) if name in self.kept else Kept()
        if len(self.kept) > KEPT_QUEUES:
            del self.kept[next(iter(self.kept))]

    def _forget(self, name: bytes) -> None:
        row = self.rows.pop(name, _NO_ROW)
        for state in STATES:
            self.states[state] -= getattr(row, state)
        self.kept.pop(name, None)

    def _sync_p99_ms(self, sync_us: list[int]) -> float:
        """Return what 99 of 100 syncs since the last look took at most."""
        counts = sync_us[:-1]
        new = [now - old for now, old in zip(counts, self._syncs or counts, strict=True)]
        self._syncs = counts
        return percentile(new, 0.99) / 1000
