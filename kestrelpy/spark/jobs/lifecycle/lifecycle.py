"""One row for each item, as Parquet by date, server and queue.

    python -m kestrelpy.spark.jobs.lifecycle PATH... --out DIR

    date=2026-11-21/server=5f2c/queue=jobs/   item, put, deliveries, its end, dwell, service

    put ──dwell_ms──▶ first opened ··· given back, opened again ··· ──service_ms──▶ confirmed

The date is that of the put (UTC). Times are those of the records; a crash ends deliveries without a
record, so these are not in the row.

A fan-out child is a queue here, `orders+audit`: an item for all readers has a row for each reader,
with that reader's deliveries, times and end.

A run replaces the partitions that it writes and leaves all others, so it may be run again and
again. Records of reclaimed segments are no longer in the journals: name archives and backups as
well. A partition that is there already stays as it is, unless the journals still have all of its
day.

One rule: the same journals make the same rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from pyspark import StorageLevel
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as fn

from kestrelpy.spark.errors import KestrelError
from kestrelpy.spark.files import children, plan_events
from kestrelpy.spark.jobs.common import blocks as packed
from kestrelpy.spark.jobs.common import events as ev
from kestrelpy.spark.jobs.common.job import Outcome, Progress, Request, counted, folders, parse, run
from kestrelpy.spark.jobs.lifecycle.rows import (
    DEAD,
    EXTRA,
    FLUSHED,
    ITEM_ROWS,
    OPEN,
    STATES,
    item_rows,
)

_PARTITION: Final = ("date", "server", "queue")
NOBODY: Final = "-"  # a server without a name: an empty name makes no folder
_COMPRESSION: Final = "zstd"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return the exit code."""
    about = "One row for each item, as Parquet by date, server and queue."
    return run("lifecycle", work, parse("lifecycle", about, argv))


def work(spark: SparkSession, request: Request, progress: Progress) -> Outcome:
    """Write a row for every item under some folders."""
    out = request.out
    if out is None:
        raise KestrelError("There is no place for the tables. Say --out DIR.")
    folders(request.paths)
    progress.step("reading events")
    chunks = packed.together(spark, packed.read(spark, request.paths, EXTRA, with_gone=True))
    chunks = chunks.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        table = lifecycle(spark, chunks, request.paths)
        progress.step("writing rows")
        return _written(spark, table, out)
    finally:
        chunks.unpersist()


def lifecycle(spark: SparkSession, chunks: DataFrame, paths: Sequence[str]) -> DataFrame:
    """Return one row for each item, from chunks that are `blocks.together`."""
    flushes = ev.read_flushes(spark, paths) if packed.has_flushes(chunks) else []
    table = packed.folded(chunks, partial(item_rows, flushes=flushes), ITEM_ROWS)
    table = table.join(fn.broadcast(_names(spark, paths)), "jid")
    ends = (fn.when(fn.col("end") == kind, fn.col("ended")).alias(s) for kind, s in STATES.items())
    return table.select(
        "server", "queue", "generation", "item", "key", "origin", "put", "bytes", "flags",
        "expires", "state", "deliveries", "returns", "aborts", *ends, "flushed", "dead",
        "dead_reason", "dwell_ms", "service_ms", fn.to_date("put").alias("date"), "whole_lsn",
        "put_lsn",
    )  # fmt: skip


def _names(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """Return server, queue and generation of each journal, and the lsn from which it is whole."""
    rows = []
    for j in plan_events(paths).journals:
        jid = ev.jid_of(j.identity)
        readers = {jid: j.queue}
        for child in children(j.reader_names):
            readers[ev.reader_jid(jid, child.reader)] = f"{j.queue}+{child.name}"
        rows += [
            (line, j.server or NOBODY, queue, j.generation, j.whole_from)
            for line, queue in readers.items()
        ]
    columns = "jid bigint, server string, queue string, generation bigint, whole_lsn bigint"
    return spark.createDataFrame(rows, columns)


# -- writing --------------------------------------------------------------------------------------


def _written(spark: SparkSession, table: DataFrame, out: str) -> Outcome:
    """Replace the partitions with all of their day; leave earlier ones that are there."""
    left = _left_alone(spark, table, out)
    new = table.drop("whole_lsn", "put_lsn")
    if left:
        there = spark.createDataFrame(left, "date date, server string, queue string")
        new = new.join(fn.broadcast(there), list(_PARTITION), "left_anti")
    counts = Observation()
    words = (*STATES.values(), FLUSHED, DEAD, OPEN)
    each = [fn.count(fn.when(fn.col("state") == word, 1)).alias(word) for word in words]
    (
        new.observe(counts, *each)
        .sortWithinPartitions(*_PARTITION, "generation", "item")
        .write.mode("overwrite")
        .option("partitionOverwriteMode", "dynamic")
        .option("compression", _COMPRESSION)
        .partitionBy(*_PARTITION)
        .parquet(out)
    )
    states = {word: count for word, count in counts.get.items() if count}
    items = sum(states.values())
    item_rows = ", ".join(f"{state} {count:,}" for state, count in sorted(states.items()))
    text = f"{counted(items, 'item')} in {out}" + (f": {item_rows}" if item_rows else "")
    if left:
        days = ", ".join(sorted({str(row[0]) for row in left}))
        text += (
            f"\n{counted(len(left), 'partition')} of {days} left as they were: the journals do not "
            "hold all of those days any more."
        )
    facts: dict[str, object] = {
        "out": out, "items": items, "states": states,
        "left": [{"date": str(d), "server": s, "queue": q} for d, s, q in left],
    }  # fmt: skip
    return Outcome(text, facts)


def _left_alone(spark: SparkSession, table: DataFrame, out: str) -> list[tuple[object, str, str]]:
    """Return partitions that are there though the journals have only a part of them left."""
    there = _partitions(spark, out)
    if not there:
        return []
    whole_day = fn.when(fn.col("put_lsn") >= fn.col("whole_lsn"), fn.col("date"))
    days = (
        table.where(fn.col("whole_lsn") > 1)
        .groupBy("server", "queue", "date")
        .agg(fn.min(whole_day).alias("since"))
        .where(fn.col("date").isNotNull())
        .collect()
    )
    since: dict[tuple[str, str], object] = {}
    for row in sorted(days, key=lambda each: str(each["date"])):
        if row.since is not None:
            since.setdefault((row.server, row.queue), row.since)
    # The first day with a whole item began before that item.
    in_part = {
        (row["date"], row.server, row.queue)
        for row in days
        if str(row["date"]) <= str(since.get((row.server, row.queue), row["date"]))
    }
    return sorted(in_part & there, key=str)


def _partitions(spark: SparkSession, out: str) -> set[tuple[object, str, str]]:
    """Return the partitions that are there already."""
    try:
        schema = "date date, server string, queue string"
        there = spark.read.schema(schema).parquet(out).select(*_PARTITION).distinct().collect()
    except AnalysisException:
        return set()  # there is none
    return {(r["date"], r.server, r.queue) for r in there}
