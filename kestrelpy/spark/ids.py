"""Ids for rows that are written: the same in every attempt, from the rows alone.

    lineage   server|queue|marker    one row for each item that was read; with the generation
                                     between queue and marker if there is that column
    content   <hash>#<occurrence>    rows of any kind; equal rows are counted 0, 1, 2, ...

Equal rows may lie in different partitions, and a sink sees one partition. `with_content_ids`
brings equal rows together first, so that each occurrence is counted once, whatever the partitions.
Which of two equal rows is number 0 does not matter: they are equal. The rows of a table are sorted
by a hash of their content as well, so that one count at a time is in memory; Spark does not sort a
stream, and there the counts of a batch are.

One rule: an id never depends on a row's place or partition, which change between attempts.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

from kestrelpy.spark.errors import KestrelError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_DIGEST_BYTES: Final = 16
_LINEAGE: Final = ("server", "queue", "marker")
_GENERATION: Final = "generation"
_HASH: Final = "hash of the content"  # a column on the way


def with_lineage_ids(frame: DataFrame) -> DataFrame:
    """Return the rows with a column `id` that names the item each was made of.

    The frame has the columns `server`, `queue` and `marker` of the source, and one row for each
    item: rows that an item is exploded into would have one id. A queue that is deleted and made
    again counts markers from 1: over journals, where both may be read, the frame needs the column
    `generation` as well. Raises KestrelError.
    """
    from pyspark.sql import functions as f

    missing = [name for name in _LINEAGE if name not in frame.columns]
    if missing:
        raise KestrelError(
            f"A lineage needs the columns server, queue and marker, and there is no "
            f"{missing[0]}. Call with_lineage_ids before the columns of the source are dropped, or "
            "with_content_ids."
        )
    parts = [name for name in (*_LINEAGE[:2], _GENERATION, _LINEAGE[2]) if name in frame.columns]
    return frame.withColumn("id", f.concat_ws("|", *(f.col(name) for name in parts)))


def with_content_ids(frame: DataFrame, partitions: int | None = None) -> DataFrame:
    """Return the rows with a column `id` of their content and its occurrence.

    It is the last step before the write: the id counts every column. `partitions` is how many there
    are after the shuffle. Raises KestrelError.
    """
    from pyspark.sql import functions as f
    from pyspark.sql.types import StringType, StructType

    if "id" in frame.columns:
        raise KestrelError("There is a column 'id' already. Drop it, or write it as it is.")
    names = [f"`{name.replace('`', '``')}`" for name in frame.columns]
    if not names:
        raise KestrelError("A row without columns has no content. Select at least 'value'.")
    hashed = frame.withColumn(_HASH, f.xxhash64(*names))
    together = hashed.repartition(partitions, _HASH) if partitions else hashed.repartition(_HASH)
    if not frame.isStreaming:
        together = together.sortWithinPartitions(_HASH)
    schema = StructType([*frame.schema.fields]).add("id", StringType(), nullable=False)
    return together.mapInArrow(partial(counted, is_sorted=not frame.isStreaming), schema)


def counted(batches: Iterator[pa.RecordBatch], *, is_sorted: bool) -> Iterator[pa.RecordBatch]:
    """Return the batches of one partition with a column `id` for the last one, a hash of each row.

    `is_sorted`: rows with one hash follow each other.
    """
    import pyarrow as pa

    seen: Counter[bytes] = Counter()
    counting = None
    for batch in batches:
        *columns, hashes = batch.columns
        names = batch.schema.names[:-1]
        rows = pa.RecordBatch.from_arrays(columns, names=names)
        ids = []
        for digest, each in zip(digests(rows), hashes.to_pylist(), strict=True):
            if is_sorted and each != counting:
                seen.clear()
                counting = each
            ids.append(f"{digest.hex()}#{seen[digest]}")
            seen[digest] += 1
        columns.append(pa.array(ids, pa.string()))
        yield pa.RecordBatch.from_arrays(columns, names=[*names, "id"])


def digests(batch: pa.RecordBatch) -> Iterator[bytes]:
    """Return 128 bits of the content of each row."""
    columns = [map(_as_bytes, _plain(column).to_pylist()) for column in batch.columns]
    for row in zip(*columns, strict=True):
        yield blake2b(b"".join(row), digest_size=_DIGEST_BYTES).digest()


def digest_of(*row: str | bytes | None) -> bytes:
    """Return 128 bits of the content of one row, as `digests` does."""
    return blake2b(b"".join(map(_as_bytes, row)), digest_size=_DIGEST_BYTES).digest()


def _plain(column: pa.Array) -> pa.Array:
    """Return a column without what a session's settings change: a time is a number."""
    import pyarrow as pa

    return column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column


def _as_bytes(value: Any) -> bytes:
    """Return a value as bytes that no other value has, with their length."""
    if value is None:
        return b"n"
    kind = b"b" if isinstance(value, bytes) else b"s" if isinstance(value, str) else b"r"
    data = value if isinstance(value, bytes) else (value if kind == b"s" else repr(value)).encode()
    return kind + struct.pack("<Q", len(data)) + data
