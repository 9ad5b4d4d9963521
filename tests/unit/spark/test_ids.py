"""Ids of rows: by lineage and by content, whatever the partitions."""

from __future__ import annotations

import random
import tracemalloc
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from kestrelpy.spark import KestrelError, with_content_ids, with_lineage_ids
from kestrelpy.spark.ids import counted, digests

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = [(f"body-{n % 300}", n % 3 if n % 7 else None) for n in range(3000)]


def content(row: tuple[str, int | None]) -> int:
    """Return a hash that some different rows share."""
    return zlib.crc32(repr(row).encode()) % 100


def ids_of(
    rows: list[tuple[str, int | None]], batch_rows: int, is_sorted: bool = False
) -> Counter[tuple[object, ...]]:
    batches = [
        pa.RecordBatch.from_arrays(
            [pa.array([v for v, _ in part]), pa.array([n for _, n in part], pa.int64()),
             pa.array(map(content, part))],
            names=["value", "flags", "hash"],
        )
        for part in (rows[at : at + batch_rows] for at in range(0, len(rows), batch_rows))
    ]  # fmt: skip
    found: Counter[tuple[object, ...]] = Counter()
    for batch in counted(iter(batches), is_sorted=is_sorted):
        assert batch.schema.names == ["value", "flags", "id"]
        found.update(zip(*(column.to_pylist() for column in batch.columns), strict=True))
    return found


def test_equal_rows_are_counted_however_shuffled_and_batched() -> None:
    found = ids_of(ROWS, 1000)

    assert set(found.values()) == {1}, "an id was given twice"
    assert ids_of(random.Random(3).sample(ROWS, len(ROWS)), 7) == found
    assert ids_of(sorted(random.Random(3).sample(ROWS, len(ROWS)), key=content), 7, True) == found


def test_of_sorted_rows_one_count_at_a_time_is_in_memory() -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        for at in range(0, 100_000, 1000):
            numbers = pa.array(range(at, at + 1000))
            yield pa.RecordBatch.from_arrays([numbers, numbers], names=["value", "hash"])

    tracemalloc.start()
    try:
        rows = sum(batch.num_rows for batch in counted(batches(), is_sorted=True))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert rows == 100_000
    assert most < 2 << 20, "100,000 counts take ten times as much"


def test_different_rows_have_different_content() -> None:
    rows = [("a", "bc"), ("ab", "c"), (None, "abc"), ("", "abc"), ("None", "abc")]
    batch = pa.RecordBatch.from_arrays(
        [pa.array([a for a, _ in rows]), pa.array([b for _, b in rows])], names=["value", "key"]
    )
    assert len(set(digests(batch))) == len(rows)
    binary = pa.RecordBatch.from_arrays([pa.array([b"abc"])], names=["value"])
    text = pa.RecordBatch.from_arrays([pa.array(["abc"])], names=["value"])
    assert next(digests(binary)) != next(digests(text))


def test_a_time_counts_as_its_instant() -> None:
    found = set()
    for zone in ("UTC", "Asia/Kolkata"):
        array = pa.array([1_700_000_000_000_000], pa.timestamp("us", zone))
        found |= set(digests(pa.RecordBatch.from_arrays([array], names=["at"])))
    assert len(found) == 1


@pytest.mark.slow
def test_content_ids_do_not_depend_on_the_partitions(spark: SparkSession) -> None:
    frame = spark.createDataFrame(ROWS, "value string, flags int")

    found = [
        Counter(map(tuple, with_content_ids(frame.repartition(n), after).collect()))
        for n, after in ((1, None), (5, 3))
    ]

    assert found[0] == found[1]
    assert set(found[0].values()) == {1}


@pytest.mark.slow
def test_content_ids_of_a_stream_are_those_of_its_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    frame = spark.createDataFrame(ROWS, "value string, flags int")
    frame.write.parquet(str(tmp_path / "rows"))
    stream = spark.readStream.schema(frame.schema).parquet(str(tmp_path / "rows"))
    writer = with_content_ids(stream).writeStream.format("parquet")
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    writer.trigger(availableNow=True).start(str(tmp_path / "out")).awaitTermination()

    found = spark.read.parquet(str(tmp_path / "out")).collect()
    assert Counter(map(tuple, found)) == Counter(map(tuple, with_content_ids(frame).collect()))


@pytest.mark.slow
def test_a_lineage_is_the_item_that_was_read(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("s", "jobs", 7)], "server string, queue string, marker bigint")

    row = with_lineage_ids(frame).first()

    assert row is not None
    assert row.id == "s|jobs|7"


@pytest.mark.slow
def test_items_of_a_queue_that_was_made_again_have_other_ids(spark: SparkSession) -> None:
    rows = [("s", "jobs", 1, 7), ("s", "jobs", 2, 7)]
    columns = "server string, queue string, generation bigint, marker bigint"

    found = [row.id for row in with_lineage_ids(spark.createDataFrame(rows, columns)).collect()]

    assert found == ["s|jobs|1|7", "s|jobs|2|7"]


@pytest.mark.slow
def test_ids_that_cannot_be_made_are_refused(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("x", "y")], "value string, id string")
    with pytest.raises(KestrelError, match="there is no server"):
        with_lineage_ids(frame)
    with pytest.raises(KestrelError, match="There is a column 'id' already"):
        with_content_ids(frame)
