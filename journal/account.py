"""What a journal adds up to: which items are there, and which numbers come next.

It is the replay of someone who asks only for ids: bounded memory (`ids.IdSet`), no bodies, no
order. The daemon's own replay is `kestrelpy.core.replay`.

One rule: nothing is guessed. After a record whose effect ids alone do not tell, `known` is False.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final, Protocol

from journal.checkpoint import Checkpoint
from journal.ids import IdSet
from journal.record import PLACING, Kind, Record, number_given
from journal.sentence import flush_spared
from journal.snapshot import Snapshot

# After these the number of live items cannot be told without knowing more than ids.
_UNCOUNTABLE: Final = frozenset({Kind.UPTO, Kind.DONE_MANY})
_ENDS: Final = frozenset(
    {Kind.DONE, Kind.EXPIRED, Kind.DISCARDED, Kind.MOVED, Kind.CANCELLED}
)


class Source(Protocol):
    """A `Recovery`, or a `JournalView`. Its snapshot is known when it gave the first record."""

    snapshot: Snapshot | None

    def records(self) -> Iterator[Record]: ...


class Account:
    """Counts what is still there: ready, delayed, lent or dead, for the queue's own reader."""

    __slots__ = (
        "_dead", "_placed", "items", "known", "next_number", "puts", "tokens",
    )  # fmt: skip

    def __init__(self) -> None:
        self.items = IdSet()
        self._dead: set[int] = set()
        self._placed: list[int] = []  # numbers that are no item's id
        self.known = True
        self.next_number = 1  # of an item or a place
        self.tokens = 1
        self.puts = 0

    def follow(self, source: Source) -> Iterator[Record]:
        """Every record of a journal, seen as far as its snapshot does not include it."""
        known = -1
        for record in source.records():
            if known < 0:
                known = self._begin(source.snapshot)
            if record.lsn > known:
                self.see(record)
            yield record
        if known < 0:
            self._begin(source.snapshot)

    def _begin(self, snapshot: Snapshot | None) -> int:
        """What was there at a snapshot; its lsn, 0: there is none."""
        if snapshot is None:
            return 0
        self.items = snapshot.live.copy()
        self._dead = {entry.item for entry in snapshot.dead}
        self.next_number = snapshot.checkpoint.next_item
        self.tokens = snapshot.checkpoint.tokens
        return snapshot.lsn

    def see(self, record: Record) -> None:
        """Account for one record, in the order of the log."""
        kind, item = record.kind, record.item
        if kind in PLACING:
            self.next_number = max(self.next_number, number_given(record) + 1)
            if kind != Kind.PUT:
                self._placed.append(record.number)
        if kind == Kind.TOKENS:
            self.tokens = max(self.tokens, record.number)
        if record.reader:
            return
        if kind in {Kind.PUT, Kind.CARRIED}:
            self.items.add(item)
            self.next_number = max(self.next_number, item + 1)
            self.puts += 1
        elif kind in _ENDS:
            self.items.discard(item)
            self._dead.discard(item)
        elif kind == Kind.DEAD:
            self._dead.add(item)
        elif kind == Kind.REDRIVEN:
            self._dead.discard(item)
        elif kind == Kind.FLUSHED:
            spared = self._dead.union(flush_spared(record))
            self.items.keep_only([i for i in spared if i <= item and i in self.items], item)
        elif kind in _UNCOUNTABLE:
            self.known = False

    def checkpoint(self, newest: Checkpoint | None, name: bytes, generation: int) -> Checkpoint:
        """What a segment opens with that goes on behind everything seen."""
        base = newest if newest is not None else Checkpoint(name, generation=generation)
        since = max(base.next_item, base.next_place)
        number = max(since, self.next_number)
        return replace(
            base,
            next_item=number,
            next_place=number,
            tokens=max(base.tokens, self.tokens),
            total_items=base.total_items + number - since - sum(n >= since for n in self._placed),
            live_items=len(self.items),
        )

    def __str__(self) -> str:
        if not self.known:
            return "live items not known"
        return "1 live item" if len(self.items) == 1 else f"{len(self.items)} live items"
