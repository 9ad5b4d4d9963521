"""`readStream` over real daemons: each item comes once; confirms and losses are as promised.

Promise spark-stream: drivers, tasks and servers killed at random; a sink that fails; queues that
    are new, deleted, made anew, reset, trimmed.
"""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kestrelpy.spark.errors import sentence_of
from tests.support.daemon import DaemonProcess
from tests.support.raw import Raw

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

pytestmark = pytest.mark.slow

RETAIN = '[queue_defaults]\nretain = "1d"\n'


@pytest.fixture(scope="module")
def daemons(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[DaemonProcess]]:
    folder = tmp_path_factory.mktemp("stream")
    with (
        DaemonProcess(folder / "a", config=RETAIN) as a,
        DaemonProcess(folder / "b", config=RETAIN) as b,
    ):
        yield [a, b]


@pytest.fixture
def bare(tmp_path: Path) -> Iterator[DaemonProcess]:
    """A daemon whose queues retain nothing."""
    with DaemonProcess(tmp_path / "bare") as daemon:
        yield daemon


def raw(daemon: DaemonProcess) -> Raw:
    return Raw(("127.0.0.1", daemon.port))


def put(daemon: DaemonProcess, queue: str, *bodies: str) -> None:
    with raw(daemon) as wire:
        for body in bodies:
            head = f"set {queue} 0 0 {len(body)}\r\n{body}\r\n"
            wire.ask(head.encode(), b"STORED\r\n")


def names(start: int, end: int, word: str = "i") -> list[str]:
    return [f"{word}{n}" for n in range(start, end)]


def markers(daemon: DaemonProcess, queue: str) -> tuple[int, int]:
    """The earliest and the latest marker."""
    with raw(daemon) as wire:
        found = wire.stats(b"stats markers")
    about = f"queue_{queue}_marker_"
    return int(found[about + "earliest"]), int(found[about + "latest"])


class Query:
    """A stream from a queue to Parquet, with its checkpoint."""

    def __init__(self, spark: SparkSession, folder: Path, queue: str) -> None:
        self.spark, self.queue = spark, queue
        self.out, self.checkpoint = str(folder / "out"), folder / "checkpoint"
        self.last: StreamingQuery | None = None

    def frame(self, *daemons: DaemonProcess, **options: Any) -> DataFrame:
        servers = ",".join(f"127.0.0.1:{each.port}" for each in daemons)
        read = self.spark.readStream.format("kestrel").options(servers=servers, queues=self.queue)
        return read.options(**options).load()

    def start(self, frame: DataFrame, **trigger: Any) -> StreamingQuery:
        writer = frame.select("queue", "marker", "value").writeStream.format("parquet")
        writer = writer.option("checkpointLocation", str(self.checkpoint)).option("path", self.out)
        self.last = writer.trigger(**(trigger or {"availableNow": True})).start()
        return self.last

    def run(self, *daemons: DaemonProcess, once: bool = False, **options: Any) -> None:
        """Read all that is there."""
        query = self.start(self.frame(*daemons, **options), **({"once": True} if once else {}))
        try:
            query.awaitTermination()
        finally:
            query.stop()

    def rows(self) -> Counter[str]:
        """The bodies that came out. Spark's own sink takes a batch once."""
        frame = self.spark.read.schema("value binary").parquet(self.out)
        return Counter(row.value.decode() for row in frame.collect())

    def offsets(self) -> list[dict[str, Any]]:
        """The offsets of the checkpoint, batch by batch."""
        folder = self.checkpoint / "offsets"
        files = sorted(folder.glob("[0-9]*"), key=lambda each: int(each.name))
        return [json.loads(each.read_text().splitlines()[-1]) for each in files]

    def refused(self, *daemons: DaemonProcess, **options: Any) -> str:
        with pytest.raises(Exception, match="KestrelError") as caught:
            self.run(*daemons, **options)
        assert "Traceback" not in str(caught.value)
        return sentence_of(caught.value)


@pytest.fixture
def query(spark: SparkSession, tmp_path: Path, queue: str) -> Query:
    return Query(spark, tmp_path, queue)


