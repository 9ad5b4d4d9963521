"""Verified frames to Arrow columns: headers with numpy, bodies in one pass of Arrow's.

    bytes of a segment    |header|meta|body|pad|header|body|header|...
    headers               `FrameHeaders`: one array for each field
    bodies                offsets  body0 end0 body1 end1 ...  over the same bytes, then every
                          second value is taken: one copy, no object per record

One rule: a column is made only if the selection names it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, cached_property, partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from journal.format import (
    COUNTED,
    DELIVERY_MAX,
    ENDS,
    ENDS_DELIVERY,
    HEADER_BYTES,
    WITH_TEXT,
    Kind,
    Tag,
    as_text,
    texts,
)
from kestrelpy.spark.files.frame_headers import Bools, FrameHeaders, Ints
from kestrelpy.spark.files.queue_state import NO_LIVE_ITEMS, STATES, LiveItems
from kestrelpy.spark.files.readers import NUMBERS, ReaderNumbers, names
from kestrelpy.spark.files.split import RowLimits, Split
from kestrelpy.spark.schema import DEFAULT, EXTRA, OP_WORDS, Mode, Selection

_EXPIRES: Final = np.uint64(Tag.EXPIRES_MS | 8 << 8)  # how such a meta begins
_EXPIRES_MASK: Final = np.uint64(0xFFFFFF)
_EXPIRES_META_BYTES: Final = 11
_WITH_BODY: Final = tuple(WITH_TEXT)
# Of a flush, and of a confirm of all up to a marker, it is the ids that were spared.
_WITH_VALUE: Final = (*_WITH_BODY, Kind.FLUSHED, Kind.UPTO, Kind.READER)
_SIZE_IN_META: Final = (
    Kind.DEAD, Kind.LEASED, Kind.MOVING, Kind.RETURNED, Kind.UPTO, Kind.READER,
)  # fmt: skip
_ENDED: Final = tuple(ENDS - {Kind.MOVED})
_BEGAN: Final = tuple(ENDS_DELIVERY)
_COUNTED: Final = tuple(COUNTED)


class Rows:
    """Makes batches of one selection from the frames of one split."""

    def __init__(self, split: Split, chosen: Selection, limits: RowLimits) -> None:
        self.schema = chosen.arrow
        self._split = split
        self._limits = limits
        self._live_items = LiveItems(split.live_items) if split.live_items is not None else None
        columns = ITEM_COLUMNS if chosen.mode == "items" else EVENT_COLUMNS
        self._makers = [columns[name] for name in chosen.names]

    def batch(self, headers: FrameHeaders) -> pa.RecordBatch | None:
        """Return the rows of these records; None if no row is wanted."""
        wanted = self._wanted(headers)
        if wanted is not None and not wanted.all():
            if not wanted.any():
                return None
            headers = headers.pick(wanted)
        if not len(headers):
            return None
        source = RecordSource(headers, self._split, self._live_items)
        arrays = [make(source) for make in self._makers]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _wanted(self, headers: FrameHeaders) -> Bools | None:
        limits, wanted = self._limits, np.ones(len(headers), np.bool_)
        for first, last in self._split.skip:
            wanted &= (headers.lsn < first) | (headers.lsn > last)
        if self._live_items is not None:
            puts = headers.kind == Kind.PUT
            wanted &= puts
            wanted[puts] &= self._live_items.has(headers.item[puts])
        if limits.from_ms is not None:
            wanted &= headers.time_ms >= limits.from_ms
        if limits.before_ms is not None:
            wanted &= headers.time_ms < limits.before_ms
        if limits.marker_after is not None:
            wanted &= headers.marker > limits.marker_after
        if limits.marker_upto is not None:
            wanted &= (headers.marker <= limits.marker_upto) & (headers.marker > 0)
        return wanted


class RecordSource:
    """The records that columns are made from."""

    def __init__(self, headers: FrameHeaders, split: Split, live_items: LiveItems | None) -> None:
        self.headers = headers
        self.split = split
        self.live_items: LiveItems = live_items if live_items is not None else NO_LIVE_ITEMS

    def constant(self, value: str | int | None, kind: pa.DataType) -> pa.Array:
        """Return a column with one value in every row."""
        return pa.repeat(pa.scalar(value, kind), len(self.headers))

    def tagged(self, tag: Tag) -> pa.Array:
        """Return a text from each record's meta."""
        read = as_text if tag == Tag.KEY else _decoded
        words = self.raw(tag).dictionary_encode()
        texts = pa.array(map(read, words.dictionary.to_pylist()), pa.string())
        return texts.take(words.indices)

    def keys(self) -> pa.Array:
        """Return the texts of each record's key; null if it has none, or values of other types."""
        words = self.raw(Tag.KEY).dictionary_encode()
        found = pa.array(map(texts, words.dictionary.to_pylist()), pa.list_(pa.binary()))
        return found.take(words.indices)

    def raw(self, tag: Tag) -> pa.Array:
        """Return the stored bytes of that text: two that differ may read the same."""
        if not self.headers.meta_bytes.any():
            return pa.nulls(len(self.headers), pa.binary())
        found = (meta.get(tag) for meta in self.headers.metas)
        return pa.array([each if isinstance(each, bytes) else None for each in found], pa.binary())

    def counted(self, tag: Tag) -> pa.Array:
        """Return a number from each record's meta."""
        if not self.headers.meta_bytes.any():
            return pa.nulls(len(self.headers), pa.int64())
        found = (meta.get(tag) for meta in self.headers.metas)
        return pa.array([each if isinstance(each, int) else None for each in found], pa.int64())

    def timed(self, tag: Tag) -> pa.Array:
        """Return a time from each record's meta."""
        found = pc.fill_null(self.counted(tag), 0).to_numpy(zero_copy_only=False)
        return _times(found, found > 0)

    @cached_property
    def expires(self) -> Ints:
        """When each item expires; 0: never.

        The tag comes first in a meta, so the time is read at its place and no meta is decoded.
        """
        headers, made = self.headers, np.zeros(len(self.headers), np.int64)
        some = headers.meta_bytes >= _EXPIRES_META_BYTES
        some &= headers.kind == Kind.PUT
        if some.any():
            words = np.frombuffer(headers.data, "<u8", len(headers.data) >> 3)
            first = (headers.at[some] + HEADER_BYTES) >> 3
            low = words[first]
            # The meta has at least 11 bytes, so frame and padding have 16 from here.
            high = words[first + 1] & _EXPIRES_MASK
            value = (low >> np.uint64(24)) | (high << np.uint64(40))
            made[some] = np.where(low & _EXPIRES_MASK == _EXPIRES, value, 0).view(np.int64)
        return made

    @cached_property
    def body_bytes(self) -> tuple[Ints, Bools]:
        """The size of the body each record is about, and in which rows it is known."""
        headers, small = self.headers, self.headers.small
        own = headers.is_one_of(_WITH_BODY)
        # No journal has MOVED before version 4: a reserved kind, without the size of a body.
        ended = headers.is_one_of(_ENDED) & (self.split.version > 1)
        ended |= (headers.kind == Kind.MOVED) & (self.split.version > 3)
        size = np.where(own, headers.lengths - HEADER_BYTES - headers.meta_bytes, small >> 8)
        in_meta = headers.is_one_of(_SIZE_IN_META) | (ended & (small >> 8 == 0))
        in_meta &= headers.meta_bytes > 0
        known = own | ended
        for row in np.flatnonzero(in_meta).tolist():
            value = headers.metas[row].get(Tag.BYTES)
            if isinstance(value, int):
                size[row], known[row] = value, True
        return size, known

    def bodies(self) -> pa.Array:
        """Return the stored bodies; null for records without one."""
        headers = self.headers
        count = len(headers)
        there = headers.is_one_of(_WITH_VALUE)
        ends = headers.at + headers.lengths
        offsets = np.empty(2 * count + 1, np.int32)
        offsets[0:-1:2] = np.where(there, headers.at + HEADER_BYTES + headers.meta_bytes, ends)
        offsets[1::2] = ends
        offsets[-1] = ends[-1]
        data = pa.py_buffer(headers.data)
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


