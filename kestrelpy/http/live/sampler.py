"""One look at the queues for all viewers: the figures of the server, and of its queues.

    each second: the next 500 queues ──▶ a row each ──▶ sums ──▶ the server's rings
                                              └──▶ rings of the 500 most recently active queues

With more than 500 queues a round takes several seconds, and the rates are those of the last round.

One rule: a tick looks at a bounded number of queues, and changes nothing.
"""

from __future__ import annotations

from math import nan
from typing import Final

from kestrelpy.core import AnyQueue, Broker
from kestrelpy.http.live.figures import (
    NO_ROW,
    RATES,
    QueueRow,
    counted,
    figures_of,
    percentile,
)
from kestrelpy.http.live.heat import Heat
from kestrelpy.http.live.rings import RANGES, Ring, Rings
from kestrelpy.http.live.troubles import LEVELS, Trouble, death_trouble, troubles_of
from kestrelpy.http.metrics import STATES

PER_TICK: Final = 500
KEPT_QUEUES: Final = 500
SYNCS_KEPT: Final = 10  # ticks
_SECOND_MS: Final = 1000

_RATES_KEPT: Final = ("stored", "delivered", "confirmed")
_FIGURES_KEPT: Final = (*STATES, "oldest_ms")
QUEUE_SERIES: Final = (*_RATES_KEPT, *_FIGURES_KEPT)
SERVER_SERIES: Final = (
    *RATES, *STATES, "oldest_ms", "wait_p99_ms", "sync_p99_ms", "disk_free",
)  # fmt: skip


class QueueSamples:
    """The samples of an active queue: its last hour, and its rates since the look before."""

    __slots__ = ("_at_ms", "died_ms", "heat", "rates", "ring")

    def __init__(self) -> None:
        self.ring = Ring(QUEUE_SERIES, RANGES["1h"], "f")
        self.heat = Heat()
        self.rates = dict.fromkeys(RATES, 0.0)
        self.died_ms: int | None = None  # when the latest dead letter was seen
        self._at_ms = 0

    def see(self, now_ms: int, row: QueueRow, events: list[int]) -> None:
        """Count a look in: `events` are those since the look before."""
        seconds = max(now_ms - self._at_ms, _SECOND_MS) / _SECOND_MS if self._at_ms else 1.0
        self._at_ms = now_ms
        self.rates = {name: count / seconds for name, count in zip(RATES, events, strict=True)}
        if self.rates["dead_total"]:
            self.died_ms = now_ms
        self.ring.add(now_ms, [
            *(self.rates[name] for name in _RATES_KEPT),
            *(getattr(row, name) for name in _FIGURES_KEPT),
        ])  # fmt: skip


