"""Compaction: the live items of some segments, rewritten as one segment that stands for them.

    0             64
    +-------------+------------+-------+-----------+-------+------ - - --+--------+
    | file header | CHECKPOINT | BATCH | PUT PUT … | BATCH | PUT PUT     | FOOTER |
    +-------------+------------+-------+-----------+-------+------ - - --+--------+
      role, ranks   counters     each group up to 1 MiB; the old lsns, with gaps

A frame is copied as it is, except for its position. The file has a temporary name until all of it
is on disk.

One rule: the job reads every byte up to the last record it knows of, and guesses nothing: bytes
that do not parse might be a live item.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final
from zlib import crc32

from journal.errors import JournalError
from journal.files import SUFFIX_NEW, Files, Handle
from journal.format import (
    COMPACTED,
    CRC_BYTES,
    FILE_HEADER_BYTES,
    FOOTER_SPACE_BYTES,
    FRAME,
    HEADER_BYTES,
    LOG,
    Draft,
    Kind,
    Record,
    SegmentHeader,
    Tally,
    encode,
    padded,
)
from journal.read import Frames
from journal.sets import IdSet
from journal.write import BATCH_BYTES, Segment, whole_sectors

PIECE_BYTES: Final = 1 << 20  # read, and written and synced, at once
STEP_FRAMES: Final = 1000  # between two pauses: about a millisecond

_PUT: Final = int(Kind.PUT)
_OPENING: Final = (int(Kind.BATCH), int(Kind.CHECKPOINT))


class DamagedInput(JournalError):
    """Bytes in a segment to be rewritten do not parse. It stays; its readers name the damage."""

    def __init__(self, path: str, offset: int) -> None:
        super().__init__(f"{path}: not rewritten: byte {offset} is not what was written there")
        self.path = path
        self.offset = offset


@dataclass(frozen=True, slots=True)
class SegmentInput:
    """A segment as the job has to know it; the loop goes on changing the segment meanwhile.

    Its records are those from `lsn_first` to `lsn_last`; any later one is superseded.
    """

    path: str
    number: int
    capacity: int
    lsn_first: int
    lsn_last: int
    has_live: bool


@dataclass(slots=True)
class CompactionJob:
    """Rewrites the live items of some segments. `run` blocks and belongs on a thread.

    `header` has the new file's number and role (the job fills in its capacity and the ranks it
    stands for), `opening` is its checkpoint. `live` belongs to the job and does not change any
    more. `pause` is called about every millisecond of work and may wait.
    """

    inputs: list[SegmentInput]
    live: IdSet
    path: str
    header: SegmentHeader
    opening: Draft
    pause: Callable[[], None]
    # Of each input: its live puts, their headers and bodies, and their meta and padding.
    # Known after `run`.
    measures: list[tuple[int, int, int]] = field(default_factory=list)

    @classmethod
    def of(
        cls, chosen: Sequence[Segment], lsn_limit: int, live: IdSet, path: str,
        header: SegmentHeader, opening: Draft, pause: Callable[[], None],
    ) -> CompactionJob:  # fmt: skip
        """Return a job for these segments; `lsn_limit` is lsn_first of the next one, 0: there is
        none.
        """
        assert header.role == COMPACTED
        limits = [s.lsn_first for s in chosen[1:]] + [lsn_limit or chosen[-1].lsn_last + 1]
        inputs = [
            SegmentInput(
                s.path, s.number, s.capacity, s.lsn_first, min(s.lsn_last, limit - 1), s.live > 0
            )
            for s, limit in zip(chosen, limits, strict=True)
        ]
        return cls(inputs, live, path, header, opening, pause)

    def run(self, files: Files) -> Segment | None:
        """Return the new segment, sealed, on disk with its name; None: it would save too little.

        Raises DamagedInput, and OSError when the disk fails or is full; nothing has changed then.
        """
        self.measures = []
        walks = [_Walk(files, source, self.header.journal) for source in self.inputs]
        header = replace(
            self.header,
            first=min(walk.header.rank for walk in walks),
            last=max(walk.header.last or walk.header.segment for walk in walks),
        )
        lsn_last = max(source.lsn_last for source in self.inputs)
        bytes_max = sum(v.capacity for v in self.inputs if v.has_live) // 2
        lsns = self.inputs[0].lsn_first, lsn_last
        out = _Compacted(files, self.path, header, lsns, bytes_max, self.opening.time_ms)
        try:
            out.open(self.opening)
            for walk in walks:
                puts_before, live_before, extra_before = out.size
                for puts in walk.steps(self.live):
                    out.add(puts)
                    self.pause()
                found, live_bytes, extra_bytes = out.size
                self.measures.append(
                    (found - puts_before, live_bytes - live_before, extra_bytes - extra_before)
                )
            return out.finish()
        except BaseException:
            out.drop()
            raise

    def measure(self, chosen: Sequence[Segment]) -> None:
        """Note in each segment the sizes that the job found, for `choose`.

        After a start the size of a segment's live items is an estimate.
        """
        for segment, (measured, live_bytes, extra_bytes) in zip(chosen, self.measures, strict=True):
            segment.measured, segment.extra_bytes = measured, extra_bytes
            if measured:
                segment.live_bytes = live_bytes * segment.live // measured


class _Walk:
    """A pass over an input, frame by frame, each checked: a put with a damaged item or kind would
    look like one of a done item, and would be lost for good.

    The end is known beforehand: a log segment has every lsn up to its last, a compacted segment has
    as many records as its footer counts. So later bytes do not matter.
    """

    __slots__ = ("_cursor", "_input", "_left", "_lsn", "_lsn_gaps", "header")

    def __init__(self, files: Files, source: SegmentInput, journal: int) -> None:
        self._input = source
        self._lsn = source.lsn_first
        frames = Frames(files, source.path)
        header = frames.header
        if (
            header is None
            or header.journal != journal
            or header.segment != source.number
            or header.role not in (LOG, COMPACTED)
        ):
            raise DamagedInput(source.path, 0)
        self.header = header
        self._cursor = frames.cursor(FILE_HEADER_BYTES)
        self._cursor.stop = source.capacity - FOOTER_SPACE_BYTES
        self._lsn_gaps = header.role == COMPACTED
        self._left = source.lsn_last - source.lsn_first + 1
        if not source.has_live:
            self._left = 0
        elif self._lsn_gaps:
            footer = frames.footer
            if footer is None:
                raise DamagedInput(source.path, source.capacity - FOOTER_SPACE_BYTES)
            self._left = footer.item

    def steps(self, live: IdSet) -> Iterator[list[Record]]:
        """Yield the live puts, after every STEP_FRAMES frames and after every piece."""
        while self._left > 0:
            yield self._step(live)

    def _step(self, live: IdSet) -> list[Record]:
        """Return the live puts of some frames. It unpacks frames itself, because nearly all of them
        need no more than their checksum.
        """
        source, cursor, lsn_gaps = self._input, self._cursor, self._lsn_gaps
        lsn_next, left, found = self._lsn, self._left, list[Record]()
        cursor.load()
        data, base, at = cursor.data, cursor.base, cursor.at - cursor.base
        view, last = memoryview(data), len(data) - HEADER_BYTES
        for _ in range(STEP_FRAMES):
            if at > last or not left:
                break
            (
                crc, length, owner, number, position, small, lsn, time_ms, item, place,
                kind, _, meta_bytes, reader, _,
            ) = FRAME.unpack_from(data, at)  # fmt: skip
            if (
                owner != cursor.journal
                or number != cursor.number
                or position != base + at
                or length < HEADER_BYTES
                or not (lsn == lsn_next or (lsn_gaps and lsn > lsn_next))
            ):
                raise DamagedInput(source.path, base + at)
            end = at + length
            if end > len(data):
                break
            if crc32(view[at + CRC_BYTES : end]) != crc:
                raise DamagedInput(source.path, base + at)
            if kind not in _OPENING:
                lsn_next = lsn + 1
                left -= 1
                if kind == _PUT and item in live and lsn <= source.lsn_last:
                    body_at = at + HEADER_BYTES + meta_bytes
                    meta, body = data[at + HEADER_BYTES : body_at], data[body_at:end]
                    found.append(Record(
                        kind, item, place, small, time_ms, meta, body,
                        reader, lsn, number, position, base + padded(end),
                    ))  # fmt: skip
            at = padded(end)
        if base + at == cursor.at:  # not even one frame
            raise DamagedInput(source.path, cursor.at)
        cursor.at, self._lsn, self._left = base + at, lsn_next, left
        return found


class _Compacted:
    """The new file while it is written: under a temporary name, batch after batch, each synced.

    Once it would be larger than `bytes_max` the file is removed, and the puts are only counted.
    """

    def __init__(
        self, files: Files, path: str, header: SegmentHeader, lsns: tuple[int, int],
        bytes_max: int, time_ms: int,
    ) -> None:  # fmt: skip
        self.puts = self.extra_bytes = 0
        self._files = files
        self._path = path
        self._header = header
        self._lsns = lsns  # first and last that it stands for
        self._bytes_max = bytes_max
        self._time_ms = time_ms
        self._tally = Tally()
        self._live_bytes = 0
        self._group: list[bytes] = []
        self._group_bytes = self._group_puts = self._group_lsn = 0
        self._handle: Handle | None = None  # none while there is no file
        self._at = FILE_HEADER_BYTES

    @property
    def size(self) -> tuple[int, int, int]:
        """Puts so far, their headers and bodies, and their meta and padding."""
        return self.puts, self._live_bytes, self.extra_bytes

    def open(self, opening: Draft) -> None:
        """Begin the file with its checkpoint."""
        self._handle = self._files.create(self._path + SUFFIX_NEW, b"", 0)
        out: list[bytes] = []
        header = self._header
        size = encode(opening, self._lsns[0], header.journal, header.segment, self._at, out)
        self._write(b"".join(out), size)

    def add(self, puts: list[Record]) -> None:
        """Add these puts in this order."""
        tally, header = self._tally, self._header
        for put in puts:
            size = put.end - put.offset
            if self._group_bytes + size > PIECE_BYTES:
                self._write_group()
            if not self._group:
                self._group_lsn = put.lsn
            offset = self._at + BATCH_BYTES + self._group_bytes
            encode((*put[:8], 0), put.lsn, header.journal, header.segment, offset, self._group)
            self._group_bytes += size
            self._group_puts += 1
            self.puts += 1
            live_bytes = HEADER_BYTES + len(put.body)
            self.extra_bytes += size - live_bytes
            self._live_bytes += live_bytes
            tally.see_time(put.time_ms)
            tally.see_released_ids(put.number, put.number)
            tally.item_first = min(tally.item_first or put.item, put.item)
            tally.item_last = max(tally.item_last, put.item)

    def finish(self) -> Segment | None:
        """Seal the file and give it its name; return None if it is too large."""
        self._write_group()
        end = whole_sectors(self._at)
        capacity = end + FOOTER_SPACE_BYTES
        if capacity > self._bytes_max:
            self.drop()
        if self._handle is None:
            return None
        tally, header = self._tally, replace(self._header, capacity=capacity)
        tally.counts[_PUT] = self.puts
        lsn_first, lsn_last = self._lsns
        segment = Segment(
            header.segment, self._path, capacity, None, lsn_first, self._at, self.puts,
            tally=tally, item_first=tally.item_first, item_last=tally.item_last, puts=self.puts,
            live_bytes=self._live_bytes, lsn_last=lsn_last, rank=header.rank,
            measured=self.puts, extra_bytes=self.extra_bytes, time_last=tally.time_max,
        )  # fmt: skip
        footer = segment.footer(lsn_last + 1, self._time_ms)._replace(item=self.puts)
        out: list[bytes] = [bytes(end - self._at)]
        encode(footer, lsn_last + 1, header.journal, header.segment, end, out)
        self._handle.write(self._at, b"".join(out).ljust(capacity - self._at, b"\0"))
        self._handle.write(0, header.encode())
        self._handle.sync()
        self._handle.close()
        try:
            self._files.rename(self._path + SUFFIX_NEW, self._path)
        except OSError:  # the rename may be done all the same, and the journal would not know
            with contextlib.suppress(OSError):
                self._files.remove(self._path)
            raise
        return segment

    def drop(self) -> None:
        """Remove the file. Anything left of it has a name that no start reads."""
        if self._handle is not None:
            self._handle.close()
            self._handle = None
            with contextlib.suppress(OSError):
                self._files.remove(self._path + SUFFIX_NEW)

    def _write_group(self) -> None:
        if not self._group:
            return
        size = BATCH_BYTES + self._group_bytes
        # The file gets its name when all of it is on disk, so its last lsn counts as synced.
        draft = Draft(
            Kind.BATCH, size, self._lsns[1], self._group_puts, self._time_ms, b"", b"", 0, 0
        )
        out: list[bytes] = []
        header = self._header
        encode(draft, self._group_lsn, header.journal, header.segment, self._at, out)
        data = b"".join(out + self._group)
        self._group = []
        self._group_bytes = self._group_puts = 0
        self._write(data, size)

    def _write(self, data: bytes, size: int) -> None:
        if self._at + size + FOOTER_SPACE_BYTES > self._bytes_max:
            self.drop()
        if self._handle is not None:
            self._handle.write(self._at, data)
            self._handle.sync()
        self._at += size
