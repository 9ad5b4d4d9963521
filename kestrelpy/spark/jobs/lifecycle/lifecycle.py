"""What became of every item: one row each, as Parquet by date, server and queue.

    python -m kestrelpy.spark.jobs.lifecycle PATH... --out DIR

    date=2026-11-21/server=5f2c/queue=jobs/   item, put, deliveries, how it ended, dwell, service

    put ──dwell_ms──▶ first opened ··· given back, opened again ··· ──service_ms──▶ confirmed

The date is that of the put (UTC); where the put is not kept, of the first that is known. Times are
those of the records, so a delivery that a crash ended, which leaves none, is not there.

A fan-out child is a queue here, `orders+audit`: an item that is put for all has a row for each
reader of it, with that one's deliveries, times and end.

A run replaces the partitions that it writes and leaves all others, so it may be run again and
again. What went with reclaimed segments is not in it any more: name archives and backups too, or
`--since` the date from which on journals are whole; a partition of an earlier date that is there
already is left as it is, unless the journals still hold all of its day.

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
from kestrelpy.spark.files.plan import Journal
from kestrelpy.spark.files.plan_events import plan_events
from kestrelpy.spark.files.readers import children
from kestrelpy.spark.jobs.common import blocks as packed
from kestrelpy.spark.jobs.common import events as ev
from kestrelpy.spark.jobs.common.job import Outcome, Progress, Request, counted, folders, parse, run
from kestrelpy.spark.jobs.lifecycle.rows import DEAD, FLUSHED, KEPT, LIVES, OPEN, STATES, told

_PARTITION: Final = ("date", "server", "queue")
NOBODY: Final = "-"  # a server without a name; nothing at all would make no folder
_COMPRESSION: Final = "zstd"


def main(argv: Sequence[str] | None = None) -> int:
    """The command; the exit code."""
    about = "One row for each item, as Parquet by date, server and queue."
    return run("lifecycle", work, parse("lifecycle", about, argv))


def work(spark: SparkSession, request: Request, progress: Progress) -> Outcome:
    """Write the life of every item under some folders."""
    out = request.out
    if out is None:
        raise KestrelError("There is no place for the tables. Say --out DIR.")
    folders(request.paths)
    progress.step("reading events")
    chunks = packed.together(spark, packed.read(spark, request.paths, KEPT, with_gone=True))
    chunks = chunks.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        lives = lifecycle(spark, chunks, request.paths)
        progress.step("writing lives")
        return _written(spark, lives, out)
    finally:
        chunks.unpersist()


def lifecycle(spark: SparkSession, chunks: DataFrame, paths: Sequence[str]) -> DataFrame:
    """One row for each item, from chunks that are `packed.together`."""
    flushes = ev.read_flushes(spark, paths) if packed.has_flushes(chunks) else []
    lives = packed.folded(chunks, partial(told, flushes=flushes), LIVES)
    lives = lives.join(fn.broadcast(_names(spark, paths)), "jid")
    ends = (fn.when(fn.col("end") == kind, fn.col("ended")).alias(s) for kind, s in STATES.items())
    return lives.select(
        "server", "queue", "generation", "item", "key", "origin", "put", "bytes", "flags",
        "expires", "state", "deliveries", "returns", "aborts", *ends, "flushed", "dead",
        "dead_reason", "dwell_ms", "service_ms", fn.to_date("put").alias("date"), "whole_lsn",
        "put_lsn",
    )  # fmt: skip


def _names(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """Server, queue and generation of each journal, and from which lsn on it is whole."""
    rows = []
    for j in plan_events(paths).journals:
        jid = ev.jid_of(j.identity)
        readers = {jid: j.queue}
        for child in children(j.reader_names):
            readers[ev.line_of(jid, child.reader)] = f"{j.queue}+{child.name}"
        rows += [
            (line, j.server or NOBODY, queue, j.generation, _whole_lsn(j))
            for line, queue in readers.items()
        ]
    columns = "jid bigint, server string, queue string, generation bigint, whole_lsn bigint"
    return spark.createDataFrame(rows, columns)


def _whole_lsn(journal: Journal) -> int:
    return max((last + 1 for _, last in journal.lsn_gaps), default=journal.lsn_first)


# -- writing --------------------------------------------------------------------------------------


def _written(spark: SparkSession, lives: DataFrame, out: str) -> Outcome:
    """Replace the partitions that are told in full; leave earlier ones that are there."""
    left = _left_alone(spark, lives, out)
    new = lives.drop("whole_lsn", "put_lsn")
    if left:
        kept = spark.createDataFrame(left, "date date, server string, queue string")
        new = new.join(fn.broadcast(kept), list(_PARTITION), "left_anti")
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
    told = ", ".join(f"{state} {count:,}" for state, count in sorted(states.items()))
    text = f"{counted(items, 'item')} in {out}" + (f": {told}" if told else "")
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


def _left_alone(spark: SparkSession, lives: DataFrame, out: str) -> list[tuple[object, str, str]]:
    """Partitions that are there, and of which the journals hold only a part any more."""
    there = _partitions(spark, out)
    if not there:
        return []
    told_in_full = fn.when(fn.col("put_lsn") >= fn.col("whole_lsn"), fn.col("date"))
    days = (
        lives.where(fn.col("whole_lsn") > 1)
        .groupBy("server", "queue", "date")
        .agg(fn.min(told_in_full).alias("since"))
        .where(fn.col("date").isNotNull())
        .collect()
    )
    since: dict[tuple[str, str], object] = {}
    for row in sorted(days, key=lambda each: str(each["date"])):
        if row.since is not None:
            since.setdefault((row.server, row.queue), row.since)
    # The first day of which something is told in full began before that.
    in_part = {
        (row["date"], row.server, row.queue)
        for row in days
        if str(row["date"]) <= str(since.get((row.server, row.queue), row["date"]))
    }
    return sorted(in_part & there, key=str)


def _partitions(spark: SparkSession, out: str) -> set[tuple[object, str, str]]:
    """What is there already."""
    try:
        schema = "date date, server string, queue string"
        there = spark.read.schema(schema).parquet(out).select(*_PARTITION).distinct().collect()
    except AnalysisException:
        return set()  # nothing is
    return {(r["date"], r.server, r.queue) for r in there}