def test_each_item_is_read_once_over_servers_and_runs(
    query: Query, daemons: list[DaemonProcess]
) -> None:
    a, b = daemons
    put(a, query.queue, *names(0, 300))
    put(b, query.queue, *names(300, 400))
    query.run(*daemons, maxItemsPerTrigger="100")
    assert len(query.offsets()) == 4

    put(a, query.queue, *names(400, 500))
    with raw(a) as wire:  # a worker that confirms items leaves no hole where items are retained
        for _ in range(400):
            wire.send(b"get %b\r\n" % query.queue.encode())
            wire.line(), wire.line(), wire.line()
    query.run(*daemons)
    query.run(*daemons)

    assert query.rows() == Counter(names(0, 500))
    assert len(query.offsets()) == 5, "a run without new items made a batch"


def test_offsets_are_versioned_and_sorted_with_the_slices_of_their_batch(
    query: Query, daemons: list[DaemonProcess]
) -> None:
    put(daemons[0], query.queue, *names(0, 50))
    query.run(*daemons, minPartitions="3")

    (offset,) = query.offsets()
    assert offset["version"] == 1
    assert list(offset) == sorted(offset)
    spans = [(after, upto) for part in offset["slices"] for *_, after, upto, _ in part]
    assert (len(offset["slices"]), spans[0][0], spans[-1][1]) == (3, 0, 50)


@pytest.mark.parametrize(
    "limit",
    [
        {"maxItemsPerTrigger": "60"},
        pytest.param({"maxBytesPerTrigger": "12k"}, marks=pytest.mark.sweep),
    ],
)
def test_a_limit_makes_more_batches_and_loses_nothing(
    query: Query, daemons: list[DaemonProcess], limit: dict[str, str]
) -> None:
    put(daemons[0], query.queue, *names(0, 200))
    query.run(*daemons, **limit)

    assert query.rows() == Counter(names(0, 200))
    assert len(query.offsets()) >= 3


def test_once_ignores_the_limits(query: Query, daemons: list[DaemonProcess]) -> None:
    put(daemons[0], query.queue, *names(0, 100))
    query.run(*daemons, once=True, maxItemsPerTrigger="10")

    assert query.rows() == Counter(names(0, 100))
    assert len(query.offsets()) == 1


def test_a_new_queue_is_read_from_its_earliest_item_and_a_new_generation_as_well(
    query: Query, daemons: list[DaemonProcess]
) -> None:
    a = daemons[0]
    put(a, f"{query.queue}-1", *names(0, 10))
    name, query.queue = query.queue, f"{query.queue}*"
    query.run(*daemons)
    put(a, f"{name}-2", *names(10, 20))
    with raw(a) as wire:
        wire.ask(b"delete %b-1\r\n" % name.encode(), b"DELETED\r\n")
    put(a, f"{name}-1", *names(20, 25))
    query.run(*daemons)

    assert query.rows() == Counter(names(0, 25))


def test_a_running_query_reads_what_comes(query: Query, daemons: list[DaemonProcess]) -> None:
    put(daemons[0], query.queue, "i0")
    running = query.start(query.frame(*daemons), processingTime="0 seconds")
    try:
        for n in range(1, 4):
            put(daemons[n % 2], query.queue, f"i{n}")
            running.processAllAvailable()
        progress = running.lastProgress
        assert running.recentProgress
    finally:
        running.stop()

    assert query.rows() == Counter(names(0, 4))
    assert progress is not None
    latest = json.loads(progress.sources[0].latestOffset)
    assert latest["lag"] == 0
    assert sum(place[1] for each in latest["places"].values() for place in each.values()) == 4


# -- what a stream needs, and what it confirms ---------------------------------------------


def test_a_stream_needs_retain_or_a_cursor(query: Query, bare: DaemonProcess) -> None:
    put(bare, query.queue, "x")

    text = query.refused(bare)

    assert text.startswith(f"The queue {query.queue} of 127.0.0.1:{bare.port} keeps no item for a")
    assert "Set retain for the queue" in text
    assert '.option("cursor", "a name")' in text


