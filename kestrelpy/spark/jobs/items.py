"""One row for each item: what its records add up to.

    put_lsn  puts        its put, and how many there are (more than one: somebody wrote it twice)
    end      end_lsn     the first record after which it is gone, by kind, and `ends` of them
    dead_lsn deads       its death; a later `redrive` takes it back
    begin_ms first_lsn   its first delivery: when it began, the record that ended it
    deliveries           how many there were that a record ended; `before`: how many the first of
                         those says came before it
    flushed_lsn          the first flush that reached it
    there    buried      what is said of it elsewhere (`state`): it is there, it is dead

All of it are sums, least and greatest of numbers: one pass, one shuffle, no sorting.

One rule: a row says what records say; what to think of it is `balance`'s.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.types import ArrayType, LongType, StructField, StructType

from kestrelpy.spark.jobs import events as ev
from kestrelpy.spark.jobs.state import JournalState, pairs_of

# Beside the kinds of records: what is known of an item without them.
THERE: Final = 1000
BURIED: Final = 1001
_RUN_MAX: Final = 1 << 16  # ids written out at once
_FLUSHES = ArrayType(
    StructType(
        [
            StructField("lsn", LongType(), False),
            StructField("last", LongType(), False),
            StructField("ms", LongType(), False),
            StructField("spared", ArrayType(LongType(), False), False),
        ]
    )
)


@dataclass(frozen=True, slots=True)
class Flush:
    """A flush: everything up to item `last` was gone, but what was dead and `spared`."""

    jid: int
    lsn: int
    last: int
    ms: int
    spared: tuple[int, ...]


def there(spark: SparkSession, states: Iterable[tuple[int, JournalState]]) -> DataFrame:
    """What is there, by `state`, as rows that `fold` takes beside events."""
    jids, kinds, firsts, lasts = [], [], [], []
    for jid, state in states:
        rows = [(THERE, *run) for run in pairs_of(state.runs)]
        rows += [(BURIED, item, item) for item in state.dead]
        for kind, first, last in rows:
            for start in range(first, last + 1, _RUN_MAX):
                jids.append(jid)
                kinds.append(kind)
                firsts.append(start)
                lasts.append(min(start + _RUN_MAX - 1, last))
    table = pa.table(
        {
            "jid": pa.array(jids, pa.int64()),
            "kind": pa.array(kinds, pa.int32()),
            "first": pa.array(firsts, pa.int64()),
            "last": pa.array(lasts, pa.int64()),
        }
    )
    runs = spark.createDataFrame(table)
    return runs.select("jid", "kind", fn.explode(fn.sequence("first", "last")).alias("item"))


def fold(events: DataFrame, present: DataFrame | None = None) -> DataFrame:
    """One row for each item of the queue's own line, from `events.compact`."""
    wanted = events.where(
        fn.col("item").isNotNull() & ~fn.col("kind").isin(ev.FLUSH, ev.TOKENS) & ~fn.col("of_child")
    )
    columns = ("jid", "item", "kind", "lsn", "ms", "opened_ms", "before", "key_hash")
    rows = wanted.select(*columns)
    if present is not None:
        rows = rows.unionByName(present, allowMissingColumns=True)
    kind, lsn, ms = fn.col("kind"), fn.col("lsn"), fn.col("ms")
    is_end, is_delivery = kind.isin(*ev.ENDS), kind.isin(*ev.DELIVERIES)
    has_begun = is_delivery & (fn.col("opened_ms") > 0)
    ended_lsn = fn.when(has_begun, lsn)
    return rows.groupBy("jid", "item").agg(
        _count(kind == ev.PUT).alias("puts"),
        fn.min(fn.when(kind == ev.PUT, lsn)).alias("put_lsn"),
        fn.min(fn.when(kind == ev.PUT, ms)).alias("put_ms"),
        fn.max("key_hash").alias("key_hash"),
        _count(is_end).alias("ends"),
        _count(kind == ev.CONFIRM).alias("confirms"),
        fn.min(fn.when(is_end, lsn)).alias("end_lsn"),
        fn.min(fn.when(is_end, kind)).alias("end"),
        fn.max(fn.when(is_end, ms)).alias("end_ms"),
        _count(kind == ev.DEAD).alias("deads"),
        fn.max(fn.when(kind == ev.DEAD, lsn)).alias("dead_lsn"),
        fn.max(fn.when(kind == ev.REDRIVE, lsn)).alias("redrive_lsn"),
        fn.max(fn.when(kind.isin(ev.RETURN, ev.DEAD), lsn)).alias("back_lsn"),
        _count(has_begun).alias("deliveries"),
        fn.min(ended_lsn).alias("first_lsn"),
        fn.min_by("opened_ms", ended_lsn).alias("begin_ms"),
        fn.min_by("before", ended_lsn).alias("before"),
        fn.max((kind == THERE).cast("int")).alias("there"),
        fn.max((kind == BURIED).cast("int")).alias("buried"),
    )


def _count(condition: Column) -> Column:
    return fn.sum(condition.cast("int"))


def with_flushes(spark: SparkSession, items: DataFrame, flushes: Iterable[Flush]) -> DataFrame:
    """With `flushed_lsn` and `flushed_ms`: of the first flush that reached it; null: none did."""
    by_journal: dict[int, list[Flush]] = {}
    for flush in flushes:
        by_journal.setdefault(flush.jid, []).append(flush)
    if not by_journal:
        nothing = fn.lit(None).cast("bigint")
        return items.withColumn("flushed_lsn", nothing).withColumn("flushed_ms", nothing)
    rows = [
        (jid, [(f.lsn, f.last, f.ms, list(f.spared)) for f in sorted(each, key=_lsn)])
        for jid, each in by_journal.items()
    ]
    schema = StructType([StructField("jid", LongType()), StructField("flushes", _FLUSHES)])
    joined = items.join(fn.broadcast(spark.createDataFrame(rows, schema)), "jid", "left")
    item, dead, back = fn.col("item"), fn.col("dead_lsn"), fn.col("redrive_lsn")

    def reached(flush: Column) -> Column:
        was_dead = (dead < flush.lsn) & (back.isNull() | (back < dead) | (back > flush.lsn))
        spared = fn.array_contains(flush.spared, item)
        after = fn.col("put_lsn").isNull() | (flush.lsn > fn.col("put_lsn"))
        return (flush.last >= item) & ~spared & ~fn.coalesce(was_dead, fn.lit(False)) & after

    first = fn.get(fn.filter("flushes", reached), 0)
    return (
        joined.withColumn("flushed", first)
        .withColumn("flushed_lsn", fn.col("flushed.lsn"))
        .withColumn("flushed_ms", fn.col("flushed.ms"))
        .drop("flushed", "flushes")
    )


def _lsn(flush: Flush) -> int:
    return flush.lsn
