"""One row for each item of which something is kept: what a report wants to know of it.

    jid                                which journal: a number made of server, queue, generation
    put_ms  opened_ms  confirmed_ms    when it was put, first delivered, last confirmed
    left_ms                            when it left the line: confirmed, dead, expired, flushed, ...
    state                              `ready`, `dead`: it is still there; null: it is not
    waiting  service                   put to first delivery, delivery to confirm; ms
    deliveries                         how many ended

Whoever left without a record of its own was flushed, if a later flush reached it; if none did, and
it is not there any more, its end is no longer kept: `left_ms` and `state` are null.

All of it are least and greatest numbers: one pass over the events, one shuffle, no sorting.

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

# Words as numbers, in the order of how often they are met: comparing is most of the work.
_OPS: Final = (
    "put", "confirm", "return", "dead", "expire", "discard", "move", "cancel", "flush",
)  # fmt: skip
PUT, CONFIRM, RETURN, DEAD, EXPIRE, DISCARD, MOVE, CANCEL, FLUSH = range(len(_OPS))
_DELIVERIES: Final = (CONFIRM, RETURN, DEAD, MOVE)  # each ends one
_LEAVES: Final = (CONFIRM, DEAD, EXPIRE, DISCARD, MOVE, CANCEL)


def compact(events: DataFrame) -> DataFrame:
    """Events of the queue's own line (a fan-out child's are not its own), as numbers.

    `number` says which delivery it was that an event ended.
    """
    kind = fn.col("kind")
    # Others than these say how many deliveries ended before it, they say how many with theirs.
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
    """A journal as a number: that of two is never the same, but by one chance in 10^12."""
    return fn.xxhash64(*JOURNAL)


def _number_of(op: Column) -> Column:
    found = fn.when(op == _OPS[0], 0)
    for number, word in enumerate(_OPS[1:], 1):
        found = found.when(op == word, number)
    return found.otherwise(-1)


def lives_of(events: DataFrame, items: DataFrame, ends: DataFrame, flushed: bool) -> DataFrame:
    """The rows, from `compact` events and from items with a `jid`.

    `ends` has `end_lsn` of each journal: its last record before the items were read. `flushed`: is
    there a flush among the events?
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
    lives = own.join(items.select("jid", "item", "state"), ["jid", "item"], "left")
    lives = lives.join(fn.broadcast(ends), "jid", "left")
    # What was put after the items had been read is there, for all that is known.
    is_new = fn.col("put_lsn") > fn.col("end_lsn")
    lives = lives.withColumn("state", fn.coalesce("state", fn.when(is_new, fn.lit("ready"))))
    lives = _with_flushes(lives, events) if flushed else lives.withColumn(
        "flushed_ms", fn.lit(None).cast("bigint")
    )
    waiting = fn.greatest(fn.col("opened_ms") - fn.col("put_ms"), fn.lit(0))
    return lives.select(
        "jid", "put_ms", "state", "deliveries", "opened_ms", "confirmed_ms",
        fn.coalesce("left_ms", "flushed_ms").alias("left_ms"),
        fn.col("flushed_ms").isNotNull().alias("is_flushed"),
        fn.when(fn.col("put_ms").isNotNull() & (fn.col("first_number") <= 1), waiting)
        .alias("waiting"),
        fn.greatest(fn.col("service"), fn.lit(0)).alias("service"),
    )  # fmt: skip


def _with_flushes(lives: DataFrame, events: DataFrame) -> DataFrame:
    """A flush spares what is lent; that has a later record, or is still there."""
    by_journal = events.where(fn.col("kind") == FLUSH).groupBy("jid").agg(
        fn.sort_array(fn.collect_list(fn.struct("lsn", "item", "at"))).alias("flushes")
    )  # fmt: skip
    reached = fn.filter(
        "flushes", lambda f: (f["lsn"] > fn.col("lsn")) & (f["item"] >= fn.col("item"))
    )
    is_gone = fn.col("left_ms").isNull() & fn.col("state").isNull()
    first = fn.when(is_gone, fn.try_element_at(reached, fn.lit(1))["at"])
    return lives.join(fn.broadcast(by_journal), "jid", "left").withColumn("flushed_ms", first)