def test_a_cursor_keeps_what_was_not_read_and_confirms_the_last_batch_too(
    query: Query, bare: DaemonProcess
) -> None:
    put(bare, query.queue, *names(0, 100))
    query.run(bare, cursor="spark", maxItemsPerTrigger="30")
    assert markers(bare, f"{query.queue}+spark") == (101, 100), "the last batch is not confirmed"
    assert markers(bare, query.queue) == (1, 100), "the queue's own items are gone"

    put(bare, query.queue, *names(100, 150))
    with raw(bare) as wire:  # a worker is faster than the stream
        wire.send(b"delete %b/upto=150\r\n" % query.queue.encode())
        wire.line()
    query.run(bare, cursor="spark")

    assert query.rows() == Counter(names(0, 150))
    assert {row.queue for row in query.spark.read.parquet(query.out).collect()} == {query.queue}


def test_consume_confirms_the_queue_itself(query: Query, bare: DaemonProcess) -> None:
    put(bare, query.queue, *names(0, 100))
    query.run(bare, consume="confirm", maxItemsPerTrigger="30")

    assert query.rows() == Counter(names(0, 100))
    assert markers(bare, query.queue) == (101, 100)


def test_a_batch_that_is_not_committed_is_not_confirmed(query: Query, bare: DaemonProcess) -> None:
    put(bare, query.queue, *names(0, 50))
    frame = query.frame(bare, cursor="spark", maxItemsPerTrigger="20")

    def fail(rows: DataFrame, batch: int) -> None:
        assert rows.count() == 20
        if batch == 1:
            raise RuntimeError("the sink failed")

    writer = frame.writeStream.foreachBatch(fail).trigger(availableNow=True)
    running = writer.option("checkpointLocation", str(query.checkpoint)).start()
    with pytest.raises(Exception, match="the sink failed"):
        running.awaitTermination()

    assert markers(bare, f"{query.queue}+spark") == (21, 50)


def test_two_queries_with_cursors_of_their_own_both_read_everything(
    spark: SparkSession, tmp_path: Path, bare: DaemonProcess, queue: str
) -> None:
    made = {name: Query(spark, tmp_path / name, queue) for name in ("one", "two")}
    put(bare, queue, *names(0, 40))
    made["one"].run(bare, cursor="one")
    made["two"].run(bare, cursor="two")
    put(bare, queue, *names(40, 80))
    made["two"].run(bare, cursor="two")
    made["one"].run(bare, cursor="one")

    assert made["one"].rows() == made["two"].rows() == Counter(names(0, 80))


# -- loss ----------------------------------------------------------------------------------


def test_a_queue_that_was_reset_is_data_loss_with_both_markers(
    query: Query, tmp_path: Path
) -> None:
    with DaemonProcess(tmp_path / "data", config=RETAIN) as daemon:
        put(daemon, query.queue, *names(0, 5))
        daemon.stop()
        shutil.copytree(tmp_path / "data", tmp_path / "older")
        daemon.start()
        put(daemon, query.queue, *names(5, 10))
        query.run(daemon)
        daemon.stop()
        shutil.rmtree(tmp_path / "data")
        shutil.copytree(tmp_path / "older", tmp_path / "data")
        daemon.start()

        text = query.refused(daemon)
        assert f"The queue {query.queue} of 127.0.0.1:{daemon.port} (server " in text
        assert "was reset: its latest marker is 5, and the query has read up to 10." in text
        assert "failOnDataLoss=false" in text

        query.run(daemon, failOnDataLoss="false")
        put(daemon, query.queue, *names(10, 12))
        query.run(daemon, failOnDataLoss="false")
        assert query.rows() == Counter(names(0, 12))
        assert query.offsets()[-1]["lost"] == 5


