"""The state of a queue at one moment, as a file, so that a start reads only the later records.

    0             64
    +-------------+------------+----------+--------------+----------+------------------------+
    | file header | CHECKPOINT | LIVE ... | ATTEMPTS ... | DEAD ... | LEASED, RENEWED? ...   |
    +-------------+------------+----------+--------------+----------+------------------------+
    +-------------+------------+----------+---------+---------+-----------+-----------------------+
    | DELAYED ... | PLACED ... | OPEN ... | IDS ... | PAUSED? | DECLARED? | READER, its block ... |
    +-------------+------------+----------+---------+---------+-----------+-----------------------+
    +--------------+--------+
    | SEGMENTS ... | FOOTER |
    +--------------+--------+

The file ends with its last frame. Every frame has the lsn after the state's, so a block of another
snapshot is never taken for one of this. Bodies are no state: they stay in the log.

One rule: a snapshot is whole or it does not count. Half of a state looks like a state, so after one
wrong byte anywhere, even in padding, a start uses the older snapshot or the log itself.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from journal.errors import JournalError, NewerFormat
from journal.format import (
    AGAIN,
    FILE_HEADER_BYTES,
    GONE,
    HEADER_BYTES,
    SNAPSHOT,
    STANDING,
    STOPS,
    Checkpoint,
    DeadEntry,
    DelayedEntry,
    Draft,
    Kind,
    LeaseEntry,
    Origin,
    PlacedEntry,
    RawDraft,
    ReaderState,
    Record,
    SegmentHeader,
    Tag,
    Tally,
    ageless_of,
    attempts_of,
    dead_of,
    decode_meta,
    delayed_entries,
    encode,
    encode_meta,
    lease_entries,
    line_drafts,
    live_of,
    named,
    number_in,
    opened,
    origin_of,
    placed_entries,
    reader_states,
    retained_of,
    segment_number,
    watermark_drafts,
    watermarks_in,
)
from journal.read import Cursor
from journal.sets import IdCounts, IdSet
from journal.snapshot.dedupe_file import Chunk, ScopeState, chunk_range, listed, scopes_in

# A journal has this many: a start reads the older one if the newer one is damaged.
SNAPSHOTS_RETAINED: Final = 2
SUFFIX: Final = ".snapshot"
_DIGITS: Final = 20  # of an lsn in a name: sorted by name is sorted by lsn
_SEGMENT: Final = struct.Struct("<IIQQQQ")
_PIECE_BYTES: Final = 1 << 20  # bodies are cut to about this size
STEP_FRAMES: Final = 1000  # between two pauses, as in `compaction`
_FOOTER: Final = int(Kind.FOOTER)
_ORDER: Final = (
    Kind.CHECKPOINT, Kind.LIVE, Kind.ATTEMPTS, Kind.DEAD, Kind.LEASED, Kind.DELAYED, Kind.PLACED,
    Kind.OPEN, Kind.IDS, *STANDING, Kind.READER, Kind.SEGMENTS, Kind.FOOTER,
)  # fmt: skip
# They have their place, and their entries are not read yet.
_LATER: Final = frozenset({Kind.KEYS})
_ONCE: Final = frozenset({Kind.CHECKPOINT, *STANDING, Kind.FOOTER})


class SnapshotDamaged(JournalError):
    """A snapshot does not parse: from byte `offset` on, for this `reason`."""

    def __init__(self, path: str, offset: int, reason: str) -> None:
        super().__init__(f"{path}: damaged at byte {offset} ({reason})")
        self.offset = offset
        self.reason = reason


@dataclass(slots=True)
class SegmentState:
    """The live items of a segment. The items put there lie between first and last (0: none)."""

    number: int
    item_first: int
    item_last: int
    live: int
    live_bytes: int


@dataclass(slots=True)
class Snapshot:
    """The state that includes every record up to `lsn`; the log goes on at `segment`, `offset`.

    `live_bytes` are the bodies of all live items: ready, leased, dead. `segments` are all but the
    one in which the log goes on, in the order of the log; `tally` is of that one, up to `offset`
    (None: not known, and a start reads that segment whole). `standing` are the records of kinds in
    `STANDING` that are in force; their times do not count. `watermarks` are the last times of
    schedules.
    `delayed` and `placed` may be iterated more than once. `held` are the keys, by item, of items
    that were given back for later and are still first for their key, due or not. `origins` are
    open, by the item that was made of them. `readers` are the children; `passes_on`: the queue
    itself takes none of the items put for all; `is_tombstone`: it was deleted; `floor`: it was made
    again after that, and its own subscription sees the items after this one. `scopes` are in the
    order of their last use; `chunks` hold the remembered ids and versions. `retained` are ids whose
    puts are in the log, done or not (None: those of live items).
    """

    lsn: int
    segment: int
    offset: int
    checkpoint: Checkpoint
    live: IdSet
    live_bytes: int
    attempts: IdCounts
    dead: list[DeadEntry]
    segments: list[SegmentState]
    tally: Tally | None = None
    leased: list[LeaseEntry] = field(default_factory=list)
    standing: list[RawDraft] = field(default_factory=list)
    delayed: Iterable[DelayedEntry] = ()
    placed: Iterable[PlacedEntry] = ()
    watermarks: dict[bytes, int] = field(default_factory=dict)
    held: dict[int, bytes] = field(default_factory=dict)
    origins: dict[int, Origin] = field(default_factory=dict)
    readers: list[ReaderState] = field(default_factory=list)
    passes_on: bool = False
    retained: IdSet | None = None
    scopes: list[ScopeState] = field(default_factory=list)
    chunks: list[Chunk] = field(default_factory=list)
    is_tombstone: bool = False
    floor: int = 0
    ageless: IdSet = field(default_factory=IdSet)
    heard_ms: int = 0  # the running clock then; 0: no delayed item has it

    def needed(self) -> IdSet:
        """Return the items whose puts some reader needs; not to be changed."""
        return IdSet.union([self.live, *(reader.live for reader in self.readers)])

    def encode(
        self, short_identity: int, identity: bytes, time_ms: int,
        pause: Callable[[], None] = lambda: None,
    ) -> bytes:  # fmt: skip
        """Return the file's bytes, below 4 GiB. It may run on a thread when the state is a copy.

        `pause` is called about every millisecond of work and may wait.
        """
        pieces: list[bytes] = []
        frames: list[bytes] = []  # since the last piece
        at, lsn = FILE_HEADER_BYTES, self.lsn + 1
        for count, draft in enumerate(self._drafts(time_ms)):
            if draft[0] == _FOOTER:
                draft = draft._replace(item=count)
            at += encode(draft, lsn, short_identity, 0, at, frames)
            if draft[6] or not count % STEP_FRAMES:
                pieces.append(b"".join(frames))
                frames.clear()
                pause()
        header = SegmentHeader(short_identity, identity, 0, at, time_ms, SNAPSHOT)
        return b"".join((header.encode(), *pieces, *frames))

    @classmethod
    def decode(cls, data: bytes, path: str) -> Snapshot:
        """Do the inverse of `encode`. Raises SnapshotDamaged, or NewerFormat for a newer one."""
        frames = list(_frames(data, path))
        try:
            made = _from_frames(frames)
        except (ValueError, struct.error) as error:
            raise SnapshotDamaged(path, FILE_HEADER_BYTES, str(error)) from None
        named = snapshot_lsn(os.path.basename(path))
        if named is not None and named != made.lsn:
            raise SnapshotDamaged(path, 0, f"it is of lsn {made.lsn}")
        return made

    def _drafts(self, time_ms: int) -> Iterator[Draft]:
        opening = self.checkpoint.draft(time_ms, self.lsn)
        live_bytes = encode_meta({Tag.BYTES: self.live_bytes})
        yield opening._replace(meta=opening.meta + live_bytes)
        yield from line_drafts(
            self.live, self.attempts, self.dead, self.leased, self.delayed, self.held,
            self.placed, time_ms, self.retained, self.ageless,
        )  # fmt: skip
        for item, origin in self.origins.items():
            yield opened(item, origin, time_ms)
        yield from watermark_drafts(self.watermarks, time_ms)
        yield from (scope.draft() for scope in self.scopes)
        yield from (chunk.listing() for chunk in self.chunks)
        yield from self._switches(time_ms)
        each = _PIECE_BYTES // _SEGMENT.size
        for at in range(0, max(len(self.segments), 1), each):
            some = self.segments[at : at + each]
            body = b"".join(
                _SEGMENT.pack(s.number, 0, s.item_first, s.item_last, s.live, s.live_bytes)
                for s in some
            )
            yield Draft(
                Kind.SEGMENTS, self.segment, self.offset, len(some), time_ms, b"", body, 0, 0
            )
        meta, place_last = b"", 0
        if self.tally is not None:
            meta, place_last = encode_meta(self.tally.meta()), self.tally.place_last
        yield Draft(Kind.FOOTER, 0, place_last, 0, time_ms, meta, b"", 0, 0)

    def _switches(self, time_ms: int) -> Iterator[Draft]:
        """Yield the frames about the whole queue that differ from those of a new queue."""
        for draft in sorted(self.standing, key=lambda each: STANDING.index(each[0])):
            yield Draft(*draft)._replace(time_ms=time_ms)
        if self.passes_on:
            yield named(0, b"", 0, STOPS, time_ms)
        if self.floor:
            yield named(0, b"", self.floor, AGAIN, time_ms)
        if self.is_tombstone:
            yield named(0, b"", 0, GONE, time_ms)
        for reader in self.readers:
            yield from reader.drafts(time_ms)


def snapshot_name(lsn: int) -> str:
    """Return the file name of the snapshot of this lsn."""
    return f"{lsn:0{_DIGITS}d}{SUFFIX}"


def snapshot_lsn(name: str) -> int | None:
    """Return the lsn in a snapshot's file name; None for any other file."""
    stem = name.removesuffix(SUFFIX)
    if stem == name or len(stem) != _DIGITS or not (stem.isascii() and stem.isdigit()):
        return None
    return int(stem)