class Sampler:
    """The samples of one server."""

    __slots__ = (
        "_at", "_begun_ms", "_events", "_names", "_oldest_ms", "_synced_tick", "_syncs", "_waits",
        "by_queue", "oldest_ms", "rates", "rings", "rounds", "rows", "states", "sync_p50_ms",
        "sync_p99_ms", "ticks", "troubles", "wait_p99_ms",
    )  # fmt: skip

    def __init__(self) -> None:
        self.ticks = 0
        self.rounds = 0
        self.rows: dict[bytes, QueueRow] = {}  # of every queue, as the last look saw it
        self.rates = dict.fromkeys(RATES, 0.0)  # events a second, in the last whole round
        self.states = dict.fromkeys(STATES, 0)  # items
        self.troubles: dict[bytes, list[Trouble]] = {}  # of the queues that have some
        # Of the items first delivered in the last whole round; None: there was none.
        self.wait_p99_ms: int | None = None
        # Of the syncs of the last second that had some; None: none for SYNCS_KEPT seconds.
        self.sync_p50_ms: float | None = None
        self.sync_p99_ms: float | None = None
        self._synced_tick = 0
        self.oldest_ms = 0  # age of the oldest item that waits
        self.by_queue: dict[bytes, QueueSamples] = {}  # the most recently active last
        self.rings = Rings(SERVER_SERIES, tuple(RANGES))
        self._names: list[bytes] = []  # of this round
        self._at = 0
        self._events = [0] * len(RATES)  # in this round
        self._begun_ms = 0
        self._oldest_ms = 0
        self._syncs: list[int] = []
        self._waits: list[int] = []  # of this round, by their bits

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
            self.wait_p99_ms = percentile(self._waits, 0.99) if any(self._waits) else None
        has_synced = self._look_at_syncs(sync_us)
        self.rings.add(now_ms, [
            *self.rates.values(), *self.states.values(), self.oldest_ms,
            _value(self.wait_p99_ms), _value(self.sync_p99_ms if has_synced else None),
            _value(disk_free),
        ])  # fmt: skip

    def _begin_round(self, broker: Broker, now_ms: int) -> None:
        """Publish the counts of the last round, and begin the next one."""
        if self.rounds > 1 and now_ms > self._begun_ms:
            seconds = (now_ms - self._begun_ms) / _SECOND_MS
            self.rates = {
                name: count / seconds for name, count in zip(RATES, self._events, strict=True)
            }
        for name in [each for each in self.rows if each not in broker.queues]:
            self._forget(name)
        self._names, self._at = list(broker.queues), 0
        self._events, self._begun_ms, self._oldest_ms = [0] * len(RATES), now_ms, 0
        self._waits = [0] * len(self._waits)

    def _see(self, name: bytes, queue: AnyQueue | None, now_ms: int) -> None:
        """Count the figures of this queue in."""
        if queue is None:
            self._forget(name)
            return
        before = self.rows.get(name, NO_ROW)
        row = self.rows[name] = figures_of(queue, now_ms, before)
        self._oldest_ms = max(self._oldest_ms, row.oldest_ms)
        for state in STATES:
            self.states[state] += getattr(row, state) - getattr(before, state)
        if self.rounds:  # what was counted before the first look did not happen now
            self._count(name, queue, now_ms, row, before)
        self._judge(name, queue, now_ms, row)

    def _count(
        self, name: bytes, queue: AnyQueue, now_ms: int, row: QueueRow, before: QueueRow
    ) -> None:
        """Count the events since the look before."""
        if row.stored < before.stored:  # deleted and made again
            before = NO_ROW
        counts = zip(counted(row), counted(before), strict=True)
        events = [new - old for new, old in counts]
        has_events = any(events)
        if has_events:
            self._events = [old + new for old, new in zip(self._events, events, strict=True)]
            self._note_active(name)
        if (by_queue := self.by_queue.get(name)) is None:
            return
        by_queue.see(now_ms, row, events)
        if has_events:
            counters = queue.reader.counters
            waits = by_queue.heat.see(now_ms, counters.waiting_ms, counters.service_ms)
            if waits:
                self._waits = [
                    old + new for old, new in zip(self._waits or [0] * len(waits), waits,
                                                  strict=True)
                ]  # fmt: skip

    def _judge(self, name: bytes, queue: AnyQueue, now_ms: int, row: QueueRow) -> None:
        """Renew what is wrong with the queue; a trouble that lasts keeps its beginning."""
        found, by_queue = troubles_of(queue, row, now_ms), self.by_queue.get(name)
        if by_queue is not None and by_queue.died_ms is not None:
            death = death_trouble(row.dead, by_queue.died_ms, now_ms)
            found += [death] if death is not None else []
        if not found:
            self.troubles.pop(name, None)
            return
        since = {each.code: each.since_ms for each in self.troubles.get(name, ())}
        found.sort(key=lambda each: LEVELS.index(each.level))
        self.troubles[name] = [
            each._replace(since_ms=min(each.since_ms, since.get(each.code, each.since_ms)))
            for each in found
        ]

    def _note_active(self, name: bytes) -> None:
        """This queue is active: keep its past, and forget that of the queue that was not so for
        the longest time."""
        self.by_queue[name] = self.by_queue.pop(name) if name in self.by_queue else QueueSamples()
        if len(self.by_queue) > KEPT_QUEUES:
            del self.by_queue[next(iter(self.by_queue))]

    def _forget(self, name: bytes) -> None:
        row = self.rows.pop(name, NO_ROW)
        for state in STATES:
            self.states[state] -= getattr(row, state)
        self.by_queue.pop(name, None)
        self.troubles.pop(name, None)

    def _look_at_syncs(self, sync_us: list[int]) -> bool:
        """Renew how long half and 99 of 100 syncs take at most; return False if there was none
        since the last look."""
        counts = sync_us[:-1]
        new = [now - old for now, old in zip(counts, self._syncs or counts, strict=True)]
        self._syncs = counts
        if not any(new):
            if self.ticks - self._synced_tick >= SYNCS_KEPT:
                self.sync_p50_ms = self.sync_p99_ms = None
            return False
        self._synced_tick = self.ticks
        self.sync_p50_ms = percentile(new, 0.5) / 1000
        self.sync_p99_ms = percentile(new, 0.99) / 1000
        return True


def _value(figure: float | None) -> float:
    """Return a figure for a ring."""
    return nan if figure is None else figure
