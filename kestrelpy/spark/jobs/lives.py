"""One row for each item of which something is kept: what a report wants to know of it.

    put_ms  opened_ms  confirmed_ms    when it was put, first delivered, last confirmed
    left_ms                            when it left the line: confirmed, dead, expired, flushed, ...
    state                              `ready`, `dead`: it is still there; null: it is not
    waiting  service                   put to first delivery, delivery to confirm; ms
    deliveries                         how many ended

Whoever left without a record of its own was flushed, if a later flush reached it; if none did, and
it is not there any more, its end is no longer kept: `left_ms` and `state` are null.

One rule: what is not known is null, and not guessed.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

# What is read of both tables; the bodies are not.
EVENTS: Final = (
    "server string, queue string, generation bigint, item bigint, lsn bigint, op string, "
    "timestamp timestamp, reader string, opened timestamp, attempts int, reason string"
)
ITEMS: Final = "server string, queue string, generation bigint, item bigint, state string"

JOURNAL: Final = ("server", "queue", "generation")
_ITEM: Final = (*JOURNAL, "item")
_DELIVERIES: Final = ("confirm", "return", "dead", "move")  # each ends one
_LEAVES: Final = ("confirm", "dead", "expire", "discard", "cancel", "move")


def ms_of(column: str) -> Column:
    """A time as milliseconds since 1970."""
    return fn.unix_millis(fn.col(column))


def lives_of(events: DataFrame, items: DataFrame, known: DataFrame) -> DataFrame:
    """The rows, from tables with the columns EVENTS and ITEMS.

    `known` has `end_lsn` of each journal: its last record before the items were read.
    """
    op, at, opened = fn.col("op"), ms_of("timestamp"), ms_of("opened")
    # Others than these say how many deliveries ended before it, they say how many with theirs.
    number = fn.col("attempts") + fn.when(op.isin("return", "dead"), 0).otherwise(1)
    own = events.where(fn.col("item").isNotNull() & (op != "flush")).groupBy(*_ITEM).agg(
        fn.min(fn.when(op == "put", at)).alias("put_ms"),
        fn.min(fn.when(op == "put", fn.col("lsn"))).alias("put_lsn"),
        fn.min(opened).alias("opened_ms"),
        fn.min(fn.when(op.isin(*_DELIVERIES), number)).alias("first_number"),
        fn.min(fn.when(op.isin(*_LEAVES), at)).alias("left_ms"),
        fn.max(fn.when(op == "confirm", fn.struct(at.alias("at"), (at - opened).alias("ms"))))
        .alias("confirm"),
        fn.count(fn.when(op.isin(*_DELIVERIES), opened)).alias("deliveries"),
        fn.max("lsn").alias("lsn"),
    )  # fmt: skip
    flushes = events.where(op == "flush").groupBy(*JOURNAL).agg(
        fn.sort_array(fn.collect_list(fn.struct("lsn", "item", at.alias("at")))).alias("flushes")
    )  # fmt: skip
    lives = (
        own.join(items.select(*_ITEM, "state"), list(_ITEM), "left")
        .join(fn.broadcast(flushes), list(JOURNAL), "left")
        .join(known, list(JOURNAL), "left")
    )
    # What was put after the items had been read is there, for all that is known.
    is_new = fn.col("put_lsn") > fn.col("end_lsn")
    lives = lives.withColumn("state", fn.coalesce("state", fn.when(is_new, fn.lit("ready"))))
    # A flush spares what is lent; that has a later record, or is still there.
    reached = fn.filter(
        "flushes", lambda f: (f["lsn"] > fn.col("lsn")) & (f["item"] >= fn.col("item"))
    )
    is_gone = fn.col("left_ms").isNull() & fn.col("state").isNull()
    flushed = fn.when(is_gone, fn.try_element_at(reached, fn.lit(1))["at"])
    waiting = fn.greatest(fn.col("opened_ms") - fn.col("put_ms"), fn.lit(0))
    return lives.select(
        "server", "queue", "put_ms", "state", "deliveries", "opened_ms",
        fn.coalesce("left_ms", flushed).alias("left_ms"),
        flushed.isNotNull().alias("is_flushed"),
        fn.when(fn.col("put_ms").isNotNull() & (fn.col("first_number") <= 1), waiting)
        .alias("waiting"),
        fn.col("confirm.at").alias("confirmed_ms"),
        fn.greatest(fn.col("confirm.ms"), fn.lit(0)).alias("service"),
    )  # fmt: skip