@cache
def _texts(words: tuple[str, ...]) -> pa.Array:
    """Return the words as a column; not in an import, as pyarrow imports pandas for it."""
    return pa.array(words, pa.string())


def _readers(source: RecordSource) -> pa.Array:
    reader = source.headers.reader
    if not reader.any():
        return pa.nulls(len(reader), pa.string())
    known = names(source.split.reader_names)
    reader_numbers = ReaderNumbers(source.split.reader_names)
    numbers = reader.tolist()
    if again := reader_numbers.given_again():
        lsns = source.headers.lsn.tolist()
        numbers = [
            reader_numbers.reader(number, lsn) if number in again else number
            for number, lsn in zip(numbers, lsns, strict=True)
        ]
    shown = {each: known.get(each, str(each & NUMBERS)) for each in {*numbers} if each}
    return pa.array([shown.get(each) for each in numbers], pa.string())


def _attempts(source: RecordSource) -> pa.Array:
    headers = source.headers
    done, counted = headers.kind == Kind.DONE, headers.is_one_of(_COUNTED)
    done |= (headers.kind == Kind.MOVED) & (headers.number > 0)  # handed off
    delivery = headers.small & DELIVERY_MAX
    values = np.where(done, np.maximum(delivery - 1, 0), np.where(counted, headers.small, 0))
    return _small_numbers(values, done | counted | (headers.kind == Kind.PUT))


