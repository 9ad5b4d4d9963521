"""The state of a journal's queue at its end: the items, their attempts, the dead letters.

    snapshot  ──restore──▶  state  ◀──see── the records after it, as at a start of the daemon
                              │
                              └─ cut for each split: `PackedItems`, bytes that travel to executors

It is the replay of `kestrelpy.core.replay.replay` without a queue: ids and numbers, no bodies, no
clock. So an expired item is in the state until a record says that the daemon removed it.

One rule: the state changes by records alone, and reads no file.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from journal.errors import ITEM_MAX, Damage, NewerFormat
from journal.format import (
    GONE,
    STOPS,
    DeadEntry,
    Kind,
    Meta,
    Record,
    Tag,
    decode_meta,
    flush_spared,
)
from journal.sets import IdCounts, IdSet
from journal.snapshot import Snapshot
from kestrelpy.spark.files.live_items import DEAD, DELAYED, LEASED
from kestrelpy.spark.files.split import PackedItems, Split

_PAIR: Final = struct.Struct("<QQ")
_ENDS: Final = frozenset(
    {Kind.DONE, Kind.EXPIRED, Kind.DISCARDED, Kind.CANCELLED, Kind.MOVED}
)
# Of the queue, not of one of its items.
_OTHERS: Final = frozenset(
    {Kind.TOKENS, Kind.PAUSED, Kind.DECLARED, Kind.RENEWED, Kind.SETTLED, Kind.IDS}
)


@dataclass(slots=True)
class State:
    """The state of one queue. `live` has all items; `dead`, `leased` and `delayed` are among them.

    `leased` are the leases by token: no other lease is in the log. `released` has, by item, the
    marker that a delayed item got at its release.
    """

    live: IdSet = field(default_factory=IdSet)
    attempts: IdCounts = field(default_factory=IdCounts)
    dead: dict[int, DeadEntry] = field(default_factory=dict)
    leased: set[int] = field(default_factory=set)
    delayed: set[int] = field(default_factory=set)
    released: dict[int, int] = field(default_factory=dict)
    lsn_next: int = 1
    damages: list[Damage] = field(default_factory=list)
    snapshot_lsn: int = 0
    passes_on: bool = False

    def restore(self, snapshot: Snapshot) -> None:
        """Begin with the state of this snapshot."""
        self.live, self.attempts = snapshot.live.copy(), snapshot.attempts.copy()
        self.dead = {entry.item: entry for entry in snapshot.dead}
        self.leased = {entry.item for entry in snapshot.leased}
        self.delayed = {entry.item for entry in snapshot.delayed}
        self.released = {
            e.item: e.marker
            for e in snapshot.placed
            if e.marker != e.item and e.item in self.live  # else it is done, and retained
        }
        self.passes_on = snapshot.passes_on
        self.snapshot_lsn, self.lsn_next = snapshot.lsn, snapshot.lsn + 1

    def see(self, record: Record) -> None:
        """Apply the next record. Raises NewerFormat if its kind is not known."""
        kind, item, self.lsn_next = record.kind, record.item, record.lsn + 1
        if kind == Kind.READER and not record.reader:
            if record.small == GONE:
                self._leave_all()
            else:
                self.passes_on = record.small == STOPS
        elif record.reader or (kind == Kind.PUT and self.passes_on):
            return  # of a fan-out child
        elif kind == Kind.PUT:
            self.live.add(item)
            if not record.number:
                self.delayed.add(item)
        elif kind in _ENDS:
            self._end(item)
        elif kind == Kind.FLUSHED:
            self._flush(item, {*flush_spared(record), *self.dead})
        elif kind == Kind.UPTO:
            after = {i for i, marker in self.released.items() if marker > record.number}
            stay = {*flush_spared(record), *self.dead, *self.delayed, *after}
            delayed = self.delayed
            self._flush(record.number, stay)
            self.delayed = delayed
        elif kind in _CHANGES:
            if item in self.live:
                _CHANGES[kind](self, record)
        elif kind not in _OTHERS:
            raise NewerFormat(
                f"segment {record.segment}, byte {record.offset}: records of kind {kind} are not "
                f"known to this version of kestrelpy"
            )

    def _leave_all(self) -> None:
        """Drop all items: the queue was deleted, and its folder stays for its children."""
        self.live, self.attempts, self.dead = IdSet(), IdCounts(), {}
        self.leased, self.delayed, self.released = set(), set(), {}

    def _end(self, item: int) -> None:
        self.live.discard(item)
        self.attempts.set(item, 0)
        self.dead.pop(item, None)
        self.leased.discard(item)
        self.delayed.discard(item)
        self.released.pop(item, None)

    def _returned(self, record: Record) -> None:
        item = record.item
        self.leased.discard(item)
        if item in self.dead:
            return
        if record.small:
            self.attempts.set(item, record.small)
        if Tag.DUE_MS in _meta_of(record):
            self.delayed.add(item)

    def _buried(self, record: Record) -> None:
        item = record.item
        self.leased.discard(item)
        self.delayed.discard(item)
        self.attempts.set(item, 0)
        self.dead[item] = _dead(record, len(self.dead))

    def _redriven(self, record: Record) -> None:
        self.dead.pop(record.item, None)
        self.attempts.set(record.item, 0)

    def _leased(self, record: Record) -> None:
        self.leased.add(record.item)

    def _released(self, record: Record) -> None:
        if record.item in self.delayed:
            self.delayed.discard(record.item)
            self.released.setdefault(record.item, record.number)

    def _flush(self, last: int, some: set[int]) -> None:
        stay = {i for i in some if i in self.live}
        self.live.keep_only([i for i in stay if i <= last], last)
        attempts = IdCounts()
        for item, count in self.attempts.items():
            if item in self.live:
                attempts.set(item, count)
        self.attempts = attempts
        self.leased = {i for i in self.leased if i in self.live}
        self.delayed = {i for i in self.delayed if i > last}
        self.released = {i: marker for i, marker in self.released.items() if i in self.live}

    def live_items(self, splits: Sequence[Split]) -> list[PackedItems]:
        """Return each split's part, by the range of items put there."""
        attempts = dict(self.attempts.items()) | {e.item: e.attempts for e in self.dead.values()}
        states = dict.fromkeys(self.delayed, DELAYED) | dict.fromkeys(self.leased, LEASED)
        states |= dict.fromkeys(self.dead, DEAD)
        pairs = [sorted(each.items()) for each in (attempts, states, self.released)]
        made = []
        for split in splits:
            first, last = split.item_first, split.item_last
            if not (first or split.records):  # unknown without a footer
                first, last = 1, ITEM_MAX
            part = self.live.between(first, last)
            ranges, pages = part.encode()
            attempted, others, released = (_pairs(each, first, last) for each in pairs)
            made.append(PackedItems(ranges, pages, attempted, others, released, part.count))
        return made


_CHANGES: Final[dict[int, Callable[[State, Record], None]]] = {
    Kind.RETURNED: State._returned,
    Kind.DEAD: State._buried,
    Kind.REDRIVEN: State._redriven,
    Kind.LEASED: State._leased,
    Kind.RELEASED: State._released,
}


def _pairs(pairs: list[tuple[int, int]], first: int, last: int) -> bytes:
    low, high = bisect_left(pairs, (first, 0)), bisect_right(pairs, (last, 1 << 62))
    return b"".join(_PAIR.pack(*pair) for pair in pairs[low:high])


def _meta_of(record: Record) -> Meta:
    try:
        return decode_meta(record.meta)
    except ValueError:
        return {}


def _dead(record: Record, order: int) -> DeadEntry:
    meta = _meta_of(record)
    reason, size = meta.get(Tag.REASON), meta.get(Tag.BYTES)
    return DeadEntry(
        record.item, order, record.small, reason if isinstance(reason, bytes) else b"",
        record.time_ms, size if isinstance(size, int) else 0,
    )  # fmt: skip