def test_a_queue_that_was_trimmed_is_data_loss_with_both_markers(
    query: Query, tmp_path: Path
) -> None:
    small = '[journal]\nsegment_min = "16KiB"\nsegment_max = "16KiB"\n'
    config = f'{small}[queue_defaults]\nretain = "64KiB"\n'
    with DaemonProcess(tmp_path / "data", config=config) as daemon:
        put(daemon, query.queue, "first")
        query.run(daemon)
        put(daemon, query.queue, *(f"{n:0500}" for n in range(1000)))
        with raw(daemon) as wire:
            wire.send(b"delete %b/upto=1001\r\n" % query.queue.encode())
            wire.line()
        put(daemon, query.queue, *(f"{n:0500}" for n in range(1000, 1200)))
        earliest, latest = markers(daemon, query.queue)
        assert earliest > 2

        text = query.refused(daemon)
        assert "was trimmed: its earliest marker is" in text
        assert "and the query has read up to 1." in text

        query.run(daemon, failOnDataLoss="false")
        offset = query.offsets()[-1]
        assert sum(query.rows().values()) == 1 + latest - (offset["lost"] + 1)


def test_a_planned_batch_of_another_generation_is_data_loss(
    query: Query, daemons: list[DaemonProcess]
) -> None:
    a = daemons[0]
    put(a, query.queue, *names(0, 10))
    frame = query.frame(*daemons, maxItemsPerTrigger="5")
    name = query.queue.encode()

    def forget(rows: DataFrame, batch: int) -> None:
        with raw(a) as wire:
            wire.ask(b"delete %b\r\n" % name, b"DELETED\r\n")
        put(a, query.queue, "new")
        rows.collect()

    running = frame.writeStream.foreachBatch(forget).trigger(availableNow=True)
    running = running.option("checkpointLocation", str(query.checkpoint))
    with pytest.raises(Exception, match="was deleted and made anew") as caught:
        running.start().awaitTermination()
    assert "what was not read of its markers 1 to 5 is gone" in sentence_of(caught.value)


# -- bad input -----------------------------------------------------------------------------


def test_a_checkpoint_of_another_fleet_or_a_later_version_is_refused(
    query: Query, daemons: list[DaemonProcess]
) -> None:
    a, b = daemons
    put(a, query.queue, "x")
    put(b, query.queue, "y")
    query.run(a, b)
    assert query.refused(b).startswith("The checkpoint names the server ")

    newest = max((query.checkpoint / "offsets").glob("[0-9]*"), key=lambda each: int(each.name))
    (newest.parent / f".{newest.name}.crc").unlink()
    newest.write_text(re.sub(r'"version": ?1', '"version":7', newest.read_text()))
    assert query.refused(a, b).startswith("The checkpoint is of version 7, and this version of")


def test_options_of_a_read_that_mean_nothing_to_a_stream_are_refused(
    query: Query, daemons: list[DaemonProcess]
) -> None:
    put(daemons[0], query.queue, "x")
    assert query.refused(*daemons, endingMarkers="latest").startswith(
        "Option endingMarkers goes with read alone."
    )
    assert query.refused(*daemons, cursor="a/b").startswith('Option cursor: "a/b" is not the name')
    assert query.refused(*daemons, consume="all").startswith('Option consume: "all" is no way')
    with pytest.raises(Exception, match="Option cursor goes with readStream alone"):
        query.spark.read.format("kestrel").options(servers="a:1", cursor="c").load().collect()


def test_a_server_that_is_down_is_skipped_and_read_when_it_is_back(
    query: Query, tmp_path: Path, daemons: list[DaemonProcess]
) -> None:
    put(daemons[0], query.queue, "a0")
    with DaemonProcess(tmp_path / "data", config=RETAIN) as daemon:
        put(daemon, query.queue, "b0")
        query.run(daemons[0], daemon)
        put(daemons[0], query.queue, "a1")
        put(daemon, query.queue, "b1")
        daemon.stop()
        short = {"fetchRetries": "0"}
        assert "cannot be reached" in query.refused(daemons[0], daemon, **short)
        query.run(daemons[0], daemon, skipUnreachable="true", **short)
        assert query.rows() == Counter(["a0", "b0", "a1"])
        daemon.start()
        query.run(daemons[0], daemon, skipUnreachable="true", **short)
    assert query.rows() == Counter(["a0", "b0", "a1", "b1"])