def is_ours(name: str) -> bool:
    """True if this names a segment, a snapshot or a chunk."""
    return (
        segment_number(name) is not None
        or snapshot_lsn(name) is not None
        or chunk_range(name) is not None
    )


def _frames(data: bytes, path: str) -> Iterator[Record]:
    """Yield every frame, each whole and at its place, with nothing between, before or after."""
    header = SegmentHeader.decode(data[:FILE_HEADER_BYTES], path)
    if header is None:
        raise SnapshotDamaged(path, 0, "the file header is not readable")
    if header.role != SNAPSHOT or header.segment:
        raise SnapshotDamaged(path, 0, "this is no snapshot")
    if header.capacity != len(data):
        at = min(header.capacity, len(data))
        raise SnapshotDamaged(path, at, f"{len(data)} bytes of {header.capacity}")
    step, count, lsn = 0, 0, 0
    cursor = Cursor.over(data, header.journal, 0, FILE_HEADER_BYTES)
    while cursor.at < len(data):
        frame = cursor.take()
        if frame is None:
            raise SnapshotDamaged(path, cursor.at, "not a whole record")
        end = frame.offset + HEADER_BYTES + len(frame.meta) + len(frame.body)
        if frame.end > len(data) or any(data[end : frame.end]):
            raise SnapshotDamaged(path, end, "not padded with zeros")
        step = _next_step(frame, step, path)
        if (count and frame.lsn != lsn) or (frame.kind == Kind.FOOTER and frame.item != count):
            raise SnapshotDamaged(path, frame.offset, "a record of another snapshot")
        lsn, count = frame.lsn, count + 1
        yield frame
    if step != len(_ORDER):
        raise SnapshotDamaged(path, cursor.at, "it has no end")


