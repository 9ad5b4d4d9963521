"""Reading real daemons by marker, through Spark, while they go on.

Promise: spark-live.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kestrelpy.spark.errors import sentence_of
from tests.support.daemon import DaemonProcess
from tests.support.raw import Raw

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.slow

# Segments of a few items, so that the log is rotated and reclaimed all the time; little memory, so
# that most of it is read back from the disk.
BUSY = """
[server]
max_memory = "64KiB"
[journal]
segment_min = "16KiB"
segment_max = "16KiB"
"""


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[DaemonProcess]:
    with DaemonProcess(tmp_path / "data", config=BUSY) as process:
        yield process


@pytest.fixture
def raw(daemon: DaemonProcess) -> Iterator[Raw]:
    with Raw(("127.0.0.1", daemon.port)) as connection:
        yield connection


def body(number: int) -> bytes:
    return b"%d" % number + b"." * (500 - len(str(number)))


def put(raw: Raw, queue: str, numbers: range) -> None:
    for number in numbers:
        raw.ask(b"set %b 7 0 500\r\n%b\r\n" % (queue.encode(), body(number)), b"STORED\r\n")


def take(raw: Raw, queue: str, count: int) -> None:
    for _ in range(count):
        raw.send(b"get %b\r\n" % queue.encode())
        assert raw.line().startswith(b"VALUE")
        raw.line()
        raw.expect(b"END\r\n")


def read(spark: SparkSession, *daemons: DaemonProcess, **options: Any) -> DataFrame:
    servers = ",".join(f"127.0.0.1:{daemon.port}" for daemon in daemons)
    return spark.read.format("kestrel").options(servers=servers, **options).load()


def numbers_in(frame: DataFrame) -> list[int]:
    return [int(row.value.rstrip(b".")) for row in frame.select("value").collect()]


@contextmanager
def meanwhile(*works: Callable[[], object]) -> Iterator[None]:
    """Each of these again and again, on a thread of its own."""
    stop = threading.Event()
    failures: list[BaseException] = []

    def again(work: Callable[[], object]) -> None:
        try:
            while not stop.is_set():
                work()
        except BaseException as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=again, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not failures


def test_what_a_queue_holds_is_read_and_nothing_is_removed(
    spark: SparkSession, daemon: DaemonProcess, raw: Raw
) -> None:
    put(raw, "jobs", range(1, 201))
    take(raw, "jobs", 50)
    raw.send(b"get jobs/open\r\n")
    raw.expect(b"VALUE jobs/open 7 500\r\n%b\r\nEND\r\n" % body(51))
    before = raw.stats()

    frame = read(spark, daemon, minPartitions=3)
    rows = frame.collect()

    assert Counter(int(row.value.rstrip(b".")) for row in rows) == Counter(range(51, 201))
    assert all(row.marker == int(row.value.rstrip(b".")) and row.flags == 7 for row in rows)
    assert Counter(row.state for row in rows) == Counter({"lent": 1, "ready": 149})
    assert {row.server for row in rows} == {before["server_id"]}
    after = raw.stats()
    for name in ("curr_items", "total_items", "queue_creates", "queue_jobs_items"):
        assert after[name] == before[name]
    raw.ask(b"get jobs/close\r\n", b"END\r\n")


def test_a_live_read_and_one_of_the_journal_tell_the_same(
    spark: SparkSession, daemon: DaemonProcess, raw: Raw
) -> None:
    put(raw, "jobs", range(1, 101))
    take(raw, "jobs", 20)
    raw.send(b"get jobs/open\r\n")
    raw.expect(b"VALUE jobs/open 7 500\r\n%b\r\nEND\r\n" % body(21))
    raw.ask(b"get jobs/abort\r\n", b"END\r\n")
    columns = ["server", "queue", "marker", "value", "flags", "timestamp", "attempts", "state"]

    live = read(spark, daemon).select(columns).collect()
    stored = spark.read.format("kestrel").load(str(daemon.data_dir)).select(columns).collect()

    assert Counter(live) == Counter(stored)
    assert len(live) == 80


def test_each_item_is_read_once_oldest_first_during_writes_rotation_and_reclaim(
    spark: SparkSession, daemon: DaemonProcess, raw: Raw
) -> None:
    put(raw, "jobs", range(1, 401))
    at = {"put": 401, "taken": 0}

    def go_on() -> None:
        with Raw(("127.0.0.1", daemon.port)) as other:
            for _ in range(20):
                put(other, "jobs", range(at["put"], at["put"] + 10))
                at["put"] += 10
                take(other, "jobs", 10)
                at["taken"] += 10

    for _ in range(4):
        taken, put_before = at["taken"], at["put"]
        writer = threading.Thread(target=go_on)
        writer.start()
        found = numbers_in(read(spark, daemon, queues="jobs", minPartitions=2))
        writer.join()

        assert found == sorted(set(found)), "twice, or out of order"
        assert set(range(at["taken"] + 1, put_before)) <= set(found), "not all that were there"
        assert set(found) <= set(range(taken + 1, at["put"])), "what was gone, or never was"
    assert at["taken"] == 800


def test_reads_that_follow_each_other_by_marker_see_each_item_once(
    spark: SparkSession, daemon: DaemonProcess, raw: Raw
) -> None:
    put(raw, "jobs", range(1, 11))
    server = f"127.0.0.1:{daemon.port}"
    seen: list[int] = []
    last = 0
    with Raw(("127.0.0.1", daemon.port)) as writer:
        at = [11]

        def write() -> None:
            put(writer, "jobs", range(at[0], at[0] + 5))
            at[0] += 5

        with meanwhile(write):
            for _ in range(4):
                place = json.dumps({server: {"jobs": last}})
                rows = read(spark, daemon, startingMarkers=place).select("marker").collect()
                seen += [row.marker for row in rows]
                last = seen[-1]

    assert seen == list(range(1, last + 1))


def test_markers_older_than_the_oldest_item_begin_with_that_item(
    spark: SparkSession, daemon: DaemonProcess, raw: Raw
) -> None:
    put(raw, "jobs", range(1, 101))
    take(raw, "jobs", 90)

    place = json.dumps({f"127.0.0.1:{daemon.port}": {"jobs": 3}})

    assert numbers_in(read(spark, daemon, startingMarkers=place)) == list(range(91, 101))


def test_a_restart_meanwhile_is_not_noticed(
    spark: SparkSession, daemon: DaemonProcess, raw: Raw
) -> None:
    put(raw, "jobs", range(1, 301))
    frame = read(spark, daemon, fetchRetries=150, fetchRetryInterval="200ms")
    assert frame.rdd.getNumPartitions() == 1

    daemon.kill()
    starter = threading.Timer(0.5, daemon.start)
    starter.start()
    found = numbers_in(frame)
    starter.join()

    assert found == list(range(1, 301))


def test_several_servers_are_one_table(
    spark: SparkSession, daemon: DaemonProcess, raw: Raw, tmp_path: Path
) -> None:
    put(raw, "jobs", range(1, 21))
    with DaemonProcess(tmp_path / "second") as second:
        with Raw(("127.0.0.1", second.port)) as other:
            put(other, "jobs", range(21, 31))
            put(other, "mail", range(31, 41))
        frame = read(spark, daemon, second, queues="jobs,mail")

        assert Counter(numbers_in(frame)) == Counter(range(1, 41))
        assert frame.select("server").distinct().count() == 2
        second.kill()
        with pytest.raises(Exception, match="KestrelError") as caught:
            read(spark, second, daemon, fetchRetries=0).collect()
        assert sentence_of(caught.value) == (
            f"The server 127.0.0.1:{second.port} cannot be reached: Connection refused. Start it, "
            "correct the option servers, or say skipUnreachable=true to read the others."
        )
        rest = read(spark, second, daemon, fetchRetries=0, skipUnreachable=True)
        assert Counter(numbers_in(rest)) == Counter(range(1, 21))


def test_a_queue_that_was_made_anew_is_not_read_as_if_it_were_the_old_one(
    spark: SparkSession, daemon: DaemonProcess, raw: Raw
) -> None:
    put(raw, "jobs", range(1, 21))
    frame = read(spark, daemon)
    assert frame.rdd.getNumPartitions() == 1
    raw.ask(b"delete jobs\r\n", b"DELETED\r\n")
    put(raw, "jobs", range(101, 121))

    with pytest.raises(Exception, match="KestrelError") as caught:
        frame.collect()

    assert "was deleted and made anew since the read was planned" in sentence_of(caught.value)
    assert numbers_in(read(spark, daemon)) == list(range(101, 121))


def test_a_server_that_hands_out_nothing_now_is_heard(
    spark: SparkSession, daemon: DaemonProcess, raw: Raw
) -> None:
    put(raw, "jobs", range(1, 21))
    frame = read(spark, daemon)
    assert frame.rdd.getNumPartitions() == 1
    raw.ask(b"status quiescent\r\n", b"END\r\n")

    with pytest.raises(Exception, match="KestrelError") as caught:
        frame.collect()

    assert sentence_of(caught.value).startswith(
        f"The server 127.0.0.1:{daemon.port} refused: quiescent"
    )


def test_done_items_are_read_from_servers_and_hand_offs_from_journals(
    spark: SparkSession, tmp_path: Path
) -> None:
    config = '[queue_defaults]\nretain = "forever"\n'
    with (
        DaemonProcess(tmp_path / "data", config=config) as daemon,
        Raw(("127.0.0.1", daemon.port)) as raw,
    ):
        raw.ask(b"set first/id=a/key=K 0 0 1\r\n1\r\nset first 0 0 1\r\n2\r\n", b"STORED\r\n" * 2)
        raw.ask(b"get first/open\r\n", b"VALUE first/open 0 1\r\n1\r\nEND\r\n")
        raw.ask(b"set second/confirm/key=L 0 0 1\r\n3\r\n", b"STORED\r\n")
        live = read(spark, daemon).select("queue", "marker", "id", "key", "state").collect()
        assert daemon.stop() == 0

    folder = str(tmp_path / "data")
    kept = spark.read.format("kestrel").load(folder).collect()
    columns = (
        "queue string, op string, item bigint, id string, version bigint, previous bigint, "
        "origin string, target string, server string"
    )
    events = spark.read.format("kestrel").option("mode", "events").schema(columns).load(folder)
    rows = {(r.queue, r.op, r.item): r for r in events.where("item is not null").collect()}

    assert sorted(tuple(row) for row in live) == [
        ("first", 1, "a", "K", "done"), ("first", 2, None, None, "ready"),
        ("second", 1, None, "L", "ready"),
    ]  # fmt: skip
    there = {(r.queue, r.marker): (r.id, r.state, r.origin) for r in kept}
    server = rows["first", "put", 1].server
    assert there == {
        ("first", 2): (None, "ready", None), ("second", 1): (None, "ready", f"{server}:first:1"),
    }  # fmt: skip
    assert (rows["first", "put", 1].id, rows["first", "put", 1].version) == ("a", 1)
    made = rows["second", "put", 1]
    assert (made.origin, made.version, made.previous) == (f"{server}:first:1", 1, None)
    assert rows["first", "move", 1].target == f"{server}:second:1"
