"""The live set of a journal: which items are there, and which numbers come next.

It is a replay of ids alone: bounded memory (`IdSet`), no bodies, no order. A start that misses a
segment, the tools and Spark use it. The daemon's own replay is `kestrelpy.core.replay.replay`.

    lines[0]   the queue itself         lines[n]   the fan-out child with the number n

One rule: nothing is guessed. After a record whose effect ids alone do not tell, `known` is False.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from journal.errors import ITEM_MAX, Damage
from journal.format import (
    AGAIN,
    GONE,
    PLACING,
    STOPS,
    TABLE,
    Beginning,
    Checkpoint,
    Effect,
    Kind,
    ReaderState,
    Record,
    Tag,
    decode_meta,
    flush_spared,
    number_given,
    origin_of,
)
from journal.sets import IdCounts, IdSet
from journal.snapshot import Snapshot

_EFFECTS: Final[dict[int, Effect]] = {kind: row.effect for kind, row in TABLE.items()}
_LOST_MAX: Final = 1 << 20  # items of one damaged place that are listed one by one
_EXPIRY_META_BYTES: Final = 11  # a put with no more meta was made of nothing


class ReadableJournal(Protocol):
    """A `Recovery`, or a `JournalView`. Its snapshot is known when it gave the first record.

    With each of the `beginnings` the state is that of its snapshot, whatever was read before.
    """

    snapshot: Snapshot | None

    @property
    def beginnings(self) -> int: ...

    @property
    def checkpoint(self) -> Checkpoint | Record | None: ...

    def records(self) -> Iterator[Record]: ...


@dataclass(slots=True)
class ReaderItems:
    """The items of one reader: of the queue itself, or of the child `name`.

    `dead`, `leased` (by token: no other lease is in the log) and `delayed` are among `items`. A
    delayed item that was never available is `fresh`. `markers` are those that differ from the id;
    `attempts` include those of dead letters. `has_ended` is for an item whose put was not met: it
    has ended if it was put up to the `floor`, before this reader took items, or if a record says
    so.
    """

    name: bytes = b""
    named_lsn: int = 0
    items: IdSet = field(default_factory=IdSet)
    attempts: IdCounts = field(default_factory=IdCounts)
    dead: set[int] = field(default_factory=set)
    leased: set[int] = field(default_factory=set)
    delayed: set[int] = field(default_factory=set)
    fresh: set[int] = field(default_factory=set)
    markers: dict[int, int] = field(default_factory=dict)
    floor: int = 0
    ended: IdSet = field(default_factory=IdSet)  # although their puts were not met
    ended_up_to: int = 0  # but for these:
    spared: set[int] = field(default_factory=set)

    @classmethod
    def of(
        cls, state: Snapshot | ReaderState | Beginning, name: bytes, named_lsn: int
    ) -> ReaderItems:
        """Return its items at a snapshot, or when its child was named."""
        made = cls(name, named_lsn, state.live.copy())
        made.delayed = {entry.item for entry in state.delayed}
        made.fresh = made.delayed - {entry.item for entry in state.placed}
        made.markers = {
            e.item: e.marker
            for e in state.placed
            if e.marker not in (0, e.item) and e.item in made.items  # else it is done, and retained
        }
        if not isinstance(state, Beginning):
            made.attempts = state.attempts.copy()
            made.leased = {entry.item for entry in state.leased}
            for entry in state.dead:
                made.dead.add(entry.item)
                made.attempts.set(entry.item, entry.attempts)
        return made

    def put(self, record: Record) -> None:
        """Add an item."""
        self.items.add(record.item)
        if not record.number:
            self.delayed.add(record.item)
            self.fresh.add(record.item)

    def release(self, record: Record) -> None:
        """Note that it is available."""
        self.delayed.discard(record.item)
        if record.item in self.fresh:
            self.fresh.discard(record.item)
            self.markers[record.item] = record.number

    def see(self, record: Record, effect: Effect) -> None:
        """Note any other record about an item here, or about many of them."""
        item = record.item
        if effect is Effect.END:
            if item not in self.items:
                self.ended.add(item)
            self.end(item)
        elif effect is Effect.END_TO_ITEM:
            self._note_ended_up_to(item, record)
            self._retain_only(self.dead.union(flush_spared(record)), item)
        elif effect is Effect.END_TO_MARKER:
            self._note_ended_up_to(record.number, record)
            behind = {i for i, marker in self.markers.items() if marker > record.number}
            stay = self.dead | self.delayed | behind
            self._retain_only(stay.union(flush_spared(record)), record.number)
        elif item not in self.items:
            return
        elif effect is Effect.RETURN:
            self.leased.discard(item)
            if item not in self.dead:
                self.attempts.set(item, record.small)
                if record.meta and Tag.DUE_MS in decode_meta(record.meta):
                    self.delayed.add(item)
        elif effect is Effect.DIE:
            self.leased.discard(item)
            self.delayed.discard(item)
            self.dead.add(item)
            self.attempts.set(item, record.small)
        elif effect is Effect.REDRIVE:
            self.dead.discard(item)
            self.attempts.set(item, 0)
        elif effect is Effect.LEASE:
            self.leased.add(item)
            self.delayed.discard(item)

    def has_ended(self, item: int) -> bool:
        """True if it does not need this item, by what is known without the put."""
        passed = item <= self.ended_up_to and item not in self.spared
        return item not in self.items and (passed or item <= self.floor or item in self.ended)

    def _note_ended_up_to(self, last: int, record: Record) -> None:
        self.spared = {i for i in self.spared if i > last}.union(flush_spared(record))
        self.ended_up_to = max(self.ended_up_to, last)

    def end(self, item: int) -> None:
        """Take out an item."""
        self.items.discard(item)
        self.attempts.set(item, 0)
        for some in (self.dead, self.leased, self.delayed, self.fresh):
            some.discard(item)
        self.markers.pop(item, None)

    def _retain_only(self, stay: set[int], last: int) -> None:
        self.items.retain_only([i for i in stay if i <= last and i in self.items], last)
        self.attempts.retain_only(self.items, last)
        for some in (self.dead, self.leased, self.delayed, self.fresh):
            some.difference_update([i for i in some if i not in self.items])
        for item in [i for i in self.markers if i not in self.items]:
            del self.markers[item]


class LiveSet:
    """The items that are still there, ready, delayed, leased or dead: `items` of the queue itself.
    """

    __slots__ = (
        "_handed", "_lsn_known", "_met", "_passes_on", "_placed", "known", "lines", "next_number",
        "puts", "tokens",
    )  # fmt: skip

    def __init__(self) -> None:
        self.lines: dict[int, ReaderItems] = {0: ReaderItems()}
        self._placed: list[int] = []  # numbers that are no item's id
        self._met = IdSet()  # items whose puts were met
        self._lsn_known = 0  # the state that it began at includes the records up to here
        self._passes_on = False
        self._handed: set[tuple[bytes, int]] = set()  # by queue: other items are made of these
        self.known = True
        self.next_number = 1  # of an item or a place
        self.tokens = 1
        self.puts = 0

    @property
    def items(self) -> IdSet:
        """The items of the queue itself."""
        return self.lines[0].items

    def needed(self) -> IdSet:
        """Return the items that some reader has; not to be changed."""
        return IdSet.union([line.items for line in self.lines.values()])

    def lost(self, damages: Iterable[Damage]) -> IdSet:
        """Return the items that may have been put in bytes that are damaged now, and may be needed:
        for some reader no record says that they ended, and their puts were not met."""
        return IdSet.union([IdSet(), *self.lost_by_line(damages).values()])

    def lost_by_line(self, damages: Iterable[Damage]) -> dict[int, IdSet]:
        """Return the items of `lost` for each reader that may need some."""
        lost = self._lost(damages)
        found = dict[int, IdSet]()
        for number, line in self.lines.items() if lost else ():
            if number or not self._passes_on:
                needed = IdSet.of(item for item in lost if not line.has_ended(item))
                if needed:
                    found[number] = needed
        return found

    def _lost(self, damages: Iterable[Damage]) -> IdSet:
        found = IdSet()
        for damage in damages:
            if damage.kind in ("torn", "foreign") or damage.lsn_last < damage.lsn_first:
                continue
            if damage.id_last >= ITEM_MAX or damage.lsn_last <= self._lsn_known:
                continue  # their number is unknown; or a snapshot knows which of them are there
            last = min(damage.id_last, damage.id_first + _LOST_MAX)
            for item in range(damage.id_first, last + 1):
                found.add(item)
        for item in self._placed if found else ():
            found.discard(item)
        return found.without(self._met)

    def lose(self, items: IdSet) -> None:
        """Take out items with bodies that cannot be read."""
        for line in self.lines.values():
            for item in items:
                line.end(item)

    def follow(self, source: ReadableJournal) -> Iterator[Record]:
        """Yield every record of a journal, noting those that its snapshot does not include."""
        known = begun = 0
        for record in source.records():
            if begun != source.beginnings:
                known, begun = self.restore(source.snapshot), source.beginnings
            if record.lsn > known:
                self.see(record)
            yield record
        if not begun or begun != source.beginnings:
            self.restore(source.snapshot)
        # Ids are given once, so what ended meanwhile may be taken out at the end as well.
        self._hand_on(_name_in(source.checkpoint))

    def restore(self, snapshot: Snapshot | None) -> int:
        """Begin at a snapshot; return its lsn, 0: there is none, and nothing is there."""
        self.lines, self.known = {0: ReaderItems()}, True
        self._passes_on, self._lsn_known = False, 0
        if snapshot is None:
            return 0
        self.lines = {0: ReaderItems.of(snapshot, b"", 0)}
        self.lines[0].floor = ITEM_MAX if snapshot.is_tombstone else snapshot.floor
        for state in snapshot.readers:
            self.lines[state.number] = ReaderItems.of(state, state.name, 0)
        self._passes_on, self._lsn_known = snapshot.passes_on, snapshot.lsn
        self.next_number = snapshot.checkpoint.next_item
        self.tokens = snapshot.checkpoint.tokens
        return snapshot.lsn

    def see(self, record: Record) -> None:
        """Note one record, in the order of the log."""
        kind, effect = record.kind, _EFFECTS.get(record.kind, Effect.NONE)
        if kind in PLACING:
            self.next_number = max(self.next_number, number_given(record) + 1)
            if kind != Kind.PUT:
                self._placed.append(record.number)
        if effect is Effect.PUT:
            self._put(record)
        elif effect is Effect.RELEASE:
            self._release(record)
        elif kind == Kind.READER:
            self._name(record)
        elif kind == Kind.TOKENS:
            self.tokens = max(self.tokens, record.number)
        elif effect is Effect.END_LISTED:
            self.known = False
        elif effect is not Effect.NONE and record.reader in self.lines:
            self.lines[record.reader].see(record, effect)

    def _put(self, record: Record) -> None:
        self._met.add(record.item)
        self.next_number = max(self.next_number, record.item + 1)
        origin = origin_of(record.meta) if len(record.meta) > _EXPIRY_META_BYTES else None
        if origin and any(origin.item in line.items for line in self.lines.values()):
            self._handed.add((origin.queue, origin.item))
        if record.reader:
            self._placed.append(record.item)
            if record.reader in self.lines:
                self.lines[record.reader].put(record)
            return
        self.puts += 1
        for number, line in self.lines.items():
            if number or not self._passes_on:
                line.put(record)

    def _hand_on(self, name: bytes) -> None:
        """End the items of this very journal that items of that queue were made of."""
        for number, line in self.lines.items():
            full = name + b"+" + line.name if number else name
            for queue, item in self._handed:
                if queue == full:
                    line.end(item)

    def _release(self, record: Record) -> None:
        new = [line for line in self.lines.values() if record.item in line.fresh]
        if record.reader or not new:
            new = [self.lines[record.reader]] if record.reader in self.lines else []
        for line in new:
            line.release(record)

    def _name(self, record: Record) -> None:
        number = record.reader
        if not number and record.small == GONE:
            self.lines[0] = ReaderItems(floor=ITEM_MAX)
        elif not number:  # also for a queue that is made again: then its line is empty
            self._passes_on = record.small == STOPS
            self.lines[0].floor = record.number if record.small == AGAIN else self.lines[0].floor
        elif record.small == STOPS:
            self.lines.pop(number, None)
        elif number not in self.lines:
            name, begins = decode_meta(record.meta).get(Tag.NAME), Beginning.decode(record)
            if isinstance(name, bytes):
                made = ReaderItems(name, record.lsn)
                if begins:  # of the items before it, it has these alone
                    made = ReaderItems.of(begins, name, record.lsn)
                    made.ended_up_to = self.next_number - 1
                made.floor, self.lines[number] = record.number, made

    def checkpoint(self, newest: Checkpoint | None, name: bytes, generation: int) -> Checkpoint:
        """Return the opening of a segment that goes on after all these records."""
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
        own = "1 live item" if len(self.items) == 1 else f"{len(self.items)} live items"
        children = [line for number, line in sorted(self.lines.items()) if number]
        named = ", ".join(f"+{_text(line.name)} {len(line.items)}" for line in children)
        return f"{own} ({named})" if named else own


def lost_items(source: ReadableJournal, damages: Iterable[Damage]) -> dict[int, IdSet]:
    """Return for each reader, by its number, the items that may have been put in the damaged bytes
    of this journal, and that it may need. It is read to its end, unless no put may be lost."""
    if not any(d.lsn_first <= d.lsn_last and d.id_first <= d.id_last for d in damages):
        return {}
    live_set = LiveSet()
    for _ in live_set.follow(source):
        pass
    return live_set.lost_by_line(damages)


def _name_in(opening: Checkpoint | Record | None) -> bytes:
    if isinstance(opening, Record):
        opening = Checkpoint.from_record(opening)
    return opening.name if opening is not None else b""


def _text(name: bytes) -> str:
    return name.decode("utf-8", "backslashreplace")
