"""Journals of real daemons as tables: live, stopped, archived, backed up, damaged.

Promise spark-missing: a flipped byte, a foreign file, a segment compacted since the plan.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kestrelpy.spark.errors import sentence_of
from tests.support.daemon import DaemonProcess
from tests.support.raw import Raw, wait_until
from tests.support.spark_fixture import ROOT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.slow

SMALL = """
[journal]
segment_min = "16KiB"
segment_max = "16KiB"
"""
BODY_BYTES = 500


def body(number: int) -> bytes:
    return b"%d" % number + b"." * (BODY_BYTES - len(str(number)))


def number_of(value: bytes) -> int:
    return int(value.rstrip(b"."))


def put(raw: Raw, queue: str, numbers: range) -> None:
    for number in numbers:
        raw.ask(b"set %b 0 0 %d\r\n%b\r\n" % (queue.encode(), BODY_BYTES, body(number)),
                b"STORED\r\n")  # fmt: skip


def take(raw: Raw, queue: str, numbers: range) -> None:
    """Fetch and confirm `count` items; return them."""
    name = queue.encode()
    for number in numbers:
        raw.ask(b"get %b/open\r\n" % name, b"VALUE %b/open 0 %d\r\n%b\r\nEND\r\n"
                % (name, BODY_BYTES, body(number)))  # fmt: skip
        raw.ask(b"get %b/close\r\n" % name, b"END\r\n")


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[DaemonProcess]:
    with DaemonProcess(tmp_path / "data") as process:
        yield process


@pytest.fixture
def raw(daemon: DaemonProcess) -> Iterator[Raw]:
    with Raw(("127.0.0.1", daemon.port)) as connection:
        yield connection


def read(spark: SparkSession, *paths: Path | str, **options: Any) -> DataFrame:
    return spark.read.format("kestrel").options(**options).load([str(path) for path in paths])


def happened(frame: DataFrame) -> Counter[tuple[str, int]]:
    """Return how often each event happened to each item."""
    return Counter((row.op, row.marker) for row in frame.select("op", "marker").collect()
                   if row.op != "tokens")  # fmt: skip


def of(op: str, numbers: range) -> Counter[tuple[str, int]]:
    return Counter((op, number) for number in numbers)


def stored(frame: DataFrame) -> Counter[int]:
    """The numbers in the bodies."""
    return Counter(number_of(row.value) for row in frame.select("value").collect())


def test_a_daemon_that_runs_and_one_that_stopped_tell_the_same(
    spark: SparkSession, daemon: DaemonProcess, raw: Raw
) -> None:
    put(raw, "jobs", range(1, 101))
    take(raw, "jobs", range(1, 31))
    expected = of("put", range(1, 101)) + of("confirm", range(1, 31))

    assert happened(read(spark, daemon.data_dir, mode="events")) == expected
    assert daemon.stop() == 0
    assert happened(read(spark, daemon.data_dir, mode="events")) == expected


def test_items_are_those_still_there(
    spark: SparkSession, daemon: DaemonProcess, raw: Raw
) -> None:
    put(raw, "jobs", range(1, 101))
    take(raw, "jobs", range(1, 31))
    raw.send(b"get jobs/open\r\n")
    raw.expect(b"VALUE jobs/open 0 %d\r\n%b\r\nEND\r\n" % (BODY_BYTES, body(31)))

    frame = read(spark, daemon.data_dir)

    assert stored(frame) == Counter(range(31, 101))
    assert {row.state for row in frame.collect()} == {"ready"}
    raw.ask(b"get jobs/abort\r\n", b"END\r\n")


def test_a_kill_leaves_what_was_acknowledged(
    spark: SparkSession, daemon: DaemonProcess, raw: Raw
) -> None:
    put(raw, "jobs", range(1, 51))
    daemon.kill()

    assert happened(read(spark, daemon.data_dir, mode="events")) == of("put", range(1, 51))
    assert stored(read(spark, daemon.data_dir)) == Counter(range(1, 51))


def test_queues_and_folders_are_chosen_by_globs(
    spark: SparkSession, daemon: DaemonProcess, raw: Raw, tmp_path: Path
) -> None:
    put(raw, "jobs.day", range(1, 4))
    put(raw, "jobs.night", range(4, 6))
    put(raw, "mail", range(6, 10))
    with DaemonProcess(tmp_path / "data2") as other, Raw(("127.0.0.1", other.port)) as second:
        put(second, "mail", range(10, 12))

    assert stored(read(spark, tmp_path / "data*")) == Counter(range(1, 12))
    assert stored(read(spark, daemon.data_dir, queues="jobs.*")) == Counter(range(1, 6))
    assert stored(read(spark, daemon.data_dir, queues="mail,jobs.day")) == Counter(
        [*range(1, 4), *range(6, 10)]
    )
    assert stored(read(spark, *daemon.data_dir.glob("mail.*"))) == Counter(range(6, 10))
    assert read(spark, daemon.data_dir, queues="x*").collect() == []
    with pytest.raises(Exception, match="KestrelError") as caught:
        read(spark, daemon.data_dir, queues="mial").collect()
    assert sentence_of(caught.value) == (
        f"There is no queue mial in the journals of {daemon.data_dir}. Did you mean mail?"
    )


def test_archived_backed_up_and_live_copies_count_once(spark: SparkSession, tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    config = f'{SMALL}[queue_defaults]\narchive_to = "{archive}"\n'
    with DaemonProcess(tmp_path / "data", config=config) as daemon:
        with Raw(("127.0.0.1", daemon.port)) as raw:
            put(raw, "jobs", range(1, 301))
            take(raw, "jobs", range(1, 151))
            backup = ["backup", str(tmp_path / "copy"), "--data-dir", str(daemon.data_dir)]
            subprocess.run([sys.executable, "-m", "kestrelpy", *backup], check=True, cwd=ROOT)
            take(raw, "jobs", range(151, 281))
        wait_until(lambda: len(list(archive.glob("*.segment"))) > 8, "segments in the archive")
        daemon.stop()
    expected = of("put", range(1, 301)) + of("confirm", range(1, 281))

    everywhere = read(spark, daemon.data_dir, archive, tmp_path / "copy", mode="events")

    assert happened(everywhere) == expected
    assert happened(read(spark, daemon.data_dir, archive, mode="events")) == expected
    assert stored(read(spark, tmp_path / "copy")) == Counter(range(151, 301))
    lsns = spark.read.format("kestrel").schema("lsn long").option("mode", "events")
    found = [row.lsn for row in lsns.load([str(archive), str(daemon.data_dir)]).collect()]
    assert Counter(found) == Counter(range(1, max(found) + 1))


def test_times_are_the_same_instants_in_any_zone(
    spark: SparkSession, daemon: DaemonProcess, raw: Raw
) -> None:
    put(raw, "jobs", range(1, 11))
    take(raw, "jobs", range(1, 6))
    found = []
    zone = spark.conf.get("spark.sql.session.timeZone")
    try:
        for name in ("UTC", "America/New_York"):
            spark.conf.set("spark.sql.session.timeZone", name)
            frame = read(spark, daemon.data_dir, mode="events")
            rows = frame.selectExpr("unix_millis(timestamp) t", "unix_millis(opened) o").collect()
            found.append(Counter((row.t, row.o) for row in rows))
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)

    assert found[0] == found[1]
    times = sorted(t for t, _ in found[0].elements())
    half = times[len(times) // 2]
    early = read(spark, daemon.data_dir, mode="events", endingTimestamp=str(half))
    late = read(spark, daemon.data_dir, mode="events", startingTimestamp=str(half))
    assert early.count() == sum(t < half for t in times)
    assert happened(early) + happened(late) == happened(read(spark, daemon.data_dir, mode="events"))


def test_a_narrower_schema_has_its_columns_as_it_lists_them(
    spark: SparkSession, daemon: DaemonProcess, raw: Raw
) -> None:
    put(raw, "jobs", range(1, 4))
    take(raw, "jobs", range(1, 2))
    reader = spark.read.format("kestrel").option("mode", "events")

    frame = reader.schema("bytes long, op string, item long").load(str(daemon.data_dir))

    assert frame.columns == ["bytes", "op", "item"]
    assert Counter(tuple(row) for row in frame.where("op != 'tokens'").collect()) == Counter(
        [(500, "put", 1), (500, "put", 2), (500, "put", 3), (500, "confirm", 1)]
    )


def test_markers_and_comparisons_choose(
    spark: SparkSession, daemon: DaemonProcess, raw: Raw
) -> None:
    put(raw, "jobs", range(1, 101))
    take(raw, "jobs", range(1, 51))
    server = raw.stats()["server_id"]
    chosen = read(
        spark, daemon.data_dir, mode="events",
        startingMarkers=f'{{"{server}": {{"jobs": 40}}}}',
        endingMarkers=f'{{"{server}": {{"jobs": 60}}}}',
    )  # fmt: skip
    assert happened(chosen) == of("put", range(41, 61)) + of("confirm", range(41, 51))

    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        for options in ({"pushdown": True}, {}):
            frame = read(spark, daemon.data_dir, mode="events", **options)
            assert happened(frame.where("op = 'confirm' and marker > 45")) == of(
                "confirm", range(46, 51)
            )
            assert frame.where(f"server = '{server}x'").collect() == []
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_what_was_rewritten_since_the_plan_is_found_where_it_is_now(
    spark: SparkSession, daemon: DaemonProcess
) -> None:
    daemon.config_file.write_text(SMALL)
    daemon.stop()
    daemon.start()
    with Raw(("127.0.0.1", daemon.port)) as raw, Raw(("127.0.0.1", daemon.port)) as holder:
        put(raw, "jobs", range(1, 201))
        holder.send(b"get jobs/open\r\n")
        holder.expect(b"VALUE jobs/open 0 %d\r\n%b\r\nEND\r\n" % (BODY_BYTES, body(1)))
        items, events = (read(spark, daemon.data_dir, mode=mode) for mode in ("items", "events"))
        assert items.rdd.getNumPartitions() == events.rdd.getNumPartitions() == 1
        # Item 1 holds the first segment fast until it is rewritten.
        (folder,) = daemon.data_dir.glob("jobs.*")
        take(raw, "jobs", range(2, 151))
        at = [201]

        def is_rewritten() -> bool:
            put(raw, "jobs", range(at[0], at[0] + 5))
            at[0] += 5
            return not (folder / "0000000001.segment").exists()

        wait_until(is_rewritten, "the first segment is rewritten")

        found = stored(items)
        with pytest.raises(Exception, match="KestrelError") as caught:
            events.collect()
        rest = read(spark, daemon.data_dir, mode="events", failOnDataLoss=False)
        kept = happened(rest)

    assert found == Counter(set(found)), "twice"
    # An item that was confirmed since the plan may still be read if its segment is there.
    assert {1, *range(151, 201)} <= set(found) <= set(range(1, 201))
    said = sentence_of(caught.value)
    assert said.startswith(f"Data is missing: {folder}/0000000001.segment: ")
    assert "records 1 to " in said
    assert kept[("put", 1)] == 1


def test_a_path_without_journals_and_a_foreign_file_are_named(
    spark: SparkSession, daemon: DaemonProcess, raw: Raw, tmp_path: Path
) -> None:
    with pytest.raises(Exception, match="KestrelError") as caught:
        read(spark, tmp_path / "nothing").collect()
    assert sentence_of(caught.value).startswith(f"{tmp_path}/nothing: no journal lies here. Name ")

    put(raw, "jobs", range(1, 4))
    (folder,) = daemon.data_dir.glob("jobs.*")
    (folder / "0000000009.segment").write_bytes(b"no journal at all" * 1000)
    with pytest.raises(Exception, match="KestrelError") as caught:
        read(spark, daemon.data_dir, mode="events").collect()
    assert "0000000009.segment" in sentence_of(caught.value)
    assert "Traceback" not in str(caught.value)
    frame = read(spark, daemon.data_dir, mode="events", failOnDataLoss=False)
    assert happened(frame) == of("put", range(1, 4))


def test_damage_is_an_error_that_names_file_and_byte_or_a_warning(
    spark: SparkSession, daemon: DaemonProcess, raw: Raw
) -> None:
    put(raw, "jobs", range(1, 101))
    daemon.stop()
    (folder,) = daemon.data_dir.glob("jobs.*")
    first = min(folder.glob("*.segment"))
    data = bytearray(first.read_bytes())
    at = data.index(body(7))
    data[at] ^= 1
    first.write_bytes(data)

    with pytest.raises(Exception, match="KestrelError") as caught:
        read(spark, daemon.data_dir, mode="events").collect()
    said = sentence_of(caught.value)
    assert said.startswith(f"Data is missing: {first}: corrupt at byte ")
    assert "may have held items 7 to 7" in said
    assert said.endswith("or say failOnDataLoss=false to read what is there.")
    rest = read(spark, daemon.data_dir, mode="events", failOnDataLoss=False)
    assert happened(rest) == of("put", range(1, 101)) - of("put", range(7, 8))


def test_small_journals_share_a_partition_and_many_segments_do_not(
    spark: SparkSession, daemon: DaemonProcess, raw: Raw
) -> None:
    for number in range(20):
        put(raw, f"small-{number}", range(number, number + 1))
    put(raw, "large", range(100, 500))

    frame = read(spark, daemon.data_dir)

    assert frame.rdd.getNumPartitions() == 1
    finer = read(spark, daemon.data_dir, maxPartitionBytes="100k", queues="large")
    assert finer.rdd.getNumPartitions() > 1
    assert stored(frame) == Counter([*range(20), *range(100, 500)])
    assert stored(finer) == Counter(range(100, 500))


def test_a_journal_is_read_while_it_is_written_rotated_and_reclaimed(
    spark: SparkSession, daemon: DaemonProcess
) -> None:
    """Each item that is there at the plan is read once, in order; none is read twice."""
    daemon.config_file.write_text(SMALL)
    daemon.stop()
    daemon.start()
    done = [401, 1]  # the next to put, the next to take

    def go_on() -> None:
        with Raw(("127.0.0.1", daemon.port)) as raw:
            for _ in range(20):
                put(raw, "jobs", range(done[0], done[0] + 10))
                done[0] += 10
                take(raw, "jobs", range(done[1], done[1] + 10))
                done[1] += 10

    with Raw(("127.0.0.1", daemon.port)) as raw:
        put(raw, "jobs", range(1, 401))
    for _ in range(4):
        taken, put_before = done[1], done[0]
        writer = threading.Thread(target=go_on)
        writer.start()
        frame = read(spark, daemon.data_dir, maxPartitionBytes="64k")
        found = [(row.marker, number_of(row.value)) for row in frame.collect()]
        writer.join()

        assert all(marker == number for marker, number in found)
        numbers = [number for _, number in found]
        assert numbers == sorted(set(numbers)), "twice, or out of order"
        assert set(range(done[1], put_before)) <= set(numbers), "not all that were there"
        assert set(numbers) <= set(range(taken, done[0])), "what was gone, or never was"
        # The same plan, when half of it has gone: the rest is read from where it is now.
        again = [row.marker for row in frame.select("marker").collect()]
        assert again == sorted(set(again))
        assert set(range(done[1], put_before)) <= set(again) <= set(numbers)
    assert done[1] == 801
