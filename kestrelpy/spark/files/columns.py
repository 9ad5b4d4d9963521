"""Verified frames to Arrow columns: headers gathered with numpy, bodies in one pass of Arrow's.

    bytes of a segment    |header|meta|body|pad|header|body|header|...
    headers               8 words of 8 bytes each, gathered to 8 rows: words[k][frame]
    bodies                offsets  body0 end0 body1 end1 ...  over the same bytes, then every
                          second value is taken: one copy, no object per record

One rule: a column is made only when it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from journal.format.key import as_text
from journal.format.kinds import Kind, Tag
from journal.format.meta import DELIVERY_MAX
from journal.format.record import HEADER_BYTES
from kestrelpy.spark.files.frame_headers import Bools, Heads, Ints
from kestrelpy.spark.files.live_items import NOTHING_HELD, STATES, Holding
from kestrelpy.spark.files.readers import NUMBERS, Turns, names
from kestrelpy.spark.files.split import Limits, Piece
from kestrelpy.spark.schema import OP_WORDS, Selection

_LOW32: Final = np.uint64(0xFFFFFFFF)
_EXPIRES: Final = np.uint64(Tag.EXPIRES_MS | 8 << 8)  # what meta that begins with it begins with
_EXPIRES_MASK: Final = np.uint64(0xFFFFFF)
_EXPIRES_META_BYTES: Final = 11
_WITH_BODY: Final = (Kind.PUT, Kind.CARRIED, Kind.DECLARED)
# A flush, and a confirm of all up to a marker: the ids that it spared.
_WITH_VALUE: Final = (*_WITH_BODY, Kind.FLUSHED, Kind.UPTO, Kind.READER)
_SIZE_IN_META: Final = (Kind.DEAD, Kind.LEASED, Kind.RETURNED, Kind.UPTO, Kind.READER)
_ENDED: Final = (Kind.DONE, Kind.EXPIRED, Kind.DISCARDED, Kind.CANCELLED)
_BEGAN: Final = (Kind.DONE, Kind.RETURNED, Kind.DEAD, Kind.MOVED)
_COUNTED: Final = (Kind.RETURNED, Kind.DEAD)  # `small` is the attempts


class Rows:
    """Makes batches of one selection from the frames of one piece."""

    def __init__(self, piece: Piece, chosen: Selection, limits: Limits) -> None:
        self.schema = chosen.arrow
        self._piece = piece
        self._limits = limits
        self._held = Holding(piece.held) if piece.held is not None else None
        columns = ITEM_COLUMNS if chosen.mode == "items" else EVENT_COLUMNS
        self._makers = [columns[name] for name in chosen.names]

    def batch(self, heads: Heads) -> pa.RecordBatch | None:
        """The rows of these records; None: none of them is wanted."""
        wanted = self._wanted(heads)
        if wanted is not None and not wanted.all():
            if not wanted.any():
                return None
            heads = heads.pick(wanted)
        if not len(heads):
            return None
        source = Source(heads, self._piece, self._held)
        arrays = [make(source) for make in self._makers]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _wanted(self, heads: Heads) -> Bools | None:
        limits, wanted = self._limits, np.ones(len(heads), np.bool_)
        for first, last in self._piece.skip:
            wanted &= (heads.lsn < first) | (heads.lsn > last)
        if self._held is not None:
            puts = heads.kind == Kind.PUT
            wanted &= puts
            wanted[puts] &= self._held.has(heads.item[puts])
        if limits.from_ms is not None:
            wanted &= heads.time_ms >= limits.from_ms
        if limits.before_ms is not None:
            wanted &= heads.time_ms < limits.before_ms
        if limits.marker_after is not None:
            wanted &= heads.marker > limits.marker_after
        if limits.marker_upto is not None:
            wanted &= (heads.marker <= limits.marker_upto) & (heads.marker > 0)
        return wanted


class Source:
    """What columns are made from."""

    def __init__(self, heads: Heads, piece: Piece, held: Holding | None) -> None:
        self.heads = heads
        self.piece = piece
        self.held: Holding = held if held is not None else NOTHING_HELD

    def constant(self, value: str | int | None, kind: pa.DataType) -> pa.Array:
        """The same in every row."""
        return pa.repeat(pa.scalar(value, kind), len(self.heads))

    def tagged(self, tag: Tag) -> pa.Array:
        """A text of each record's meta."""
        read = as_text if tag == Tag.KEY else _decoded
        words = self.raw(tag).dictionary_encode()
        texts = pa.array(map(read, words.dictionary.to_pylist()), pa.string())
        return texts.take(words.indices)

    def raw(self, tag: Tag) -> pa.Array:
        """The same as it is stored: two that differ may have one text."""
        if not self.heads.meta_bytes.any():
            return pa.nulls(len(self.heads), pa.binary())
        found = (meta.get(tag) for meta in self.heads.metas)
        return pa.array([each if isinstance(each, bytes) else None for each in found], pa.binary())

    def counted(self, tag: Tag) -> pa.Array:
        """A number of each record's meta."""
        if not self.heads.meta_bytes.any():
            return pa.nulls(len(self.heads), pa.int64())
        found = (meta.get(tag) for meta in self.heads.metas)
        return pa.array([each if isinstance(each, int) else None for each in found], pa.int64())

    def due(self) -> pa.Array:
        """Until when it is delayed."""
        due = pc.fill_null(self.counted(Tag.DUE_MS), 0).to_numpy(zero_copy_only=False)
        return _times(due, due > 0)

    @cached_property
    def expires(self) -> Ints:
        """When each item expires; 0: never. The first tag there is, so no meta is taken apart."""
        heads, made = self.heads, np.zeros(len(self.heads), np.int64)
        some = heads.meta_bytes >= _EXPIRES_META_BYTES
        some &= heads.kind == Kind.PUT
        if some.any():
            words = np.frombuffer(heads.data, "<u8", len(heads.data) >> 3)
            first = (heads.at[some] + HEADER_BYTES) >> 3
            low = words[first]
            # The meta has 11 bytes at least, so the frame and what pads it have 16 of them.
            high = words[first + 1] & _EXPIRES_MASK
            value = (low >> np.uint64(24)) | (high << np.uint64(40))
            made[some] = np.where(low & _EXPIRES_MASK == _EXPIRES, value, 0).view(np.int64)
        return made

    @cached_property
    def body_bytes(self) -> tuple[Ints, Bools]:
        """Of the body each record is about, and where that is known."""
        heads, small = self.heads, self.heads.small
        own = heads.is_one_of(_WITH_BODY)
        # Nobody wrote MOVED before version 4; as it was reserved it did not say its bytes.
        ended = heads.is_one_of(_ENDED) & (self.piece.version > 1)
        ended |= (heads.kind == Kind.MOVED) & (self.piece.version > 3)
        size = np.where(own, heads.lengths - HEADER_BYTES - heads.meta_bytes, small >> 8)
        in_meta = heads.is_one_of(_SIZE_IN_META) | (ended & (small >> 8 == 0))
        in_meta &= heads.meta_bytes > 0
        known = own | ended
        for row in np.flatnonzero(in_meta).tolist():
            value = heads.metas[row].get(Tag.BYTES)
            if isinstance(value, int):
                size[row], known[row] = value, True
        return size, known

    def bodies(self) -> pa.Array:
        """What was stored; null for records of another kind."""
        heads = self.heads
        count = len(heads)
        there = heads.is_one_of(_WITH_VALUE)
        ends = heads.at + heads.lengths
        offsets = np.empty(2 * count + 1, np.int32)
        offsets[0:-1:2] = np.where(there, heads.at + HEADER_BYTES + heads.meta_bytes, ends)
        offsets[1::2] = ends
        offsets[-1] = ends[-1]
        data = pa.py_buffer(heads.data)
        both = pa.Array.from_buffers(pa.binary(), 2 * count, [None, pa.py_buffer(offsets), data])
        taken = both.take(pa.array(np.arange(0, 2 * count, 2, dtype=np.int32)))
        if there.all():
            return taken
        return pa.Array.from_buffers(
            pa.binary(), count, [_bitmap(there), *taken.buffers()[1:]], offset=taken.offset
        )


