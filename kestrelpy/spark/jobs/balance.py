"""The books of a journal: what came in, what became of it, and whether that adds up.

    opening + stored = confirmed + expired + moved + cancelled + discarded + flushed + dead + there
    └ a checkpoint's count     └ records, item by item                          └ a start's state

Both ends come from elsewhere than the records between them. Beside the sum, every item has to make
sense by itself: what is wrong with one is a `Wrong`, and which items, a list.

Only behind `unbroken_lsn` are all records kept. What was put before that may have ended where
nothing is kept any more: it counts in the opening, not by itself.

One rule: what cannot be known is said to be unknown, and is no breach.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as fn

from journal.record import Kind
from kestrelpy.spark.jobs import events as ev
from kestrelpy.spark.jobs.items import count

# The sides of the books, by the kind of record that ends an item.
ENDED: Final[dict[str, int]] = {
    "confirmed": ev.CONFIRM,
    "expired": ev.EXPIRE,
    "moved": ev.MOVE,
    "cancelled": ev.CANCEL,
    "discarded": ev.DISCARD,
}


class Wrong(IntEnum):
    """What cannot be with an item; of several the first. The text is for people."""

    CONFIRMED_TWICE = 1
    ENDED_TWICE = 2
    PUT_TWICE = 3
    LOST = 4
    NO_PUT = 5
    PUT_LOST = 6
    NEVER_PUT = 7
    BEFORE_ITS_PUT = 8
    AFTER_ITS_END = 9
    THERE_ALTHOUGH_ENDED = 10
    DEATH_UNCLEAR = 11

    @property
    def list(self) -> str:
        """The list it stands in."""
        if self in (Wrong.CONFIRMED_TWICE, Wrong.ENDED_TWICE):
            return "twice"
        return "missing" if self in (Wrong.LOST, Wrong.NO_PUT, Wrong.PUT_LOST) else "phantom"

    @property
    def text(self) -> str:
        """What it means."""
        return _TEXTS[self]


_TEXTS: Final = {
    Wrong.CONFIRMED_TWICE: "was confirmed more than once",
    Wrong.ENDED_TWICE: "ended more than once",
    Wrong.PUT_TWICE: "was put more than once under one number",
    Wrong.LOST: "was stored, and neither ended nor is it there",
    Wrong.NO_PUT: "is there, and its put is not in the journal",
    Wrong.PUT_LOST: "was delivered or ended, and its put is missing",
    Wrong.NEVER_PUT: "was delivered or ended, and was never put",
    Wrong.BEFORE_ITS_PUT: "was delivered or ended before it was put",
    Wrong.AFTER_ITS_END: "was given back, died or was flushed although it had ended",
    Wrong.THERE_ALTHOUGH_ENDED: "is there although it ended",
    Wrong.DEATH_UNCLEAR: "is dead by its records or by the state, and not by both",
}


@dataclass(frozen=True, slots=True)
class Basis:
    """What is known of a journal before its items are looked at.

    `opening` items were there as of `as_of` (None: nobody says how many), all below `id_from` (0:
    not known); `has_lost`: records are missing that should be there; `flushed_lsns`: of its
    flushes.
    """

    jid: int
    unbroken_lsn: int
    as_of: int
    opening: int | None
    id_from: int
    has_lost: bool
    flushed_lsns: tuple[int, ...] = ()


@dataclass(slots=True)
class Books:
    """The sums of one journal. `difference` is 0 where they add up, None where nobody can tell."""

    opening: int | None = None
    stored: int = 0
    ended: dict[str, int] = field(default_factory=lambda: dict.fromkeys(ENDED, 0))
    flushed: int = 0
    dead: int = 0
    there: int = 0
    flushed_unseen: int = 0  # of the opening: flushed, and their puts are not kept
    delivered: int = 0  # items, of those whose whole life is kept or not
    deliveries: int = 0
    delivered_once: int = 0
    repeated: int = 0  # deliveries beyond the first of an item
    unrecorded: int = 0  # deliveries that a later one knows of, without a record
    wrong: dict[Wrong, int] = field(default_factory=dict)

    @property
    def difference(self) -> int | None:
        """What came in and became nothing; below 0: what is there and never came in."""
        if self.opening is None:
            return None
        went = sum(self.ended.values()) + self.flushed + self.flushed_unseen
        return self.opening + self.stored - went - self.dead - self.there


def judged(spark: SparkSession, items: DataFrame, bases: Iterable[Basis]) -> DataFrame:
    """Items (`items.with_flushes`) with `wrong`, a number of Wrong or 0, and their basis' lsns."""
    rows = [(b.jid, b.unbroken_lsn, b.as_of, b.id_from or None, b.has_lost) for b in bases]
    schema = "jid bigint, unbroken_lsn bigint, as_of bigint, id_from bigint, has_lost boolean"
    known = fn.broadcast(spark.createDataFrame(rows, schema))
    return items.join(known, "jid").withColumn("wrong", _wrong()).drop("has_lost", "id_from")


