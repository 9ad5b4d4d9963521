"""Journal directories as a stream."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kestrelpy.spark.errors import KestrelError
from kestrelpy.spark.files.partitions import plan
from kestrelpy.spark.options import parse_options
from kestrelpy.spark.streaming import journals as journals_module
from kestrelpy.spark.streaming.journals import Journals
from kestrelpy.spark.streaming.position import BatchLimits, Position
from tests.support.daemon import DaemonProcess
from tests.support.raw import Raw

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

SMALL = '[journal]\nsegment_min = "16KiB"\nsegment_max = "16KiB"\n'


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[DaemonProcess]:
    with DaemonProcess(tmp_path / "data", config=SMALL) as process:
        yield process


def put(daemon: DaemonProcess, numbers: range, size: int = 5) -> None:
    with Raw(("127.0.0.1", daemon.port)) as raw:
        for n in numbers:
            raw.ask(b"set jobs 0 0 %d\r\n%0*d\r\n" % (size, size, n), b"STORED\r\n")


def take(daemon: DaemonProcess, count: int) -> None:
    with Raw(("127.0.0.1", daemon.port)) as raw:
        for _ in range(count):
            raw.send(b"get jobs\r\n")
            assert raw.line().startswith(b"VALUE")
            raw.line()
            raw.expect(b"END\r\n")


def journals(daemon: DaemonProcess, **options: str) -> Journals:
    return Journals(parse_options({"path": str(daemon.data_dir), **options}, streams=True))


def test_a_batch_ends_with_the_last_known_sync_and_a_limit(daemon: DaemonProcess) -> None:
    put(daemon, range(10))
    daemon.stop()
    stream = journals(daemon)
    begin = stream.begin()

    first = stream.advance(begin, BatchLimits(items=4))
    rest = stream.advance(first, BatchLimits())

    spans = [
        (each.after, each.upto) for end in (first, rest) for part in end.slices for each in part
    ]
    assert spans[0] == (0, 4)
    assert spans[1][0] == 4
    assert stream.lag(first) == spans[1][1] - 4
    assert stream.advance(rest, BatchLimits()) is rest
    assert stream.lag(rest) == 0


def test_names_and_markers_of_journals_are_checked_in_batches_and_streams(
    daemon: DaemonProcess, caplog: pytest.LogCaptureFixture
) -> None:
    put(daemon, range(10))
    with Raw(("127.0.0.1", daemon.port)) as raw:
        server = raw.stats()["server_id"]
    daemon.stop()

    def stream(**options: str) -> Position:
        return journals(daemon, **options).begin()

    def batch(**options: str) -> object:
        return plan(parse_options({"path": str(daemon.data_dir), **options}, streams=False))

    mistakes = {
        "There is no queue jbos in the journals of": {"queues": "jbos"},
        "names a server x,": {"startingMarkers": '{"x": {"jobs": 3}}'},
        "names a queue jbos of": {"startingMarkers": f'{{"{server}": {{"jbos": "latest"}}}}'},
    }
    for read in (stream, batch):
        for said, given in mistakes.items():
            with pytest.raises(KestrelError, match=said):
                read(**given)
        caplog.clear()
        read(queues="jbos*")
        assert "No queue fits jbos* in the journals of" in caplog.text
    beyond = f'{{"{server}": {{"jobs": 11}}}}'
    for option in ("startingMarkers", "endingMarkers"):
        with pytest.raises(KestrelError, match=f"{option} says 11 .* latest marker is 10"):
            batch(**{option: beyond})
    with pytest.raises(KestrelError, match="counts records, not markers"):
        stream(startingMarkers=beyond)

    latest = journals(daemon, startingMarkers="latest")
    begin = latest.begin()
    assert latest.lag(begin) == 0
    assert latest.advance(begin, BatchLimits()) is begin
    typo = journals(daemon, queues="jobs,mali")
    with pytest.raises(KestrelError, match="There is no queue mali"):
        typo.advance(begin, BatchLimits())


def test_a_repeated_batch_has_the_same_parts_when_more_was_written(daemon: DaemonProcess) -> None:
    put(daemon, range(200), 200)
    end = journals(daemon).advance(journals(daemon).begin(), BatchLimits())
    once = journals(daemon).parts(end)
    put(daemon, range(200, 400), 200)
    again = journals(daemon).parts(end)

    def records(parts: Any) -> list[tuple[int, ...]]:
        return [(part.split.segment, *part.split.skip[-1]) for each in parts for part in each]

    assert records(once) == records(again)
    assert len(records(once)) > 1


def test_records_that_went_before_they_were_read_are_data_loss(daemon: DaemonProcess) -> None:
    put(daemon, range(10), 500)
    begin = journals(daemon, mode="events").begin()
    place = journals(daemon, mode="events").advance(begin, BatchLimits(items=3))
    for at in range(10, 400, 30):
        put(daemon, range(at, at + 30), 500)
        take(daemon, 30)
    daemon.stop()

    with pytest.raises(KestrelError, match="was trimmed: its earliest record is") as caught:
        journals(daemon, mode="events").advance(place, BatchLimits())
    assert "and the query has read up to 3" in str(caught.value)
    assert "archive_to" in str(caught.value)
    stream = journals(daemon, mode="events", failOnDataLoss="false")
    assert stream.advance(place, BatchLimits()).lost > 0


def test_a_partition_begins_where_a_segment_does_and_reads_no_farther_than_its_batch(
    daemon: DaemonProcess,
) -> None:
    put(daemon, range(300), 200)
    daemon.stop()
    stream = journals(daemon, maxPartitionBytes="20k")
    first = stream.advance(stream.begin(), BatchLimits(items=170))
    rest = stream.advance(first, BatchLimits())
    ends = {split.lsn_last for each in stream._seen.values() for split in each.splits}

    for end in (first, rest):
        spans = [(each.after, each.upto) for part in end.slices for each in part]
        assert len(spans) > 1
        assert {after for after, _ in spans[1:]} <= ends
        assert [upto for _, upto in spans[:-1]] == [after for after, _ in spans[1:]]
        splits = [part.split for parts in stream.parts(end) for part in parts]
        assert max(split.lsn_last for split in splits) == spans[-1][1]
        assert splits[-1].lsn_limit in (0, spans[-1][1] + 1)


def test_a_query_looks_once_for_each_batch(
    daemon: DaemonProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(daemon, range(10))
    daemon.stop()
    looks = []
    planned = journals_module.plan_events
    monkeypatch.setattr(
        journals_module, "plan_events", lambda *given: looks.append(given) or planned(*given)
    )
    stream = journals(daemon)
    stream.stop_at_present()
    start = stream.begin()
    middle = stream.advance(start, BatchLimits(items=4))
    assert len(looks) == 1
    stream.advance(middle, BatchLimits())
    assert len(looks) == 2


@pytest.mark.parametrize("mode", ["items", "events"])
def test_each_record_is_read_once_over_runs(
    spark: SparkSession, daemon: DaemonProcess, tmp_path: Path, mode: str
) -> None:
    def run() -> None:
        frame = spark.readStream.format("kestrel").option("mode", mode)
        frame = frame.option("maxItemsPerTrigger", 150).load(str(daemon.data_dir))
        rows = frame.where("op = 'put'") if mode == "events" else frame
        writer = rows.select("value").writeStream.format("parquet")
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.option("path", str(tmp_path / "out")).trigger(availableNow=True).start()
        query.awaitTermination()

    put(daemon, range(200))
    run()
    put(daemon, range(200, 300))
    daemon.stop()
    run()

    rows = spark.read.schema("value binary").parquet(str(tmp_path / "out")).collect()
    assert Counter(int(row.value) for row in rows) == Counter(range(300))
