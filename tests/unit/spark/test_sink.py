"""`df.write` and `df.writeStream` to real daemons: each row is there once.

Promise: spark-sink.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kestrelpy.spark import with_content_ids, with_lineage_ids
from kestrelpy.spark.errors import sentence_of
from tests.support.daemon import DaemonProcess
from tests.support.raw import Raw

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.slow

ROWS = 3_000
# Some bodies come several times, so that a lost and a doubled row cannot make up for each other.
BODIES = Counter(f"line {n % 1_700}".encode() for n in range(ROWS))


@pytest.fixture(scope="module")
def daemons(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[DaemonProcess]]:
    folder = tmp_path_factory.mktemp("sink")
    with DaemonProcess(folder / "a") as a, DaemonProcess(folder / "b") as b:
        yield [a, b]


def addresses(daemons: list[DaemonProcess]) -> str:
    return ",".join(f"127.0.0.1:{each.port}" for each in daemons)


def bodies(daemons: list[DaemonProcess], queue: str) -> Counter[bytes]:
    """All bodies of a queue over all servers."""
    found: Counter[bytes] = Counter()
    for daemon in daemons:
        with Raw(("127.0.0.1", daemon.port)) as raw:
            after = 0
            while values := raw.values(b"%b/peek/after=%d/n=10000" % (queue.encode(), after)):
                found.update(body for _, body in values)
                after = values[-1][0]
    return found


def lines(spark: SparkSession, partitions: int) -> DataFrame:
    """Return the rows, spread over this many partitions."""
    frame = spark.range(ROWS).selectExpr("concat('line ', id % 1700) as value")
    return frame.repartition(partitions, "value") if partitions > 2 else frame


def save(frame: DataFrame, daemons: list[DaemonProcess], queue: str, **options: Any) -> None:
    writer = frame.write.format("kestrel").options(servers=addresses(daemons), queue=queue)
    writer.options(**options).mode("append").save()


def refused(frame: DataFrame, daemons: list[DaemonProcess], queue: str, **options: Any) -> str:
    with pytest.raises(Exception, match="KestrelError") as caught:
        save(frame, daemons, queue, **options)
    assert "Traceback" not in str(caught.value)
    return sentence_of(caught.value)


def test_a_repeated_write_stores_nothing_twice_however_it_is_partitioned(
    spark: SparkSession, daemons: list[DaemonProcess], queue: str
) -> None:
    for partitions in (2, 5):
        frame = with_content_ids(lines(spark, partitions), partitions)
        save(frame, daemons, queue, scope="load", epoch="1")

    assert bodies(daemons, queue) == BODIES
    assert all(bodies([each], queue) for each in daemons), "one server has no row"


def test_the_same_check_fails_without_ids(
    spark: SparkSession, daemons: list[DaemonProcess], queue: str
) -> None:
    for partitions in (2, 5):
        save(lines(spark, partitions), daemons, queue, ids="none")

    assert bodies(daemons, queue) != BODIES


def test_ids_by_place_lose_and_double_rows_that_change_their_place(
    spark: SparkSession, daemons: list[DaemonProcess], queue: str
) -> None:
    for partitions in (2, 5):
        rows = lines(spark, partitions).selectExpr("value", "monotonically_increasing_id() id")
        save(rows, daemons, queue, scope="load", epoch="1")

    assert bodies(daemons, queue) != BODIES


def test_writes_without_a_scope_are_different_writes(
    spark: SparkSession, daemons: list[DaemonProcess], queue: str
) -> None:
    frame = spark.createDataFrame([("a", 1), ("b", 2)], "value string, id long")
    save(frame, daemons, queue)
    save(frame, daemons, queue)

    assert bodies(daemons, queue) == Counter({b"a": 2, b"b": 2})


def test_the_report_counts_stored_repeated_and_differing_rows(
    spark: SparkSession, daemons: list[DaemonProcess], queue: str, tmp_path: Path
) -> None:
    report = tmp_path / "report"
    rows = [("a", 1), ("a", 1), ("b", 2), ("c", 2), ("d", 3)]
    frame = spark.createDataFrame(rows, "value string, id long").coalesce(1)
    told = []
    for _ in range(2):
        save(frame, daemons, queue, scope="load", epoch="1", report=str(report))
        told.append(json.loads(report.read_text()))

    assert told == [
        {"stored": 3, "repeated": 2, "differing": 1, "ids": [f"{queue}/id=2"]},
        {"stored": 0, "repeated": 5, "differing": 1, "ids": [f"{queue}/id=2"]},
    ]
    assert bodies(daemons, queue) == Counter([b"a", b"b", b"d"])


def test_every_column_arrives(
    spark: SparkSession, daemons: list[DaemonProcess], queue: str
) -> None:
    other = f"{queue}-other"
    frame = spark.sql(
        f"select binary('x') value, '{other}' queue, 'id 1' id, 'k/1' key, 7 flags,"
        " timestamp'2100-01-01 00:00:00Z' expires, interval '0 00:00:00.001' day to second delay"
    )
    save(frame, daemons[:1], queue)

    read = spark.read.format("kestrel").options(servers=addresses(daemons[:1]), queues=other)
    row = read.load().selectExpr("*", "unix_seconds(expires) as seconds").first()
    assert row is not None
    assert (row.value, row.id, row.key, row.flags, row.seconds) == (
        b"x", "id 1", "k/1", 7, 4_102_444_800
    )  # fmt: skip


def test_a_write_that_cannot_be_is_one_sentence(
    spark: SparkSession, daemons: list[DaemonProcess], queue: str
) -> None:
    frame = spark.createDataFrame([("a", 1)], "value string, id long")
    assert refused(frame, daemons, queue, servers="").startswith("Option servers: it names no")
    assert refused(frame.drop("id"), daemons, queue).startswith("There is no column 'id'")
    assert refused(frame.withColumn("foo", frame.id), daemons, queue).startswith(
        "The sink has no column 'foo'"
    )
    null = spark.createDataFrame([(None, 7)], "value string, id long")
    assert refused(null, daemons, queue).startswith('The row with id "7" cannot be written: its')
    later = spark.sql("select if(id < 1500, 'x', null) value, id from range(2000)").coalesce(1)
    text = refused(later, daemons[:1], queue)
    assert text.startswith('The row with id "1500" cannot be written: its value is null;')
    assert re.search(r"Before that, this task stored [1-9][0-9]* rows\.$", text), text
    with pytest.raises(Exception, match="cannot be overwritten") as caught:
        frame.write.format("kestrel").options(servers="a:1", queue=queue).mode("overwrite").save()
    assert sentence_of(caught.value).endswith("Say mode('append').")


def test_a_row_over_max_item_size_is_named_with_what_was_stored(
    spark: SparkSession, daemons: list[DaemonProcess], queue: str
) -> None:
    frame = spark.sql("select repeat('x', 9000000) value, 'large' id").coalesce(1)

    text = refused(frame, daemons[:1], queue)

    assert f"refused the row {queue}/id=large: item too large (9000000 bytes, limit" in text
    assert "Before that, this task stored 0 rows" in text


# -- streams -------------------------------------------------------------------------------


class Stream:
    """A query from a folder of text to a queue, with a checkpoint."""

    def __init__(self, spark: SparkSession, folder: Path, servers: str, queue: str) -> None:
        self.spark, self.servers, self.queue = spark, servers, queue
        self.input, self.checkpoint = folder / "input", folder / "checkpoint"
        self.input.mkdir()

    def put(self, name: str, lines: list[str]) -> None:
        (self.input / name).write_text("".join(f"{line}\n" for line in lines))

    def frame(self, partitions: int) -> DataFrame:
        read = self.spark.readStream.format("text").option("maxFilesPerTrigger", 1)
        return read.load(str(self.input)).repartition(partitions)

    def run(self, frame: DataFrame, **options: Any) -> None:
        """Write all that is there, batch by batch."""
        writer = frame.writeStream.format("kestrel").option("servers", self.servers)
        writer = writer.option("queue", self.queue).options(**options)
        writer = writer.option("checkpointLocation", str(self.checkpoint))
        query = writer.trigger(availableNow=True).start()
        try:
            query.awaitTermination()
        finally:
            query.stop()

    def forget_commit(self, batch: int) -> None:
        """Undo the commit of a batch, as if the driver died between the last row and the commit."""
        for name in (f"{batch}", f".{batch}.crc"):
            (self.checkpoint / "commits" / name).unlink(missing_ok=True)


@pytest.fixture
def stream(spark: SparkSession, daemons: list[DaemonProcess], tmp_path: Path, queue: str) -> Stream:
    made = Stream(spark, tmp_path, addresses(daemons), queue)
    values = [f"line {n % 1_700}" for n in range(ROWS)]
    for at in range(3):
        made.put(f"{at}.txt", values[at * 1000 : at * 1000 + 1000])
    return made


def test_a_repeated_batch_stores_nothing_twice_however_it_is_partitioned(
    stream: Stream, daemons: list[DaemonProcess]
) -> None:
    stream.run(with_content_ids(stream.frame(2), 2))
    stream.forget_commit(2)
    stream.run(with_content_ids(stream.frame(5), 3))

    assert bodies(daemons, stream.queue) == BODIES


def test_a_repeated_batch_without_ids_doubles_its_rows(
    stream: Stream, daemons: list[DaemonProcess]
) -> None:
    stream.run(stream.frame(2), ids="none")
    stream.forget_commit(2)
    stream.run(stream.frame(5), ids="none")

    assert bodies(daemons, stream.queue) != BODIES


def test_a_repeated_batch_with_another_fleet_is_refused_and_goes_on_with_the_first(
    stream: Stream, daemons: list[DaemonProcess]
) -> None:
    stream.run(with_content_ids(stream.frame(2), 2))
    stream.forget_commit(2)
    fleet, stream.servers = stream.servers, addresses(daemons[:1])
    with pytest.raises(Exception, match="was begun on the servers") as caught:
        stream.run(with_content_ids(stream.frame(2), 2))
    assert "newFleet=true takes the risk" in sentence_of(caught.value)

    stream.servers = fleet
    stream.run(with_content_ids(stream.frame(2), 2))
    stream.servers = addresses(daemons[:1])
    stream.put("3.txt", ["more"])
    stream.run(with_content_ids(stream.frame(2), 2))

    assert bodies(daemons, stream.queue) == BODIES + Counter({b"more": 1})


def test_a_write_inside_foreach_batch_needs_a_scope(
    stream: Stream, daemons: list[DaemonProcess]
) -> None:
    servers, queue, checkpoint = stream.servers, stream.queue, str(stream.checkpoint)

    def run(**scope: str) -> None:
        def write(frame: DataFrame, batch: int) -> None:
            epoch = {"epoch": str(batch)} if scope else {}
            writer = with_content_ids(frame).write.format("kestrel").options(**scope, **epoch)
            writer.options(servers=servers, queue=queue).mode("append").save()

        query = stream.frame(2).writeStream.foreachBatch(write)
        query = query.option("checkpointLocation", checkpoint).trigger(availableNow=True)
        query.start().awaitTermination()

    with pytest.raises(Exception, match="A write inside foreachBatch needs a scope"):
        run()
    run(scope=f"{queue}-writes")
    stream.forget_commit(2)
    run(scope=f"{queue}-writes")

    assert bodies(daemons, queue) == BODIES


def test_lineage_ids_follow_items_from_queue_to_queue(
    spark: SparkSession, daemons: list[DaemonProcess], queue: str
) -> None:
    save(with_content_ids(lines(spark, 2)), daemons, queue)
    read = spark.read.format("kestrel").options(servers=addresses(daemons), queues=queue).load()
    for order in ("marker", "value"):
        made = with_lineage_ids(read).select("id", "value").orderBy(order)
        save(made, daemons, f"{queue}-copy", scope=f"{queue}-copies", epoch="0")

    assert bodies(daemons, f"{queue}-copy") == BODIES