def _wrong() -> Column:
    put, end, back = fn.col("put_lsn"), fn.col("end_lsn"), fn.col("back_lsn")
    flushed, there, buried = fn.col("flushed_lsn"), count("there") == 1, count("buried") == 1
    whole = fn.coalesce(put >= fn.col("unbroken_lsn"), fn.lit(False))
    redriven = fn.coalesce(fn.col("redrive_lsn") > fn.col("dead_lsn"), fn.lit(False))
    died = (count("deads") > 0) & ~redriven
    ended = count("ends") > 0
    # Opened and given back, or ended: something that only an item can do that was put.
    lived = end.isNotNull() | back.isNotNull()
    from_here = fn.coalesce(fn.col("item") >= fn.col("id_from"), fn.lit(False))
    reached = flushed.isNotNull() & whole
    cases = (
        (Wrong.CONFIRMED_TWICE, count("confirms") > 1),
        (Wrong.ENDED_TWICE, count("ends") > 1),
        (Wrong.PUT_TWICE, count("puts") > 1),
        (Wrong.LOST, whole & ~ended & flushed.isNull() & ~there),
        (Wrong.NO_PUT, there & (count("puts") == 0)),
        (Wrong.PUT_LOST, (count("puts") == 0) & lived & from_here & fn.col("has_lost")),
        (Wrong.NEVER_PUT, (count("puts") == 0) & lived & from_here),
        (Wrong.BEFORE_ITS_PUT, fn.least(end, back) < put),
        (Wrong.AFTER_ITS_END, whole & ((back > end) | (flushed < fn.greatest(end, back)))),
        (Wrong.THERE_ALTHOUGH_ENDED, there & (ended | (reached & ~buried))),
        (Wrong.DEATH_UNCLEAR, whole & there & (died != buried)),
    )
    found = fn.when(fn.lit(False), 0)
    for wrong, condition in cases:
        found = found.when(condition, int(wrong))
    return found.otherwise(0)


def books(items: DataFrame, bases: Iterable[Basis]) -> dict[int, Books]:
    """The sums of every journal, by jid, from `judged` items."""
    by_jid = {basis.jid: basis for basis in bases}
    found = {jid: Books(opening=basis.opening) for jid, basis in by_jid.items()}
    as_of = fn.col("as_of")
    there, buried = count("there") == 1, count("buried") == 1
    deliveries = count("deliveries")
    sums = {
        "stored": fn.col("put_lsn") > as_of,
        "flushed": (count("ends") == 0) & ~there & (fn.col("flushed_lsn") > as_of),
        "dead": there & buried,
        "there": there & ~buried,
        "delivered": deliveries > 0,
        "delivered_once": (deliveries == 1) & (fn.col("before") == 0),
    }
    totals = [_sum(condition).alias(name) for name, condition in sums.items()]
    totals += [
        _sum((fn.col("end") == kind) & (fn.col("end_lsn") > as_of)).alias(name)
        for name, kind in ENDED.items()
    ]
    more = fn.greatest(deliveries - 1, fn.lit(0))
    rows = items.groupBy("jid").agg(
        *totals,
        fn.sum(deliveries).alias("deliveries"),
        fn.sum(more).alias("repeated"),
        fn.sum(fn.greatest(fn.col("before"), fn.lit(0))).alias("unrecorded"),
        *(_sum(fn.col("wrong") == int(each)).alias(each.name) for each in Wrong),
    )
    for row in rows.collect():
        made = found[row.jid]
        for name in (*sums, "deliveries", "repeated", "unrecorded"):
            setattr(made, name, row[name] or 0)
        made.ended = {name: row[name] or 0 for name in ENDED}
        made.wrong = {each: row[each.name] for each in Wrong if row[each.name]}
        _note_flushed(made, by_jid[row.jid])
    return found


def _note_flushed(made: Books, basis: Basis) -> None:
    """Of the opening, what a flush ended has no put any more that would tell its number."""
    left = made.difference
    if left and left > 0 and made.opening and max(basis.flushed_lsns, default=0) > basis.as_of:
        named = made.wrong.get(Wrong.LOST, 0)
        made.flushed_unseen = max(min(left - named, made.opening), 0)


def _sum(condition: Column) -> Column:
    return fn.coalesce(fn.sum(condition.cast("int")), fn.lit(0))


assert set(ENDED.values()) == set(ev.ENDS)
assert Kind.DONE == ev.CONFIRM
