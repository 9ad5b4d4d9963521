"""One row for each item with a record, for the report.

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

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from journal.format import ENDS_DELIVERY, Effect, kinds_with
from kestrelpy.spark.schema import OPS

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
