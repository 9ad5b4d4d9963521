"""The state of one subscription in a snapshot: of the queue itself, or of a fan-out child.

    LIVE ... ATTEMPTS ... DEAD ... LEASED, RENEWED? ... DELAYED ... PLACED ...

The queue's own comes first; each child's block is opened by its READER frame, and every frame of it
carries the reader's number:

    READER number, NAME ── LIVE ... ── ... ── PLACED ... ── PAUSED? ── READER of the next child

One rule: a subscription is complete; state that two of them share is written twice.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from journal.format.kinds import Kind, Tag
from journal.format.lease import LeaseEntry, lease_entries
from journal.format.meta import Meta, decode_meta, encode_meta
from journal.format.out_of_order import (
    DelayedEntry,
    PlacedEntry,
    delayed_drafts,
    delayed_entries,
    placed_drafts,
    placed_entries,
)
from journal.format.record import Draft, Record
from journal.sets import PAGE_IDS, IdCounts, IdSet

# What LIVE and ATTEMPTS hold, by `small`.
RANGES: Final = 0  # LIVE: first and last of ids that are all there
PAGES: Final = 1  # LIVE: 4096 ids in a bit each; ATTEMPTS: in a byte each
# LIVE in a queue that retains: the same of all items whose puts are in the log, done or not.
RETAINED_RANGES: Final = 2
RETAINED_PAGES: Final = 3
AGELESS_RANGES: Final = 4  # LIVE: the same of those that were redriven, and have no expiry
AGELESS_PAGES: Final = 5
LARGE: Final = 0  # ATTEMPTS: an id and its number, from 255 on
_RANGE_BYTES: Final = 16
_BITS_BYTES: Final = 8 + PAGE_IDS // 8
_COUNTS_BYTES: Final = 8 + PAGE_IDS
_ENTRY_BYTES: Final[dict[tuple[int, int], int]] = {
    (Kind.LIVE, RANGES): _RANGE_BYTES,
    (Kind.LIVE, PAGES): _BITS_BYTES,
    (Kind.LIVE, RETAINED_RANGES): _RANGE_BYTES,
    (Kind.LIVE, RETAINED_PAGES): _BITS_BYTES,
    (Kind.LIVE, AGELESS_RANGES): _RANGE_BYTES,
    (Kind.LIVE, AGELESS_PAGES): _BITS_BYTES,
    (Kind.ATTEMPTS, LARGE): _RANGE_BYTES,
    (Kind.ATTEMPTS, PAGES): _COUNTS_BYTES,
}
_PIECE_BYTES: Final = 1 << 20  # bodies are cut to about this size
_COUNTS: Final = struct.Struct("<4I")
_PLACED: Final = struct.Struct("<4Q")  # item, place, marker, bytes
_DELAYED: Final = struct.Struct("<4Q")  # item, due, bytes, due by the running clock
_OLD_DELAYED: Final = struct.Struct("<3Q")  # before version 8
# What `small` of a READER says.
TAKES: Final = 0  # it takes items that are put from now on
GONE: Final = 2  # the queue was deleted, and is there for its children alone
AGAIN: Final = 3  # the deleted queue was made again: its own line sees items after the floor
STOPS: Final = 1  # it takes nothing more: a child is gone, the queue's own line only passes on


@dataclass(slots=True)
class DeadEntry:
    """A dead item. `order` is its place among the dead letters, `died_ms` is wall clock."""

    item: int
    order: int
    attempts: int
    reason: bytes
    died_ms: int
    body_bytes: int


@dataclass(slots=True)
class ReaderState:
    """A fan-out child, by its `number` and `name` (the part after the `+`).

    Items up to the `floor` are not for it; `total` counts those that were, or were put for it
    alone. The other fields are as in a snapshot for the queue itself.
    """

    number: int
    name: bytes
    floor: int
    total: int = 0
    live: IdSet = field(default_factory=IdSet)
    live_bytes: int = 0
    attempts: IdCounts = field(default_factory=IdCounts)
    dead: list[DeadEntry] = field(default_factory=list)
    leased: list[LeaseEntry] = field(default_factory=list)
    paused: bool = False
    delayed: Iterable[DelayedEntry] = ()
    placed: Iterable[PlacedEntry] = ()
    held: dict[int, bytes] = field(default_factory=dict)
    ageless: IdSet = field(default_factory=IdSet)  # live, and without the expiry of their puts
    heard_ms: int = 0  # the running clock then; 0: no delayed item has it

    def drafts(self, time_ms: int) -> Iterator[Draft]:
        """Yield its block."""
        meta = encode_meta(
            {Tag.NAME: self.name, Tag.TOTAL: self.total, Tag.BYTES: self.live_bytes}
        )
        yield Draft(Kind.READER, 0, self.floor, TAKES, time_ms, meta, b"", self.number, 0)
        for draft in line_drafts(
            self.live, self.attempts, self.dead, self.leased, self.delayed, self.held,
            self.placed, time_ms, None, self.ageless,
        ):  # fmt: skip
            yield draft._replace(reader=self.number)
        if self.paused:
            yield Draft(Kind.PAUSED, 0, 0, 1, time_ms, b"", b"", self.number, 0)


@dataclass(frozen=True, slots=True)
class Beginning:
    """The items put before a child was named that it begins with: `live`, of these `placed` where
    the marker is no id, and `delayed` those not due yet.
    """

    live: IdSet
    live_bytes: int
    placed: list[PlacedEntry]
    delayed: list[DelayedEntry]

    def encode(self) -> bytes:
        """Return the body of a READER record."""
        ranges, pages = self.live.encode()
        parts = [ranges, pages]
        parts += [_PLACED.pack(*each) for each in self.placed]
        parts += [_DELAYED.pack(*each[:3], each.runs_ms) for each in self.delayed]
        counts = len(ranges), len(pages), len(self.placed), len(self.delayed)
        return _COUNTS.pack(*counts) + b"".join(parts)

    @classmethod
    def decode(cls, record: Record | Draft) -> Beginning | None:
        """Do the inverse; None: its child begins with nothing. Raises ValueError."""
        body = record.body
        if not body:
            return None
        try:
            ranges, pages, placed, delayed = _COUNTS.unpack_from(body)
            at = _COUNTS.size
            live = IdSet.decode(body[at : at + ranges], body[at + ranges : at + ranges + pages])
            at += ranges + pages
            middle = at + placed * _PLACED.size
            return cls(
                live, number_in(decode_meta(record.meta), Tag.BYTES),
                [PlacedEntry(*each) for each in _PLACED.iter_unpack(body[at:middle])],
                _delayed(body[middle:], delayed),
            )  # fmt: skip
        except struct.error as error:
            raise ValueError(str(error)) from None


def _delayed(data: bytes, count: int) -> list[DelayedEntry]:
    """Return `count` entries; before version 8 they had no `runs_ms`. Raises struct.error."""
    is_old = len(data) == count * _OLD_DELAYED.size
    layout = _OLD_DELAYED if is_old else _DELAYED
    each = ((*entry, 0)[:4] for entry in layout.iter_unpack(data))
    return [DelayedEntry(item, due, size, b"", runs) for item, due, size, runs in each]


def named(
    number: int, name: bytes, floor: int, small: int, time_ms: int, begins: Beginning | None = None
) -> Draft:
    """Return the record that names a reader, or says that it takes no more items."""
    meta: Meta = {Tag.NAME: name} if name else {}
    body = b""
    if begins is not None:
        meta[Tag.BYTES] = begins.live_bytes
        body = begins.encode()
    return Draft(Kind.READER, 0, floor, small, time_ms, encode_meta(meta), body, number, 0)


def line_drafts(
    live: IdSet, attempts: IdCounts, dead: Iterable[DeadEntry], leased: Iterable[LeaseEntry],
    delayed: Iterable[DelayedEntry], held: dict[int, bytes], placed: Iterable[PlacedEntry],
    time_ms: int, retained: IdSet | None, ageless: IdSet,
) -> Iterator[Draft]:  # fmt: skip
    """Yield the frames of one subscription."""
    ranges, pages = live.encode()
    yield from _frames_of(Kind.LIVE, RANGES, ranges, time_ms)
    yield from _frames_of(Kind.LIVE, PAGES, pages, time_ms)
    if retained is not None:
        ranges, pages = retained.encode()
        yield from _frames_of(Kind.LIVE, RETAINED_RANGES, ranges, time_ms)
        yield from _frames_of(Kind.LIVE, RETAINED_PAGES, pages, time_ms)
    if ageless.count:
        ranges, pages = ageless.encode()
        yield from _frames_of(Kind.LIVE, AGELESS_RANGES, ranges, time_ms)
        yield from _frames_of(Kind.LIVE, AGELESS_PAGES, pages, time_ms)
    pages, large = attempts.encode()
    yield from _frames_of(Kind.ATTEMPTS, LARGE, large, time_ms)
    yield from _frames_of(Kind.ATTEMPTS, PAGES, pages, time_ms)
    for each in dead:
        meta = encode_meta({Tag.REASON: each.reason, Tag.BYTES: each.body_bytes})
        yield Draft(
            Kind.DEAD, each.item, each.order, each.attempts, each.died_ms, meta, b"", 0, 0
        )
    for lease in leased:
        yield from lease.drafts()
    yield from delayed_drafts(delayed, held, time_ms)
    yield from placed_drafts(placed, time_ms)


def live_of(frames: Iterable[Record]) -> IdSet:
    """Return the ids in LIVE frames. Raises ValueError for frames that are not whole."""
    return IdSet.decode(*_parts(frames, Kind.LIVE, (RANGES, PAGES)))


def retained_of(frames: Iterable[Record]) -> IdSet | None:
    """Return the ids in the log, done or not; None: the queue retained nothing."""
    parts = _parts(frames, Kind.LIVE, (RETAINED_RANGES, RETAINED_PAGES))
    return IdSet.decode(*parts) if parts[0] else None


def ageless_of(frames: Iterable[Record]) -> IdSet:
    """Return the live ids that do not expire, whatever their puts state."""
    parts = _parts(frames, Kind.LIVE, (AGELESS_RANGES, AGELESS_PAGES))
    return IdSet.decode(*parts) if parts[0] else IdSet()


def attempts_of(frames: Iterable[Record]) -> IdCounts:
    """Return the numbers in ATTEMPTS frames. Raises ValueError for frames that are not whole."""
    return IdCounts.decode(*_parts(frames, Kind.ATTEMPTS, (PAGES, LARGE)))


def dead_of(frames: Iterable[Record]) -> list[DeadEntry]:
    """Return the dead items in DEAD frames."""
    return [_dead(frame) for frame in frames if frame.kind == Kind.DEAD]


def reader_states(frames: list[Record]) -> list[ReaderState]:
    """Return the blocks of children among a snapshot's frames. Raises ValueError if they make no
    sense.

    `frames` are those with a reader's number.
    """
    blocks: list[list[Record]] = []
    for frame in frames:
        if frame.kind == Kind.READER:
            blocks.append([frame])
        elif not blocks or blocks[-1][0].reader != frame.reader:
            raise ValueError(f"a record of reader {frame.reader} that nothing names")
        else:
            blocks[-1].append(frame)
    states = [_state(block) for block in blocks]
    if len({state.number for state in states}) != len(states):
        raise ValueError("two readers of one number")
    return states


def _state(block: list[Record]) -> ReaderState:
    opening = block[0]
    meta = decode_meta(opening.meta)
    name = meta.get(Tag.NAME)
    if not isinstance(name, bytes) or not name:
        raise ValueError(f"reader {opening.reader} has no name")
    delayed, held, heard = delayed_entries(block)
    return ReaderState(
        opening.reader, name, opening.number, number_in(meta, Tag.TOTAL), live_of(block),
        number_in(meta, Tag.BYTES), attempts_of(block), dead_of(block), lease_entries(block),
        any(frame.kind == Kind.PAUSED and frame.small == 1 for frame in block), delayed,
        placed_entries(block), held, ageless_of(block), heard,
    )  # fmt: skip


def number_in(meta: Meta, tag: Tag) -> int:
    """Return the number of this tag in meta; 0: there is none."""
    value = meta.get(tag)
    return value if isinstance(value, int) else 0


def _parts(frames: Iterable[Record], kind: Kind, tags: tuple[int, int]) -> tuple[bytes, bytes]:
    parts: dict[int, list[bytes]] = {what: [] for what in range(AGELESS_PAGES + 1)}
    for frame in frames:
        if frame.kind != kind:
            continue
        if len(frame.body) != frame.number * _ENTRY_BYTES.get((kind, frame.small), -1):
            raise ValueError("entries that are not whole")
        parts[frame.small].append(frame.body)
    return b"".join(parts[tags[0]]), b"".join(parts[tags[1]])


def _frames_of(kind: Kind, what: int, data: bytes, time_ms: int) -> Iterator[Draft]:
    """Yield frames of whole entries. `number` is how many they have."""
    width = _ENTRY_BYTES[kind, what]
    size = _PIECE_BYTES // width * width
    for at in range(0, len(data), size):
        body = data[at : at + size]
        yield Draft(kind, 0, len(body) // width, what, time_ms, b"", body, 0, 0)


def _dead(frame: Record) -> DeadEntry:
    meta = decode_meta(frame.meta)
    reason = meta.get(Tag.REASON, b"")
    return DeadEntry(
        frame.item, frame.number, frame.small, reason if isinstance(reason, bytes) else b"",
        frame.time_ms, number_in(meta, Tag.BYTES),
    )  # fmt: skip
