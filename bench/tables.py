"""Spark over journals and live servers: the cost of reading, writing Parquet and auditing.

    read      events of one journal in one partition, and Spark's JSON reader on the same rows
    parquet   the same journal written out
    live      one server's queue by marker while sets go on
    audit     lifecycle and audit, order included, over events of every kind

The journals are those of a real daemon. The rows go to Spark's sink that drops everything.

One rule: a session is started once and warmed up once, and no figure includes its start.
"""

from __future__ import annotations

import io
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

from bench.daemon import Daemon
from bench.figures import Figure
from bench.scenarios import Bench, Goals
from kestrelpy.spark.jobs import audit as books
from kestrelpy.spark.jobs import lifecycle
from kestrelpy.spark.jobs.common.job import Progress, Request
from kestrelpy.spark.session import session, what_is_missing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LOADS: Final = {100: "100 B", 1 << 10: "1 KiB"}
ONE_PARTITION: Final = "1000g"
_EVENTS: Final = (
    "server string, queue string, marker long, op string, timestamp timestamp, reader string, "
    "attempts int, opened timestamp, segment long, position long, value binary"
)


def missing() -> str | None:
    """Return a sentence about what these scenarios need and this machine lacks; None: nothing."""
    return what_is_missing()


@contextmanager
def in_spark() -> Iterator[SparkSession]:
    """Run a session for one scenario."""
    spark = session("bench", "local[*]", {
        "spark.ui.enabled": "false", "spark.log.level": "ERROR", "spark.driver.memory": "3g",
        "spark.sql.files.maxPartitionBytes": ONE_PARTITION,
    })  # fmt: skip
    spark.conf.set("spark.sql.shuffle.partitions", str(2 * spark.sparkContext.defaultParallelism))
    try:
        yield spark
    finally:
        spark.stop()


def read(bench: Bench) -> list[Figure]:
    """Measure journals as tables, and as Parquet."""
    figures: list[Figure] = []
    with in_spark() as spark:
        for body_bytes, goals in ((1 << 10, Goals.spark_1kib), (100, Goals.spark_100b)):
            items = bench.sizes.spark_kib_items if body_bytes > 100 else bench.sizes.spark_items
            with Daemon(bench.parent, bench.python) as daemon:
                bench.load(
                    "memcache-set", daemon.port, "jobs", ops=items, body_bytes=body_bytes,
                    in_flight=16,
                )  # fmt: skip
                daemon.stop()
                where = f"{items:,} x {LOADS[body_bytes]}"
                figures += _read_figures(bench, spark, daemon.data, items, where, goals)
    return figures


def _read_figures(
    bench: Bench, spark: SparkSession, data: Path, items: int, where: str,
    goals: tuple[float, float],
) -> list[Figure]:  # fmt: skip
    def events(partition_bytes: str) -> DataFrame:
        options = {"mode": "events", "maxPartitionBytes": partition_bytes}
        return spark.read.format("kestrel").options(**options).load(str(data))

    lines, out = str(data.parent / "rows.json"), str(data.parent / "rows.parquet")
    events(ONE_PARTITION).coalesce(1).write.json(lines, mode="overwrite")
    rows = {
        "journal": lambda: _drop(events(ONE_PARTITION)),
        "json": lambda: _drop(spark.read.schema(_EVENTS).json(lines)),
        "parquet": lambda: events("32m").write.parquet(out, mode="overwrite"),
    }
    rates: dict[str, list[float]] = {name: [] for name in rows}
    for number in range(bench.sizes.rounds + 1):
        for name in sorted(rows, reverse=bool(number % 2)):
            rate = items / seconds_of(rows[name])
            if number:  # the first round warms the page cache, the workers and Java up
                rates[name].append(rate)
        bench.say(f"{where}: round {number} of {bench.sizes.rounds}")
    shutil.rmtree(lines)
    ratios = [a / b for a, b in zip(rates["journal"], rates["json"], strict=True)]
    rate, parquet = goals
    return [
        Figure(where, "journal over JSON, one partition", median(ratios),
               at_least=Goals.spark_over_json),
        Figure(where, "journal, one partition", median(rates["journal"]), "/s", at_least=rate),
        Figure(where, "JSON, one partition", median(rates["json"]), "/s"),
        Figure(where, "journal to Parquet", median(rates["parquet"]), "/s", at_least=parquet),
    ]  # fmt: skip


