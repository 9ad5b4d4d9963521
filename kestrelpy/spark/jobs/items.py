"""One row for each item: what its records add up to.

    seen                 how many records of each sort there are, counted in one number: see `count`
    put_lsn, end_lsn     its put; the record after which it is gone, and `end`, of which kind
    first_lsn begin_ms   its first delivery: the record that ended it, and when it began
    before               how many deliveries the first of those says came before it
    dead_lsn             its death; a later `redrive_lsn` takes it back
    back_lsn             the last record that gave it back or buried it
    flushed_lsn          the first flush that reached it
    there, buried        what is said of it elsewhere (`state`): it is there, it is dead

All of it are sums, least and greatest of numbers, and those of kinds that do not occur are left
out: one pass, no sorting. Rows are brought together by blocks of items beforehand (`together`),
once for all that is asked of them.

One rule: a row says what records say; what to think of it is `balance`'s.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.types import ArrayType, LongType, StructField, StructType

from kestrelpy.spark.jobs import events as ev
from kestrelpy.spark.jobs.events import Flush
from kestrelpy.spark.jobs.state import JournalState, pairs_of

# Beside the kinds of records: what is known of an item without them.
THERE: Final = 1000
BURIED: Final = 1001
BLOCK_BITS: Final = 16  # items of one block lie together
_RUN_MAX: Final = 1 << BLOCK_BITS  # ids written out at once
# What `seen` counts, by the bit where each count begins; the last has room for any number.
_SEEN: Final = {"puts": 0, "confirms": 8, "ends": 16, "deads": 24, "there": 32, "buried": 33,
                "deliveries": 34}  # fmt: skip
_COUNT_MAX: Final = {"there": 1, "buried": 1, "deliveries": (1 << 29) - 1}
_COUNT_OF_FEW: Final = 255  # of a record that an item has once: so many are as wrong as more
_KIND_BITS: Final = 6  # an lsn and a kind in one number
_BEFORE_BITS: Final = 10  # and an lsn and a number of deliveries; so many, or more
_FLUSHES: Final = ArrayType(
    StructType(
        [
            StructField("lsn", LongType(), False),
            StructField("last", LongType(), False),
            StructField("ms", LongType(), False),
            StructField("spared", ArrayType(LongType(), False), False),
        ]
    )
)


def there(spark: SparkSession, states: Iterable[tuple[int, JournalState]]) -> DataFrame:
    """What is there, by `state`, as rows beside events."""
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
    ids = fn.explode(fn.sequence("first", "last")).alias("item")
    return runs.select("jid", "kind", ids, fn.lit(False).alias("of_child"))


def together(spark: SparkSession, rows: DataFrame) -> DataFrame:
    """Rows of items of one block in one place, so that nothing has to move any more."""
    parts = int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
    block = fn.shiftright(fn.coalesce("item", fn.lit(0).cast("bigint")), BLOCK_BITS)
    return rows.withColumn("block", block).repartition(parts, "jid", "block")


def count(name: str) -> Column:
    """How many there are, from `seen`."""
    most = _COUNT_MAX.get(name, _COUNT_OF_FEW)
    return fn.shiftright("seen", _SEEN[name]).bitwiseAND(fn.lit(most).cast("bigint"))


def fold(
    events: DataFrame, kinds: Collection[int], keyed: bool, *more: Column,
) -> DataFrame:  # fmt: skip
    """One row for each item of the queue's own line, from rows that are `together`.

    `kinds` are those that occur; `keyed`: some items have a key. `more` are further sums.
    """
    kind, lsn = fn.col("kind"), fn.col("lsn")
    wanted = events.where(
        fn.col("item").isNotNull() & ~kind.isin(ev.FLUSH, ev.TOKENS) & ~fn.col("of_child")
    )
    is_end = kind.isin(*ev.ENDS)
    has_begun = kind.isin(*ev.DELIVERIES) & (fn.col("opened_ms") > 0)
    ended_lsn = fn.when(has_begun, lsn)
    before = fn.least(fn.greatest("before", fn.lit(0)), fn.lit((1 << _BEFORE_BITS) - 1))
    nothing = fn.lit(None).cast("bigint")

    rows = wanted.groupBy("jid", "block", "item").agg(
        fn.sum(_seen(kind, is_end, has_begun)).alias("seen"),
        fn.min(fn.when(kind == ev.PUT, lsn)).alias("put_lsn"),
        fn.min(fn.when(is_end, fn.shiftleft(lsn, _KIND_BITS) + kind)).alias("end_and_kind"),
        fn.min(fn.shiftleft(ended_lsn, _BEFORE_BITS) + before).alias("first_and_before"),
        fn.min_by("opened_ms", ended_lsn).alias("begin_ms"),
        *_rare(kind, lsn, kinds, keyed),
        *more,
    )
    end, first = fn.col("end_and_kind"), fn.col("first_and_before")
    made = (
        rows.withColumn("end_lsn", fn.shiftright(end, _KIND_BITS))
        .withColumn("end", end.bitwiseAND((1 << _KIND_BITS) - 1))
        .withColumn("first_lsn", fn.shiftright(first, _BEFORE_BITS))
        .withColumn("before", first.bitwiseAND((1 << _BEFORE_BITS) - 1))
        .drop("end_and_kind", "first_and_before")
    )
    for name in ("dead_lsn", "redrive_lsn", "back_lsn", "key_hash"):
        if name not in made.columns:
            made = made.withColumn(name, nothing)
    return made


def _seen(kind: Column, is_end: Column, has_begun: Column) -> Column:
    """What one record adds to the counts of its item."""
    put, dead = fn.lit(1 << _SEEN["puts"]), fn.lit(1 << _SEEN["deads"])
    end, begun = fn.lit(1 << _SEEN["ends"]), fn.lit(1 << _SEEN["deliveries"])
    confirm = fn.lit(1 << _SEEN["confirms"])
    one = (
        fn.when(kind == ev.CONFIRM, confirm + end)
        .when(kind == ev.PUT, put)
        .when(kind == ev.DEAD, dead)
        .when(kind == THERE, fn.lit(1 << _SEEN["there"]))
        .when(kind == BURIED, fn.lit(1 << _SEEN["buried"]))
        .when(is_end, end)
        .otherwise(0)
    )
    return one.cast("bigint") + fn.when(has_begun, begun).otherwise(0).cast("bigint")


def _rare(kind: Column, lsn: Column, kinds: Collection[int], keyed: bool) -> list[Column]:
    """Sums that many journals have no use for."""
    made = [fn.max("key_hash").alias("key_hash")] if keyed else []
    if ev.DEAD in kinds:
        made.append(fn.max(fn.when(kind == ev.DEAD, lsn)).alias("dead_lsn"))
    if ev.REDRIVE in kinds:
        made.append(fn.max(fn.when(kind == ev.REDRIVE, lsn)).alias("redrive_lsn"))
    if {ev.DEAD, ev.RETURN}.intersection(kinds):
        back = kind.isin(ev.RETURN, ev.DEAD)
        made.append(fn.max(fn.when(back, lsn)).alias("back_lsn"))
    return made


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
