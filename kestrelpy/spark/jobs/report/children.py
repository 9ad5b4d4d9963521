"""Fan-out children as queues of their own in the tables of the report, like `orders+audit`.

    records of `orders`   put 1   put 2   confirm 1 (audit)   put 3 (audit)   upto 2 (audit)
    of the queue          put 1   put 2
    of the child          put 1   put 2   confirm 1           put 3           flush 2

An item for all readers is put for each child that existed and gets it. A confirm of all up to a
marker, or the removal of the child, becomes a flush: the items that it reached are gone.

One rule: this is used only if a journal names a child.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from journal.errors import ITEM_MAX
from journal.files import Disk
from journal.format import Kind
from kestrelpy.spark.files import PlannedJournal, children, passed_on
from kestrelpy.spark.jobs.common.baseline import JournalState, journals_in, pairs_of, read_states
from kestrelpy.spark.jobs.common.job import folders
from kestrelpy.spark.schema import OPS

# Columns of events that are read in addition to the job's own.
MORE: Final = ", journal string, reader_number bigint, number bigint"
_PUT, _DISCARD, _FLUSH, _UPTO, _NAME = (
    OPS[kind]
    for kind in (Kind.PUT, Kind.DISCARDED, Kind.FLUSHED, Kind.UPTO, Kind.READER)
)


def events_of_each(events: DataFrame, journals: Sequence[PlannedJournal]) -> DataFrame:
    """Return events (with the columns MORE) under each reader's own name; `reader` is null."""
    spark, columns = events.sparkSession, [c for c in events.columns if c not in _names(MORE)]
    named = [
        (j.identity.hex(), c.number, f"{j.queue}+{c.name}", c.named_lsn, c.floor,
         c.stopped_lsn or ITEM_MAX)
        for j in journals for c in children(j.reader_names)
    ]  # fmt: skip
    table = fn.broadcast(spark.createDataFrame(
        named, "journal string, child bigint, full string, named bigint, floor bigint, stop bigint"
    ))  # fmt: skip
    lsn, op, is_own = fn.col("lsn"), fn.col("op"), fn.col("reader_number") == 0
    own = _without_passed_on(events.where(is_own), journals)
    both = events.join(table, "journal").where((lsn > fn.col("named")) & (lsn <= fn.col("stop")))
    is_mine = ~is_own & (fn.col("reader_number") == fn.col("child"))
    is_mine &= (op != _NAME) | (lsn == fn.col("stop"))
    is_shared = is_own & (op == _PUT) & (fn.col("item") > fn.col("floor"))
    last = fn.when(op == _UPTO, fn.col("number")).when(op == _NAME, ITEM_MAX)
    of_children = (
        both.where(is_mine | is_shared)
        .withColumn("item", fn.coalesce(last, "item"))
        .withColumn("op", fn.when(op.isin(_UPTO, _NAME), _FLUSH).otherwise(op))
        .withColumn("queue", fn.col("full"))
        .withColumn("reader", fn.lit(None).cast("string"))
    )
    return own.select(columns).unionByName(of_children.select(columns))


def _names(columns: str) -> set[str]:
    return {each.split()[0] for each in columns.split(",") if each}


def _without_passed_on(own: DataFrame, journals: Sequence[PlannedJournal]) -> DataFrame:
    """Return the queue's events without items that were only for its children."""
    spans = [
        (j.identity.hex(), first, until or ITEM_MAX, floor)
        for j in journals for first, until, floor in passed_on(j.reader_names)
    ]  # fmt: skip
    if not spans:
        return own
    columns = "of string, first bigint, until bigint, floor bigint"
    table = own.sparkSession.createDataFrame(spans, columns)
    passed = (
        (fn.col("journal") == fn.col("of")) & fn.col("op").isin(_PUT, _DISCARD)
        & (fn.col("item") > fn.col("floor"))
        & (fn.col("lsn") > fn.col("first")) & (fn.col("lsn") < fn.col("until"))
    )  # fmt: skip
    return own.join(fn.broadcast(table), passed, "left_anti")


def items_of_children(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """Return the items of each child: `server, queue, generation, item, state`."""
    found = journals_in(Disk(), folders(paths))
    states: list[JournalState] = []
    if found:
        asked = spark.sparkContext.parallelize(found, len(found))
        states = asked.flatMap(read_states).collect()
    newest: dict[int, JournalState] = {}
    for state in states:
        if state.reader and state.lsn_last >= getattr(newest.get(state.jid), "lsn_last", 0):
            newest[state.jid] = state
    names = {jid: (s.server or None, s.queue, s.generation) for jid, s in newest.items()}
    runs = [
        (*names[jid], jid, low, high) for jid, s in newest.items() for low, high in pairs_of(s.runs)
    ]
    dead = [(jid, item) for jid, s in newest.items() for item in s.dead]
    there = spark.createDataFrame(
        runs, "server string, queue string, generation bigint, of bigint, low bigint, high bigint"
    ).withColumn("item", fn.explode(fn.sequence("low", "high")))  # fmt: skip
    dead_items = spark.createDataFrame(dead, "of bigint, item bigint")
    dead_items = dead_items.withColumn("state", fn.lit("dead"))
    return there.join(fn.broadcast(dead_items), ["of", "item"], "left").select(
        "server", "queue", "generation", "item",
        fn.coalesce("state", fn.lit("ready")).alias("state"),
    )  # fmt: skip