def _opened(source: RecordSource) -> pa.Array:
    number = source.headers.number
    return _times(number, source.headers.is_one_of(_BEGAN) & (number > 0))


def _expires(source: RecordSource) -> pa.Array:
    return _times(source.expires, source.expires > 0)


def _item_marker(source: RecordSource) -> pa.Array:
    """Return the markers: where a delayed item was released, else the item's own number."""
    released = source.live_items.markers(source.headers.item)
    marker = np.where(released > 0, released, source.headers.marker)
    return _numbers(marker, marker > 0)


def _flags(source: RecordSource) -> pa.Array:
    return _numbers(source.headers.small, source.headers.is_one_of((Kind.PUT, Kind.READER)))


def _decoded(text: bytes) -> str:
    return text.decode("utf-8", "replace")


def _text(pick: Callable[[Split], str | None]) -> Callable[[RecordSource], pa.Array]:
    return lambda source: source.constant(pick(source.split), pa.string())


_Maker = Callable[[RecordSource], pa.Array]
_BY_TYPE: Final = {
    "string": RecordSource.tagged, "binary": RecordSource.raw, "bigint": RecordSource.counted,
    "timestamp": RecordSource.timed,
}  # fmt: skip


def _of_meta(mode: Mode) -> dict[str, _Maker]:
    """Return how the columns of the meta are made."""
    return {
        each.name: partial(_BY_TYPE[each.ddl], tag=each.tag)
        for each in (*DEFAULT[mode], *EXTRA[mode]) if each.tag is not None
    }  # fmt: skip


_COMMON: Final[dict[str, _Maker]] = {
    "server": _text(lambda split: split.server),
    "queue": _text(lambda split: split.queue),
    "marker": lambda source: _numbers(source.headers.marker, source.headers.marker > 0),
    "timestamp": lambda source: _times(source.headers.time_ms),
    "value": RecordSource.bodies,
    "flags": _flags,
    "expires": _expires,
    "item": lambda source: _numbers(source.headers.item, source.headers.item > 0),
    "lsn": lambda source: _numbers(source.headers.lsn),
    "generation": lambda source: source.constant(source.split.generation, pa.int64()),
    "bytes": lambda source: _numbers(*source.body_bytes),
}
EVENT_COLUMNS: Final[dict[str, _Maker]] = {
    **_COMMON,
    **_of_meta("events"),
    "op": lambda source: _texts(OP_WORDS).take(pa.array(source.headers.kind)),
    "reader": _readers,
    "attempts": _attempts,
    "opened": _opened,
    "segment": lambda source: source.constant(source.split.segment, pa.int64()),
    "position": lambda source: _numbers(source.headers.offsets),
    "number": lambda source: _numbers(source.headers.number),
    "journal": _text(lambda split: split.identity.hex()),
    "reader_number": lambda source: _numbers(source.headers.reader.astype(np.int64)),
}
ITEM_COLUMNS: Final[dict[str, _Maker]] = {
    **_COMMON,
    **_of_meta("items"),
    "keys": RecordSource.keys,
    "attempts": lambda source: _small_numbers(source.live_items.attempts(source.headers.item)),
    "marker": _item_marker,
    "state": lambda source: _texts(STATES).take(
        pa.array(source.live_items.states(source.headers.item))
    ),
}