def live(bench: Bench) -> list[Figure]:
    """Measure a read by marker from a running daemon, with and without sets at the same time."""
    items = bench.sizes.spark_live_items
    where = f"{items:,} x 1 KiB, live"
    with in_spark() as spark, Daemon(bench.parent, bench.python) as daemon:
        bench.load(
            "memcache-set", daemon.port, "jobs", ops=items, body_bytes=1 << 10, in_flight=16
        )

        def once() -> None:
            options = {"servers": f"127.0.0.1:{daemon.port}", "queues": "jobs"}
            _drop(spark.read.format("kestrel").options(**options).load())

        once()
        quiet = [items / seconds_of(once) for _ in range(bench.sizes.rounds)]
        over, stored = threading.Event(), list[int]()

        def store() -> None:
            while not over.is_set():
                done = bench.load(
                    "memcache-set", daemon.port, "other", seconds=0.5, body_bytes=1 << 10
                )
                stored.append(done.ops)

        began = time.monotonic()
        load = threading.Thread(target=store)
        load.start()
        try:
            loaded = [items / seconds_of(once) for _ in range(bench.sizes.rounds)]
        finally:
            over.set()
            load.join()
        beside = sum(stored) / (time.monotonic() - began)
    return [
        Figure(where, "read while sets go on", median(loaded), "/s", at_least=Goals.spark_live),
        Figure(where, "sets at the same time", beside, "/s"),
        Figure(where, "read while nothing else goes on", median(quiet), "/s"),
    ]


@contextmanager
def archiving(bench: Bench) -> Iterator[Daemon]:
    """Run a daemon that archives the whole history of its queues."""
    with Daemon(bench.parent, bench.python) as daemon:
        archive = daemon.place / "archive"
        archive.mkdir()
        (daemon.place / "kestrelpy.toml").write_text(
            f'[queue_defaults]\narchive_to = "{archive}"\nmax_attempts = "none"\n'
        )
        daemon.stop()
        daemon.start()
        yield daemon


def archived(daemon: Daemon) -> tuple[str, ...]:
    """Return where its whole history is."""
    archive = daemon.place / "archive"
    return (str(daemon.data), *((str(archive),) if any(archive.iterdir()) else ()))


def audit(bench: Bench) -> list[Figure]:
    """Measure lifecycle and audit over the whole history of a queue."""
    third = bench.sizes.spark_events // 3
    with in_spark() as spark, archiving(bench) as daemon:
        for dialect in ("memcache-set", "memcache-return", "memcache-consume"):
            bench.load(dialect, daemon.port, "jobs", ops=third, in_flight=1)
            bench.say(f"{dialect}: {third:,}")
        daemon.stop()
        paths, out = archived(daemon), str(daemon.place / "out")
        silent = Progress(io.StringIO(), watched=False)
        events = spark.read.format("kestrel").option("mode", "events").load(list(paths)).count()
        where = f"{events:,} events"
        took = {
            "lifecycle": seconds_of(lambda: lifecycle.work(spark, Request(paths, out), silent)),
            "audit with order": seconds_of(lambda: books.work(spark, Request(paths), silent)),
        }
        holds = books.work(spark, Request(paths), silent).code == 0
    return [
        *(Figure(where, name, seconds, "s") for name, seconds in took.items()),
        Figure(where, "both", sum(took.values()), "s", at_most=Goals.spark_audit_s),
        Figure(where, "the audit holds (1: yes)", float(holds), at_least=1.0),
    ]


def _drop(table: DataFrame) -> None:
    table.write.format("noop").mode("overwrite").save()


def seconds_of(work: Callable[[], object]) -> float:
    """Return how long this takes."""
    began = time.monotonic()
    work()
    return time.monotonic() - began