def _next_step(frame: Record, step: int, path: str) -> int:
    """Return the least place in the order of kinds that the next frame may have."""
    try:
        kind = Kind(frame.kind)
    except ValueError:
        kind = Kind.KEYS
    if kind in _LATER:
        raise NewerFormat(f"{path}: a snapshot with records of kind {frame.kind}")
    listed = Kind.LEASED if kind in (Kind.RENEWED, Kind.MOVING) else kind
    if frame.reader:  # a child's block
        listed = Kind.READER
    place = _ORDER.index(listed) if listed in _ORDER else -1
    if place < step or (step == 0) != (place == 0):
        raise SnapshotDamaged(path, frame.offset, f"{kind.name} is out of place")
    return place + (listed in _ONCE)


def _from_frames(frames: list[Record]) -> Snapshot:
    """Return the state in these frames, in their order; raise ValueError if they make no sense."""
    segments: list[SegmentState] = []
    goes_on: Record | None = None
    own = [frame for frame in frames if not frame.reader]
    for frame in own:
        if frame.kind == Kind.SEGMENTS:
            goes_on = frame
            entries = (_SEGMENT.unpack_from(frame.body, at * _SEGMENT.size)
                       for at in range(frame.small))  # fmt: skip
            segments += [SegmentState(number, *rest) for number, _, *rest in entries]
    if goes_on is None:
        raise ValueError("it does not say where the log goes on")
    opening, closing = frames[0], frames[-1]
    delayed, held, heard = delayed_entries(own)
    return Snapshot(
        lsn=opening.lsn - 1,
        segment=goes_on.item,
        offset=goes_on.number,
        checkpoint=Checkpoint.from_record(opening),
        live=live_of(own),
        live_bytes=number_in(decode_meta(opening.meta), Tag.BYTES),
        attempts=attempts_of(own),
        dead=dead_of(own),
        segments=segments,
        tally=Tally.from_footer(closing) if closing.meta else None,
        leased=lease_entries(own),
        standing=[Draft(*frame[:8], 0) for frame in own if frame.kind in STANDING],
        delayed=delayed,
        placed=placed_entries(own),
        watermarks=watermarks_in(own),
        held=held,
        scopes=scopes_in(frames),
        chunks=listed(frames),
        origins={
            frame.item: origin
            for frame in own
            if frame.kind == Kind.OPEN and (origin := origin_of(frame.meta)) is not None
        },
        readers=reader_states([frame for frame in frames if frame.reader]),
        passes_on=any(frame.kind == Kind.READER and frame.small == STOPS for frame in own),
        is_tombstone=any(frame.kind == Kind.READER and frame.small == GONE for frame in own),
        retained=retained_of(own),
        ageless=ageless_of(own),
        heard_ms=heard,
        floor=max(
            (f.number for f in own if f.kind == Kind.READER and f.small == AGAIN), default=0
        ),
    )
