"""Answers of a server as Arrow batches, with the selected columns only.

    VALUE <key> <flags> <bytes> <marker> <stored> <expires> <attempts> <state> <key> <id>
    0     1     2       3       4        5        6         7          8       9     10

One rule: only fields of selected columns are decoded; a body is copied once, from the answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from urllib.parse import unquote_to_bytes

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from journal.format import texts_in
from kestrelpy.spark.live.partitions import Slice
from kestrelpy.spark.live.wire import Values
from kestrelpy.spark.options import Options
from kestrelpy.spark.schema import Selection

_MARKER: Final = 4
_STORED: Final = 5
_NONE: Final = b"-"


def batch_of(
    part: Slice, values: Values, selection: Selection, options: Options
) -> pa.RecordBatch | None:
    """Return the items of an answer that are within the slice and the wanted time."""
    inside = _inside(values, part, options)
    count = len(values.lines)
    arrays = [_column(name, part, values, count) for name in selection.names]
    batch = pa.RecordBatch.from_arrays(arrays, schema=selection.arrow)
    if inside is not None:
        batch = batch.filter(inside)
    return batch if batch.num_rows else None


def _inside(values: Values, part: Slice, options: Options) -> pa.Array | None:
    """Return which items are wanted; None: all of them."""
    wanted = None
    if values.last_marker > part.span.upto:
        wanted = pc.less_equal(_numbers(values, _MARKER), part.span.upto)
    starting, ending = options.starting_timestamp_ms, options.ending_timestamp_ms
    if starting is not None or ending is not None:
        stored = _numbers(values, _STORED)
        for each in (
            pc.greater_equal(stored, starting) if starting is not None else None,
            pc.less(stored, ending) if ending is not None else None,
        ):
            if each is not None:
                wanted = each if wanted is None else pc.and_(wanted, each)
    return wanted


def _column(name: str, part: Slice, values: Values, count: int) -> pa.Array:
    if name == "server":
        return pa.repeat(pa.scalar(part.server, pa.string()), count)
    if name == "queue":
        return pa.repeat(pa.scalar(part.queue, pa.string()), count)
    if name == "origin":
        return pa.nulls(count, pa.string())  # an answer does not say it
    if name == "value":
        return _bodies(values)
    field, make = _FIELDS[name]
    return make(values, field)


def _bodies(values: Values) -> pa.Array:
    count = len(values.lines)
    offsets = np.zeros(count + 1, np.int64)
    np.cumsum(values.lengths, out=offsets[1:])
    if offsets[-1] < 1 << 31:
        buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(values.bodies)]
        return pa.Array.from_buffers(pa.binary(), count, buffers)
    raise AssertionError("an answer stops at 4 MiB or one item, and an item is below 2 GiB")


def _texts(values: Values, field: int) -> pa.Array:
    column = [line[field] for line in values.lines]
    if all(each == _NONE for each in column):
        return pa.nulls(len(column), pa.string())
    return pa.array([None if each == _NONE else _unquoted(each) for each in column], pa.string())


def _keys(values: Values, field: int) -> pa.Array:
    keys = [None if (word := line[field]) == _NONE else texts_in(word) for line in values.lines]
    return pa.array(keys, pa.list_(pa.binary()))


def _unquoted(word: bytes) -> str:
    return unquote_to_bytes(word).decode("utf-8", "replace")


def _words(values: Values, field: int) -> pa.Array:
    return pa.array([line[field] for line in values.lines], pa.binary()).cast(pa.string())


def _numbers(values: Values, field: int) -> pa.Array:
    words = _words(values, field)
    return pc.if_else(pc.equal(words, "-"), None, words).cast(pa.int64())


def _small_numbers(values: Values, field: int) -> pa.Array:
    return _numbers(values, field).cast(pa.int32())


def _times(values: Values, field: int) -> pa.Array:
    return pc.multiply(_numbers(values, field), 1000).cast(pa.timestamp("us", "UTC"))


_FIELDS: Final[dict[str, tuple[int, Callable[[Values, int], pa.Array]]]] = {
    "flags": (2, _numbers),
    "marker": (_MARKER, _numbers),
    "timestamp": (_STORED, _times),
    "expires": (6, _times),
    "attempts": (7, _small_numbers),
    "state": (8, _words),
    "key": (9, _texts),
    "keys": (9, _keys),
    "id": (10, _texts),
}