def _bitmap(there: Bools) -> pa.Buffer | None:
    return None if there.all() else pa.py_buffer(np.packbits(there, bitorder="little"))


def _numbers(values: Ints, there: Bools | None = None) -> pa.Array:
    validity = None if there is None else _bitmap(there)
    data = pa.py_buffer(np.ascontiguousarray(values, np.int64))
    return pa.Array.from_buffers(pa.int64(), len(values), [validity, data])


def _small_numbers(values: Ints, there: Bools | None = None) -> pa.Array:
    validity = None if there is None else _bitmap(there)
    data = pa.py_buffer(np.minimum(values, 2**31 - 1).astype(np.int32))
    return pa.Array.from_buffers(pa.int32(), len(values), [validity, data])


def _times(values: Ints, there: Bools | None = None) -> pa.Array:
    validity = None if there is None else _bitmap(there)
    data = pa.py_buffer(values * 1000)
    return pa.Array.from_buffers(pa.timestamp("us", "UTC"), len(values), [validity, data])


_OPS: Final = pa.array(OP_WORDS, pa.string())
_STATES: Final = pa.array(STATES, pa.string())


def _readers(source: Source) -> pa.Array:
    reader = source.heads.reader
    if not reader.any():
        return pa.nulls(len(reader), pa.string())
    known, turns = names(source.piece.namings), Turns(source.piece.namings)
    numbers = reader.tolist()
    if again := turns.given_again():
        lsns = source.heads.lsn.tolist()
        numbers = [
            turns.reader(number, lsn) if number in again else number
            for number, lsn in zip(numbers, lsns, strict=True)
        ]
    told = {each: known.get(each, str(each & NUMBERS)) for each in {*numbers} if each}
    return pa.array([told.get(each) for each in numbers], pa.string())


