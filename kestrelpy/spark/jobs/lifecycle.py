"""What became of every item: one row each, as Parquet by date, server and queue.

    python -m kestrelpy.spark.jobs.lifecycle PATH... --out DIR

    date=2026-11-21/server=5f2c/queue=jobs/   item, put, deliveries, how it ended, dwell, service

    put ──dwell_ms──▶ first opened ··· given back, opened again ··· ──service_ms──▶ confirmed

The date is that of the put (UTC); where the put is not kept, of the first that is known. Times are
those of the records, so a delivery that a crash ended, which leaves none, is not there.

A run replaces the partitions that it writes and leaves all others, so it may be run again and
again. What went with reclaimed segments is not in it any more: name archives and backups too, or
`--since` the date from which on journals are whole; a partition of an earlier date that is there
already is left as it is, unless the journals still hold all of its day.

One rule: the same journals make the same rows.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from typing import Final

from pyspark import StorageLevel
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as fn

from kestrelpy.spark.errors import KestrelError
from kestrelpy.spark.history import Journal, plan_events
from kestrelpy.spark.jobs import events as ev
from kestrelpy.spark.jobs.items import count, fold, together, with_flushes
from kestrelpy.spark.jobs.running import Outcome, Progress, Request, counted, folders, parse, run

_PARTITION: Final = ("date", "server", "queue")
_NEEDED: Final = f"{ev.NEEDED}, bytes bigint, flags bigint, expires timestamp, origin string"
NOBODY: Final = "-"  # a server without a name; nothing at all would make no folder
_COMPRESSION: Final = "zstd"
# What became of an item, by the kind of record that ended it.
_STATES: Final = {
    ev.CONFIRM: "confirmed", ev.EXPIRE: "expired", ev.DISCARD: "discarded", ev.MOVE: "moved",
    ev.CANCEL: "cancelled",
}  # fmt: skip
_DELIVERIES: Final = "array<struct<opened:timestamp,ended:timestamp,how:string,attempts:int>>"
# Only of some items, and as they are written there: kept apart from the sums.
_TEXTS: Final = ("key", "origin", "reason")


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
    events = ev.compact(
        ev.read_events(spark, request.paths, _NEEDED), "bytes", "flags",
        fn.unix_millis("expires").alias("expires_ms"), *_TEXTS,
    )  # fmt: skip
    events = together(spark, events).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        lives = lifecycle(spark, events, request.paths)
        progress.step("writing lives")
        return _written(spark, lives, out)
    finally:
        events.unpersist()


def lifecycle(spark: SparkSession, rows: DataFrame, paths: Sequence[str]) -> DataFrame:
    """One row for each item, from rows that are `items.together`."""
    facts = rows.groupBy("kind").agg(
        fn.count("key").alias("keys"), fn.count("origin").alias("origins")
    )
    found = {row.kind: row["keys"] + row.origins for row in facts.collect()}
    flushes = ev.read_flushes(spark, paths) if ev.FLUSH in found else []
    items = with_flushes(spark, _folded(rows, found), flushes)
    if {ev.RETURN, ev.DEAD}.intersection(found):
        items = items.join(_given_back(rows), ["jid", "block", "item"], "left")
    else:
        nothing = fn.lit(None)
        items = items.withColumn("back", nothing.cast(_DELIVERIES)).withColumn("returns", nothing)
        items = items.withColumn("aborts", nothing).withColumn("dead_reason", nothing)
    if any(found.values()):
        puts = rows.where((fn.col("kind") == ev.PUT) & ~fn.col("of_child"))
        puts = puts.select("jid", "block", "item", "key", "origin")
        items = items.join(puts, ["jid", "block", "item"], "left")
    else:
        for name in ("key", "origin"):
            items = items.withColumn(name, fn.lit(None).cast("string"))
    return _rows(items.join(fn.broadcast(_names(spark, paths)), "jid"))


def _folded(rows: DataFrame, kinds: Collection[int]) -> DataFrame:
    """The sums of `items.fold`, and those that only a life is told with."""
    kind = fn.col("kind")

    def of(which: int, column: str, name: str) -> Column:
        return fn.max(fn.when(kind == which, fn.col(column))).alias(name)

    return fold(
        rows, kinds, False,
        of(ev.PUT, "ms", "put_ms"), of(ev.PUT, "bytes", "bytes"), of(ev.PUT, "flags", "flags"),
        of(ev.PUT, "expires_ms", "expires_ms"),
        of(ev.CONFIRM, "opened_ms", "confirm_opened_ms"),
        of(ev.CONFIRM, "attempts", "confirm_attempts"),
        fn.max(fn.when(kind.isin(*ev.ENDS), fn.col("ms"))).alias("end_ms"),
        of(ev.DEAD, "ms", "dead_ms"),
    )  # fmt: skip


def _given_back(events: DataFrame) -> DataFrame:
    """Deliveries that came to nothing, in their order; few items have one."""
    kind = fn.col("kind")
    back = events.where(kind.isin(ev.RETURN, ev.DEAD) & ~fn.col("of_child"))
    told = fn.struct(
        "lsn",
        fn.timestamp_millis("opened_ms").alias("opened"),
        fn.timestamp_millis("ms").alias("ended"),
        fn.when(kind == ev.DEAD, "dead").otherwise(fn.col("reason")).alias("how"),
        "attempts",
        fn.when(kind == ev.DEAD, fn.col("reason")).alias("reason"),
    )
    return (
        back.groupBy("jid", "block", "item")
        .agg(fn.array_sort(fn.collect_list(told)).alias("back"))
        .withColumn("returns", fn.size(fn.filter("back", lambda each: each.how != "dead")))
        .withColumn("aborts", fn.size(fn.filter("back", lambda each: each.how == "abort")))
        .withColumn(
            "dead_reason",
            fn.get(fn.filter("back", lambda each: each.how == "dead"), 0).reason,
        )
    )


def _rows(items: DataFrame) -> DataFrame:
    """As they are written."""
    confirmed = fn.when(
        count("confirms") > 0,
        fn.array(
            fn.struct(
                fn.timestamp_millis("confirm_opened_ms").alias("opened"),
                fn.timestamp_millis("end_ms").alias("ended"),
                fn.lit("confirm").alias("how"),
                fn.col("confirm_attempts").alias("attempts"),
            )
        ),
    )
    # What expired and was kept died without a delivery.
    back = fn.transform(
        fn.filter("back", lambda each: each.opened.isNotNull()),
        lambda each: fn.struct(
            each.opened.alias("opened"), each.ended.alias("ended"), each.how.alias("how"),
            each.attempts.alias("attempts"),
        ),
    )  # fmt: skip
    nothing = fn.array().cast(_DELIVERIES)
    deliveries = fn.concat(fn.coalesce(back, nothing), fn.coalesce(confirmed, nothing))
    is_first = (fn.col("before") == 0) & fn.col("put_ms").isNotNull()
    return items.select(
        "server", "queue", "generation", "item", "key", "origin",
        fn.timestamp_millis("put_ms").alias("put"),
        "bytes", "flags",
        fn.timestamp_millis("expires_ms").alias("expires"),
        _state().alias("state"),
        deliveries.alias("deliveries"),
        fn.coalesce("returns", fn.lit(0)).alias("returns"),
        fn.coalesce("aborts", fn.lit(0)).alias("aborts"),
        *(
            fn.timestamp_millis(fn.when(fn.col("end") == kind, fn.col("end_ms"))).alias(state)
            for kind, state in _STATES.items()
        ),
        fn.timestamp_millis(fn.when(count("ends") == 0, fn.col("flushed_ms"))).alias("flushed"),
        fn.timestamp_millis("dead_ms").alias("dead"),
        "dead_reason",
        fn.when(is_first, fn.col("begin_ms") - fn.col("put_ms")).alias("dwell_ms"),
        (fn.col("end_ms") - fn.col("confirm_opened_ms")).alias("service_ms"),
        fn.to_date(fn.timestamp_millis(fn.col("put_ms"))).alias("date"),
        "whole_lsn", "put_lsn",
    )  # fmt: skip


def _state() -> Column:
    died = (count("deads") > 0) & fn.coalesce(
        fn.col("redrive_lsn") < fn.col("dead_lsn"), fn.lit(True)
    )
    state = fn.when(fn.lit(False), "")
    for kind, word in _STATES.items():
        state = state.when(fn.col("end") == kind, word)
    state = state.when(fn.col("flushed_lsn").isNotNull(), "flushed")
    return state.when(died, "dead").otherwise("open")


def _names(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """Server, queue and generation of each journal, and from which lsn on it is whole."""
    rows = [
        (j.identity.hex(), j.server or NOBODY, j.queue, j.generation, _whole_lsn(j))
        for j in plan_events(paths).journals
    ]
    columns = "journal string, server string, queue string, generation bigint, whole_lsn bigint"
    return (
        spark.createDataFrame(rows, columns)
        .withColumn("jid", fn.xxhash64("journal"))
        .drop("journal")
    )


def _whole_lsn(journal: Journal) -> int:
    return max((last + 1 for _, last in journal.holes), default=journal.lsn_first)


# -- writing --------------------------------------------------------------------------------------


def _written(spark: SparkSession, lives: DataFrame, out: str) -> Outcome:
    """Replace the partitions that are told in full; leave earlier ones that are there."""
    left = _left_alone(spark, lives, out)
    new = lives.drop("whole_lsn", "put_lsn")
    if left:
        kept = spark.createDataFrame(left, "date date, server string, queue string")
        new = new.join(fn.broadcast(kept), list(_PARTITION), "left_anti")
    counts = Observation()
    words = (*_STATES.values(), "flushed", "dead", "open")
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


def _left_alone(
    spark: SparkSession, lives: DataFrame, out: str
) -> list[tuple[object, str, str]]:
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


if __name__ == "__main__":
    sys.exit(main())
