"""Spark in both directions: the cost of a write, of a stream, and of the jobs over little data.

    sink      rows of 200 B with ids into a daemon that syncs
    stream    an `availableNow` query over journals, and over a running daemon, 1 KiB each
    micro     one item at a time from queue to queue: a micro-batch for each
    again     lifecycle, and a second run over one per cent more
    jobs      lifecycle, audit and report over 20,000 items, in a Spark that has just started

One rule: each round has its own scope or checkpoint, so no round finds its work done.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from bench.daemon import Daemon, Line
from bench.figures import Figure
from bench.scenarios import Bench, Goals
from bench.servers import COMPILED, ROOT, ServerFailed
from bench.tables import archived, archiving, in_spark, seconds_of
from kestrelpy.spark.ids import with_lineage_ids
from kestrelpy.spark.jobs import audit as books
from kestrelpy.spark.jobs import lifecycle
from kestrelpy.spark.jobs.common.job import Outcome, Progress, Request, quick_start
from kestrelpy.spark.jobs.report import PageLook, report
from kestrelpy.spark.session import session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

SMALL_ITEMS: Final = 20_000
_BODY_BYTES: Final = 200
_RETAINING: Final = '[queue_defaults]\nretain = "forever"\n'
_BATCH_LIMIT_S: Final = 60.0
_SMALL_LIMIT_S: Final = 600.0


def sink(bench: Bench) -> list[Figure]:
    """Measure synced rows a second into one daemon, and into the compiled one."""
    where = f"{bench.sizes.spark_live_items:,} x {_BODY_BYTES} B with ids"
    pythons = {"sink": bench.python}
    if COMPILED.missing() is None:
        pythons["sink, compiled daemon"] = COMPILED.python
    return [
        Figure(where, name, _sink_rate(bench, python), "/s", at_least=Goals.spark_sink)
        for name, python in pythons.items()
    ]


def _sink_rate(bench: Bench, python: str) -> float:
    rows = bench.sizes.spark_live_items
    with in_spark() as spark, Daemon(bench.parent, python) as daemon:
        frame = spark.range(rows).selectExpr(
            f"lpad(cast(id as string), {_BODY_BYTES}, 'x') value", "md5(cast(id as string)) id"
        )
        options = {"servers": f"127.0.0.1:{daemon.port}", "queue": "jobs"}

        def once() -> None:
            frame.write.format("kestrel").options(**options).mode("append").save()

        once()
        return median(rows / seconds_of(once) for _ in range(bench.sizes.rounds))


def stream(bench: Bench) -> list[Figure]:
    """Measure items a second of a query over all items, its start and end included."""
    figures: list[Figure] = []
    kib, live = bench.sizes.spark_kib_items, bench.sizes.spark_live_items
    with in_spark() as spark, Daemon(bench.parent, bench.python, _RETAINING) as daemon:
        for items, queue in ((kib, "kept"), (live, "live")):
            bench.load(
                "memcache-set", daemon.port, queue, ops=items, body_bytes=1 << 10, in_flight=16
            )
        servers = f"127.0.0.1:{daemon.port}"
        query = spark.readStream.format("kestrel").options(servers=servers, queues="live").load()
        figures += _stream(bench, query, live, "servers", Goals.spark_stream_live)
        daemon.stop()
        folder = next(daemon.data.glob("kept.*"))
        query = spark.readStream.format("kestrel").load(str(folder))
        figures += _stream(bench, query, kib, "journals", Goals.spark_stream)
    return figures


def _stream(
    bench: Bench, frame: DataFrame, items: int, source: str, goal: float
) -> list[Figure]:  # fmt: skip
    rows: list[int] = []
    batch_seconds: list[float] = []

    def once() -> None:
        with tempfile.TemporaryDirectory(dir=bench.parent) as folder:
            writer = frame.writeStream.format("noop").option("checkpointLocation", folder)
            query = writer.trigger(availableNow=True).start()
            query.awaitTermination()
            progress = query.recentProgress
            rows.append(sum(each["numInputRows"] for each in progress))
            ms = sum(each["durationMs"]["triggerExecution"] for each in progress)
            batch_seconds.append(ms / 1e3)

    once()
    whole = [seconds_of(once) for _ in range(bench.sizes.rounds)]
    if set(rows) != {items}:
        raise ServerFailed(f"a stream of {items:,} items had {rows} rows")
    where, rate = f"{items:,} x 1 KiB", items / median(batch_seconds[1:])
    return [
        Figure(where, f"stream from {source}, its batches", rate, "/s", at_least=goal),
        Figure(where, f"stream from {source}, with start and end", items / median(whole), "/s"),
    ]


def micro(bench: Bench) -> list[Figure]:
    """Measure a micro-batch of one item, from one queue of a daemon to another."""
    took: list[float] = []
    with (
        in_spark() as spark, Daemon(bench.parent, bench.python, _RETAINING) as daemon,
        tempfile.TemporaryDirectory(dir=bench.parent) as folder,
    ):  # fmt: skip
        line, servers = daemon.connect(), f"127.0.0.1:{daemon.port}"
        _put(line, 0)
        read = spark.readStream.format("kestrel").options(servers=servers, queues="in")
        rows = with_lineage_ids(read.load()).select("id", "value")
        writer = rows.writeStream.format("kestrel").options(servers=servers, queue="out")
        query = writer.option("checkpointLocation", folder).start()
        try:
            for number in range(1, bench.sizes.spark_batches + 2):
                began = time.perf_counter()
                _wait(query, line, number)
                took.append((time.perf_counter() - began) * 1e3)
                _put(line, number)
            progress = query.recentProgress
        finally:
            query.stop()
            line.close()
    steps = [each["durationMs"]["triggerExecution"] for each in progress if each["numInputRows"]]
    where = f"{bench.sizes.spark_batches} batches of one item"
    return [
        Figure(where, "a batch, source and sink, median", median(steps[1:] or steps), "ms",
               at_most=Goals.spark_batch_ms),
        Figure(where, "from put to put, median", median(took[1:]), "ms"),
    ]  # fmt: skip


def _put(line: Line, number: int) -> None:
    body = b"%d" % number
    if line.ask(b"set in 0 0 %d\r\n%b\r\n" % (len(body), body)) != b"STORED":
        raise ServerFailed("a set was refused")


def _wait(query: StreamingQuery, line: Line, items: int) -> None:
    deadline = time.monotonic() + _BATCH_LIMIT_S
    while int(line.stats(b"out").get("items", 0)) < items:
        if time.monotonic() > deadline or not query.isActive:
            raise ServerFailed(f"item {items} did not come out: {query.exception()}")
        time.sleep(0.002)


def again(bench: Bench) -> list[Figure]:
    """Measure lifecycle over everything, then over one per cent more."""
    events = bench.sizes.spark_events
    silent = Progress(io.StringIO(), watched=False)
    with in_spark() as spark, archiving(bench) as daemon:

        def work() -> None:
            lifecycle.work(spark, Request(archived(daemon), str(daemon.place / "out")), silent)

        took = []
        for third in (events // 3, max(events // 300, 1)):
            for dialect in ("memcache-set", "memcache-return", "memcache-consume"):
                bench.load(dialect, daemon.port, "jobs", ops=third, in_flight=1)
            took.append(seconds_of(work))
            bench.say(f"lifecycle, {3 * third:,} events more: {took[-1]:.1f} s")
    where = f"{events:,} events, and 1 % more"
    return [
        Figure(where, "lifecycle, first run", took[0], "s"),
        Figure(where, "lifecycle, second run", took[1], "s"),
        Figure(where, "second over first", took[1] / took[0], at_most=Goals.spark_again),
    ]


def jobs(bench: Bench) -> list[Figure]:
    """Measure three jobs over little data, in a process and a Spark of their own."""
    items = min(SMALL_ITEMS, bench.sizes.spark_live_items)
    with Daemon(bench.parent, bench.python) as daemon:
        for dialect, ops in (("set", items), ("return", items // 10), ("consume", items)):
            bench.load(f"memcache-{dialect}", daemon.port, "jobs", ops=ops)
        daemon.stop()
        ended = subprocess.run(
            [sys.executable, "-m", "bench.pipes", str(daemon.data), str(daemon.place / "out")],
            capture_output=True, text=True, check=False, timeout=_SMALL_LIMIT_S, cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
    if ended.returncode:
        raise ServerFailed(ended.stderr[-500:])
    took: dict[str, float] = json.loads(ended.stdout.splitlines()[-1])
    where = f"{items:,} items, just started"
    return [
        *(Figure(where, name, seconds, "s") for name, seconds in took.items()),
        Figure(where, "all three", sum(took.values()), "s", at_most=Goals.spark_small_s),
    ]


def main(data: str, out: str) -> None:
    """Run the three jobs once, as `kestrelpy spark` does; print how long each took."""
    with quick_start([data]):
        spark = session("bench", settings={
            "spark.ui.enabled": "false", "spark.log.level": "ERROR", "spark.driver.memory": "2g",
        })  # fmt: skip
    silent = Progress(io.StringIO(), watched=False)
    took = {name: seconds_of(work) for name, work in _jobs(spark, data, out, silent).items()}
    spark.stop()
    print(json.dumps(took))


def _jobs(
    spark: SparkSession, data: str, out: str, silent: Progress
) -> dict[str, Callable[[], Outcome | Any]]:
    return {
        "lifecycle": lambda: lifecycle.work(spark, Request((data,), f"{out}/tables"), silent),
        "audit": lambda: books.work(spark, Request((data,)), silent),
        "report": lambda: report(spark, [data], Path(f"{out}/page"), PageLook(), silent),
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