def _attempts(source: Source) -> pa.Array:
    heads = source.heads
    done, counted = heads.kind == Kind.DONE, heads.is_one_of(_COUNTED)
    done |= (heads.kind == Kind.MOVED) & (heads.number > 0)  # handed off
    delivery = heads.small & DELIVERY_MAX
    values = np.where(done, np.maximum(delivery - 1, 0), np.where(counted, heads.small, 0))
    return _small_numbers(values, done | counted | (heads.kind == Kind.PUT))


def _opened(source: Source) -> pa.Array:
    number = source.heads.number
    return _times(number, source.heads.is_one_of(_BEGAN) & (number > 0))


def _expires(source: Source) -> pa.Array:
    return _times(source.expires, source.expires > 0)


def _item_marker(source: Source) -> pa.Array:
    """A released item's is where it was released, any other's its own number."""
    released = source.held.markers(source.heads.item)
    marker = np.where(released > 0, released, source.heads.marker)
    return _numbers(marker, marker > 0)


def _flags(source: Source) -> pa.Array:
    return _numbers(source.heads.small, source.heads.is_one_of((Kind.PUT, Kind.READER)))


def _decoded(text: bytes) -> str:
    return text.decode("utf-8", "replace")


def _text(pick: Callable[[Piece], str | None]) -> Callable[[Source], pa.Array]:
    return lambda source: source.constant(pick(source.piece), pa.string())


_COMMON: Final[dict[str, Callable[[Source], pa.Array]]] = {
    "server": _text(lambda piece: piece.server),
    "queue": _text(lambda piece: piece.queue),
    "marker": lambda source: _numbers(source.heads.marker, source.heads.marker > 0),
    "timestamp": lambda source: _times(source.heads.time_ms),
    "value": Source.bodies,
    "flags": _flags,
    "expires": _expires,
    "key": lambda source: source.tagged(Tag.KEY),
    "origin": lambda source: source.tagged(Tag.ORIGIN),
    "item": lambda source: _numbers(source.heads.item, source.heads.item > 0),
    "lsn": lambda source: _numbers(source.heads.lsn),
    "generation": lambda source: source.constant(source.piece.generation, pa.int64()),
    "bytes": lambda source: _numbers(*source.body_bytes),
}
EVENT_COLUMNS: Final[dict[str, Callable[[Source], pa.Array]]] = {
    **_COMMON,
    "op": lambda source: _OPS.take(pa.array(source.heads.kind)),
    "reader": _readers,
    "attempts": _attempts,
    "opened": _opened,
    "segment": lambda source: source.constant(source.piece.segment, pa.int64()),
    "position": lambda source: _numbers(source.heads.offsets),
    "reason": lambda source: source.tagged(Tag.REASON),
    "number": lambda source: _numbers(source.heads.number),
    "journal": _text(lambda piece: piece.identity.hex()),
    "reader_number": lambda source: _numbers(source.heads.reader.astype(np.int64)),
    "target": lambda source: source.tagged(Tag.TARGET),
    "of_generation": lambda source: source.counted(Tag.GENERATION),
    "id": lambda source: source.tagged(Tag.ID),
    "scope": lambda source: source.tagged(Tag.SCOPE),
    "epoch": lambda source: source.counted(Tag.EPOCH),
    "version": lambda source: source.counted(Tag.VERSION),
    "previous": lambda source: source.counted(Tag.PREVIOUS),
    "due": lambda source: source.due(),
    "key_bytes": lambda source: source.raw(Tag.KEY),
    "id_bytes": lambda source: source.raw(Tag.ID),
    "scope_bytes": lambda source: source.raw(Tag.SCOPE),
}
ITEM_COLUMNS: Final[dict[str, Callable[[Source], pa.Array]]] = {
    **_COMMON,
    "id": lambda source: source.tagged(Tag.ID),
    "attempts": lambda source: _small_numbers(source.held.attempts(source.heads.item)),
    "marker": _item_marker,
    "state": lambda source: _STATES.take(pa.array(source.held.states(source.heads.item))),
}
