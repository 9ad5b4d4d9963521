"""Range scans: many puts at once, from a place on, from a log that is being written.

    RangeScan.of ──▶ run (blocks: on a thread) ──▶ puts, and how far it looked ──▶ RangeScan.of ...

This is how an observer reads. `readahead` belongs to the ready list and names damage. A range scan
holds no bytes between two reads, only a `PutPlace`, so each connection may have an observer.

One rule: a put is handed out only if its frame is whole and at its own position. Other bytes are
passed over, because the ready list meets them as well and names them.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final, NamedTuple
from zlib import crc32

from journal.files import Files, read_around
from journal.format import (
    CRC_BYTES,
    FILE_HEADER_BYTES,
    HEADER_BYTES,
    SMALL_BYTES,
    ItemTexts,
    Kind,
    PutMeta,
    Record,
    Tag,
    padded,
    said_of_put,
    text_tagged,
)
from journal.read.cursor import next_frame
from journal.read.seek import Extent
from journal.sets import IdSet
from journal.write import Journal

PIECE_BYTES: Final = 1 << 20  # read at once
PIECE_BYTES_OF_ONE: Final = 64 << 10  # ... where one item is wanted
# A scan ends after this many bytes of the log even if it found nothing: a stretch with few items
# left must not occupy a thread.
WALKED_BYTES_MAX: Final = 16 << 20
# A place further ahead than this is searched by halving, not by walking.
NEAR_ITEMS: Final = 4096
# A scan takes a bit for each id, for this many times the items that it may find.
_SPAN: Final = 4
_FRAME: Final = struct.Struct("<IIIIIIQQQQBxH4x")  # as `record` has it, what a reader needs
_NO_LIMIT: Final = 1 << 64
_NOTHING_SAID: Final = PutMeta()
_PUT: Final = int(Kind.PUT)
_new: Final = tuple.__new__  # half the cost of calling a named tuple


class Put(NamedTuple):
    """An item as a read of the log returns it. Times are on the wall clock, `expires_ms` 0: never.

    `marker` is 0 if it was put delayed; `key` and `dedupe_id` are b"" for none.
    """

    id: int
    marker: int
    flags: int
    stored_ms: int
    body: bytes
    expires_ms: int = 0
    key: bytes = b""
    dedupe_id: bytes = b""
    texts: ItemTexts = ()

    @property
    def client(self) -> bytes:
        """The producer, as it names itself; b"": it does not."""
        return text_tagged(self.texts, Tag.CLIENT)


@dataclass(frozen=True, slots=True)
class PutPlace:
    """No put from `item` on is before `offset` in segment `number`."""

    number: int
    offset: int
    item: int


@dataclass(frozen=True, slots=True)
class Scanned:
    """`puts` in order. Items up to `seen` were looked for; `place` is where to go on."""

    puts: list[Put]
    seen: int
    place: PutPlace


@dataclass(frozen=True, slots=True)
class RangeScan:
    """Puts from item `first` to `last` in one segment, at most `most` of them and `bytes_most` of
    bodies (one in any case), stored at `since_ms` or later once the first such one was met.

    `start` -1: their position has to be found. `wanted` None: all are. From the lsn `limit` on (0:
    there is none) newer segments repeat the records.
    """

    extent: Extent
    start: int
    first: int
    last: int
    wanted: IdSet | None
    limit: int
    most: int
    bytes_most: int
    since_ms: int

    @classmethod
    def of(
        cls, journal: Journal, place: PutPlace | None, first: int, last: int, live: IdSet,
        most: int,
        bytes_most: int, since_ms: int = 0, hidden: IdSet | None = None,
    ) -> RangeScan | None:  # fmt: skip
        """Return how to read the items from `first` on, up to `last`; None: the log has none.

        Items in `hidden` are passed over. The scan may end before `last`, with its segment: then
        another one follows.
        """
        segments = journal.segments
        with_items = []
        for i in range(len(segments) - 1, -1, -1):
            if segments[i].item_last >= first:
                with_items.append((i, segments[i]))
            elif segments[i].item_last:
                break
        with_items.reverse()
        if not with_items:
            return None
        # After an unclean end the next segment repeats the records after the last sync.
        behind = [each for each in with_items if each[1].item_first <= first]
        at, segment = behind[-1] if behind else with_items[0]
        first, last = max(first, segment.item_first), min(last, segment.item_last)
        last = min(last, first + max(_SPAN * most, NEAR_ITEMS) - 1)
        if at + 1 < len(segments) and segments[at + 1].item_first:
            last = min(last, segments[at + 1].item_first - 1)
        if last < first:
            return None
        start = FILE_HEADER_BYTES if first == segment.item_first else -1
        if place is not None and place.number == segment.number and (
            place.item <= first < place.item + NEAR_ITEMS
        ):
            start = place.offset
        limit = segments[at + 1].lsn_first if at + 1 < len(segments) else 0
        are_hidden = hidden is not None and hidden.count and hidden.count_between(first, last)
        wanted = None  # all of them
        if are_hidden or live.count_between(first, last) <= last - first:
            wanted = live.between(first, last)
        if wanted is not None and are_hidden and hidden is not None:
            wanted = wanted.without(hidden)
        return cls(
            Extent.of(journal, segment), start, first, last, wanted, limit, most, bytes_most,
            since_ms,
        )

    def run(self, files: Files) -> Scanned:
        """Read and check them. Blocks; raises OSError."""
        extent, walk = self.extent, _Walk(self)
        at = self.start if self.start >= 0 else self._seek(files)
        piece = PIECE_BYTES if self.most > 1 else PIECE_BYTES_OF_ONE
        stop, walked = extent.stop, at + WALKED_BYTES_MAX
        while at + HEADER_BYTES <= stop and at < walked and not walk.is_over:
            size = min(max(piece, walk.needed), stop - at)
            data = read_around(files, extent.path, at, size)
            if len(data) < HEADER_BYTES or len(data) < walk.needed:
                walk.is_over, walk.seen = True, self.last  # the file ends here
                break
            at += walk.go(data, at)
        if at + HEADER_BYTES > stop:
            walk.seen = self.last
        return Scanned(walk.puts, walk.seen, PutPlace(extent.number, at, walk.seen + 1))

    def _seek(self, files: Files) -> int:
        return self.extent.seek_item(files, self.first)


class _Walk:
    """A walk over the frames of one segment. `needed`: bytes that the current frame still lacks."""

    __slots__ = ("_room", "_scan", "_since_ms", "is_over", "needed", "puts", "seen")

    def __init__(self, scan: RangeScan) -> None:
        self._scan = scan
        self._room = scan.bytes_most
        self._since_ms = scan.since_ms
        self.puts: list[Put] = []
        self.seen = scan.first - 1
        self.needed = 0
        self.is_over = False

    def go(self, data: bytes, base: int) -> int:
        """Go over the whole frames in `data`, which is at `base`; return how far."""
        scan = self._scan
        owner, number, limit = scan.extent.journal, scan.extent.number, scan.limit or _NO_LIMIT
        stop, first, last = scan.extent.stop - base, scan.first, scan.last
        wanted, puts, most = scan.wanted, self.puts, scan.most - 1
        room, since_ms, seen = self._room, self._since_ms, self.seen
        size, at, unpack, here = len(data), 0, _FRAME.unpack_from, memoryview(data)
        self.needed = 0
        while at + HEADER_BYTES <= size:
            (
                crc, length, journal, segment, position, small, lsn, time_ms, item, place,
                kind, meta_bytes,
            ) = unpack(data, at)  # fmt: skip
            end = at + length
            is_frame = (
                position == base + at and segment == number and journal == owner
                and HEADER_BYTES + meta_bytes <= length <= stop - at
            )  # fmt: skip
            if is_frame and end > size:
                self.needed = length
                break
            # Of a small frame a copy costs less than a view.
            covered = data if length < SMALL_BYTES else here
            if not is_frame or crc32(covered[at + CRC_BYTES : end]) != crc:
                at = next_frame(data, at, base, owner, number)
                continue
            if kind == _PUT and item >= first:
                if item > last or lsn >= limit:
                    self.seen, self.is_over = last, True
                    return at
                if (wanted is None or item in wanted) and time_ms >= since_ms:
                    body_at, said = at + HEADER_BYTES + meta_bytes, _NOTHING_SAID
                    room -= end - body_at
                    if room < 0 and puts:
                        self.seen, self.is_over = seen, True
                        return at
                    since_ms = 0
                    if meta_bytes:
                        said = said_of_put(data[at + HEADER_BYTES : body_at])
                    expires_ms, key, dedupe_id, texts = said
                    puts.append(_new(Put, (
                        item, place, small, time_ms, data[body_at:end], expires_ms, key, dedupe_id,
                        texts,
                    )))  # fmt: skip
                seen = item
                if item == last or len(puts) > most:
                    self.seen, self.is_over = item, True
                    return padded(end)
            at += length + 7 & ~7
        self._room, self._since_ms, self.seen = room, since_ms, seen
        return at


@dataclass(frozen=True, slots=True)
class TimeSearch:
    """The item to begin at, so that none stored at `since_ms` or later is missed.

    `extents` are the segments with puts in the order of the log, each with its first item. The
    search assumes that times rise with the log. If the wall clock was set back, it may miss items
    that were stored before that.
    """

    extents: tuple[tuple[Extent, int], ...]
    since_ms: int

    @classmethod
    def of(cls, journal: Journal, since_ms: int) -> TimeSearch:
        """Return how to find the first item stored at this wall time or later."""
        found = ((Extent.of(journal, s), s.item_first) for s in journal.segments if s.item_last)
        return cls(tuple(found), since_ms)

    def run(self, files: Files) -> int:
        """Return the item. Blocks; raises OSError."""
        low, high = 0, len(self.extents)
        while high - low > 1:
            middle = (low + high) // 2
            extent, _ = self.extents[middle]
            put = extent.put_after(files, FILE_HEADER_BYTES, extent.stop)
            if put is not None and self._is_before(put):
                low = middle
            else:
                high = middle
        if not self.extents:
            return 1
        extent, first = self.extents[low]
        put = extent.put_after(files, extent.seek(files, self._is_before), extent.stop)
        return first if put is None else put.item

    def _is_before(self, put: Record) -> bool:
        return put.time_ms < self.since_ms
