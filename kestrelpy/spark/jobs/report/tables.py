"""The tables of a report: events and items of each reader, and one row for each item.

A fan-out child becomes a queue of its own, like `orders+audit`; only a report on journals that name
a child needs that.

    records of `orders`   put 1   put 2   confirm 1 (audit)   put 3 (audit)   upto 2 (audit)
    of the queue          put 1   put 2
    of the child          put 1   put 2   confirm 1           put 3           flush 2

An item for all readers is put for each child that existed and gets it. A confirm of all up to a
marker, or the removal of the child, becomes a flush: the items that it reached are gone.

The row of an item:

    jid                                the journal: a number made of server, queue, generation
    put_ms  opened_ms  confirmed_ms    when it was put, first delivered, last confirmed
    left_ms                            when it left: confirmed, dead, expired, flushed, ...
    state                              `ready`, `dead`: it is still there; null: it is not
    waiting  service                   put to first delivery, delivery to confirm; ms
    deliveries                         how many ended

An item that left without a record of its own was flushed if a later flush reached it. If none did,
and it is not there, its end is in a segment that is gone: `left_ms` and `state` are null.

All columns are least and greatest numbers: one pass over the events, one shuffle, no sorting.

One rule: a value that is not known is null, and not guessed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as fn

from journal.errors import ITEM_MAX
from journal.files import Disk
from journal.format import ENDS_DELIVERY, Effect, Kind, kinds_with
from kestrelpy.spark.files import PlannedJournal, children, passed_on
from kestrelpy.spark.jobs.common.baseline import JournalState, journals_in, pairs_of, read_states
from kestrelpy.spark.jobs.common.job import folders
from kestrelpy.spark.schema import OPS

# Columns of events that are read in addition to the job's own.
MORE: Final = ", journal string, reader_number bigint, number bigint"
_PUT_WORD, _DISCARD_WORD, _FLUSH_WORD, _UPTO_WORD, _NAME_WORD = (
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
    is_mine &= (op != _NAME_WORD) | (lsn == fn.col("stop"))
    is_shared = is_own & (op == _PUT_WORD) & (fn.col("item") > fn.col("floor"))
    last = fn.when(op == _UPTO_WORD, fn.col("number")).when(op == _NAME_WORD, ITEM_MAX)
    of_children = (
        both.where(is_mine | is_shared)
        .withColumn("item", fn.coalesce(last, "item"))
        .withColumn("op", fn.when(op.isin(_UPTO_WORD, _NAME_WORD), _FLUSH_WORD).otherwise(op))
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
        (fn.col("journal") == fn.col("of")) & fn.col("op").isin(_PUT_WORD, _DISCARD_WORD)
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


# The columns of both tables; bodies are not read.
EVENTS: Final = (
    "server string, queue string, generation bigint, item bigint, lsn bigint, op string, "
    "timestamp timestamp, reader string, opened timestamp, attempts int, reason string"
)
ITEMS: Final = "server string, queue string, generation bigint, item bigint, state string"
JOURNAL: Final = ("server", "queue", "generation")

# Words as numbers, the most frequent first: comparisons are most of the work.
_OPS: Final = (
    "put", "confirm", "return", "dead", "expire", "discard", "move", "cancel", "flush",
)  # fmt: skip
PUT, CONFIRM, RETURN, DEAD, EXPIRE, DISCARD, MOVE, CANCEL, FLUSH = range(len(_OPS))
_DELIVERIES: Final = tuple(_OPS.index(OPS[kind]) for kind in ENDS_DELIVERY)
_LEAVES: Final = tuple(_OPS.index(OPS[kind]) for kind in kinds_with(Effect.END, Effect.DIE))


def compact(events: DataFrame) -> DataFrame:
    """Return the queue's own events, without those of fan-out children, as numbers.

    `number`: the number of the delivery that an event ended.
    """
    kind = fn.col("kind")
    # `attempts` of these includes the delivery that they end; `attempts` of others does not.
    number = fn.col("attempts") + fn.when(kind.isin(RETURN, DEAD), 0).otherwise(1)
    return (
        events.where(fn.col("reader").isNull())
        .select(
            *JOURNAL, jid().alias("jid"), "item", "lsn", _number_of(fn.col("op")).alias("kind"),
            fn.unix_millis("timestamp").alias("at"), fn.unix_millis("opened").alias("opened"),
            "attempts", fn.when(fn.col("op") == "dead", fn.col("reason")).alias("reason"),
        )
        .withColumn("number", number)
    )  # fmt: skip


def jid() -> Column:
    """Return a journal as a number: two journals share one with a chance of 1 in 10^12."""
    return fn.xxhash64(*JOURNAL)


def _number_of(op: Column) -> Column:
    found = fn.when(op == _OPS[0], 0)
    for number, word in enumerate(_OPS[1:], 1):
        found = found.when(op == word, number)
    return found.otherwise(-1)


def item_rows_of(events: DataFrame, items: DataFrame, ends: DataFrame, flushed: bool) -> DataFrame:
    """Return the rows, from `compact` events and from items with a `jid`.

    `ends` has `end_lsn` of each journal: its last record before the items were read. `flushed`:
    true if there is a flush among the events.
    """
    kind, at, opened = fn.col("kind"), fn.col("at"), fn.col("opened")
    own = events.where(fn.col("item").isNotNull() & kind.between(PUT, CANCEL)).groupBy(
        "jid", "item"
    ).agg(
        fn.min(fn.when(kind == PUT, at)).alias("put_ms"),
        fn.min(fn.when(kind == PUT, fn.col("lsn"))).alias("put_lsn"),
        fn.min(opened).alias("opened_ms"),
        fn.min(fn.when(kind.isin(*_DELIVERIES), fn.col("number"))).alias("first_number"),
        fn.min(fn.when(kind.isin(*_LEAVES), at)).alias("left_ms"),
        fn.max(fn.when(kind == CONFIRM, at)).alias("confirmed_ms"),
        fn.max(fn.when(kind == CONFIRM, at - opened)).alias("service"),
        fn.count(fn.when(kind.isin(*_DELIVERIES), opened)).alias("deliveries"),
        fn.max("lsn").alias("lsn"),
    )  # fmt: skip
    table = own.join(items.select("jid", "item", "state"), ["jid", "item"], "left")
    table = table.join(fn.broadcast(ends), "jid", "left")
    # An item that was put after the items were read counts as there.
    is_new = fn.col("put_lsn") > fn.col("end_lsn")
    table = table.withColumn("state", fn.coalesce("state", fn.when(is_new, fn.lit("ready"))))
    table = _with_flushes(table, events) if flushed else table.withColumn(
        "flushed_ms", fn.lit(None).cast("bigint")
    )
    waiting = fn.greatest(fn.col("opened_ms") - fn.col("put_ms"), fn.lit(0))
    return table.select(
        "jid", "put_ms", "state", "deliveries", "opened_ms", "confirmed_ms",
        fn.coalesce("left_ms", "flushed_ms").alias("left_ms"),
        fn.col("flushed_ms").isNotNull().alias("is_flushed"),
        fn.when(fn.col("put_ms").isNotNull() & (fn.col("first_number") <= 1), waiting)
        .alias("waiting"),
        fn.greatest(fn.col("service"), fn.lit(0)).alias("service"),
    )  # fmt: skip


def _with_flushes(table: DataFrame, events: DataFrame) -> DataFrame:
    """Add `flushed_ms`. A flush spares leased items; these have a later record or are there."""
    by_journal = events.where(fn.col("kind") == FLUSH).groupBy("jid").agg(
        fn.sort_array(fn.collect_list(fn.struct("lsn", "item", "at"))).alias("flushes")
    )  # fmt: skip
    reached = fn.filter(
        "flushes", lambda f: (f["lsn"] > fn.col("lsn")) & (f["item"] >= fn.col("item"))
    )
    is_gone = fn.col("left_ms").isNull() & fn.col("state").isNull()
    first = fn.when(is_gone, fn.try_element_at(reached, fn.lit(1))["at"])
    return table.join(fn.broadcast(by_journal), "jid", "left").withColumn("flushed_ms", first)
