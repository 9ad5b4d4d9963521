"""Checks of order: items are first delivered in the order of their markers.

    marker        1     2     3     4     5
    first opened  0     3     9     4     5        3 was opened after 4 and 5

A late first delivery has one of these explanations, or is a breach:

    restart   a crash ended the real first delivery, which left no record. A delivery after a start
              comes after a TOKENS record, because a start reserves tokens anew. A lease by token
              that goes on over the restart belongs to the time before it
    clock     the wall clock was set back: times before and after are not comparable
    close     the two deliveries are within the smallest step of the daemon's wall clock, and the
              journal has too few records to show whether the clock made that step

Keys: the queue skips an item whose key is leased, so items with a key have an order of their own.
(A KNOWN FLAW: with `key_match = "any"` items that share one value of several are not compared.)

An item that was delayed before its first delivery has a later place than its number, and is not
compared.

One rule: an explained swap is counted and shown; only one without an explanation is a breach.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from pyspark.sql import DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as fn

from kestrelpy.spark.jobs.common import events as ev

# The daemon follows the wall clock in steps of this size (`server.clock`).
CLOCK_STEP_MS: Final = 10
# This many records around two deliveries would show a step of the clock between them.
_DENSE_RECORDS: Final = 20
# Only a delivery that began this long after a step of the clock surely began after it.
_STEP_MARGIN_MS: Final = 1000
_CLOSE_MAX: Final = 10_000  # swaps that are checked one by one
_BEFORE: Final = (Window.unboundedPreceding, -1)


@dataclass(slots=True)
class OrderFindings:
    """The order in one journal. Counts are of items (gaps: of ids), lists are examples."""

    checked: int = 0
    swapped: int = 0
    restart: int = 0
    clock: int = 0
    close: int = 0
    puts_swapped: int = 0
    overlaps: int = 0
    gaps: list[tuple[int, int]] = field(default_factory=list)
    examples: list[str] = field(default_factory=list)

    @property
    def breaches(self) -> int:
        """How many breaches there are."""
        return self.swapped + self.puts_swapped + self.overlaps


def check_order(
    spark: SparkSession, blocks: Sequence[Row], events: DataFrame, items: DataFrame, keyed: bool,
    examples: int,
) -> dict[int, OrderFindings]:  # fmt: skip
    """Check every journal; `blocks` and `items` are those of `checked`, `events` are records."""
    found: dict[int, OrderFindings] = defaultdict(OrderFindings)
    firsts = items.where("is_first")
    suspects = _walk(spark, blocks, items, found, examples)
    if keyed:
        late = _late(firsts, ("jid", "key_hash")).groupBy("jid").count()
        suspects = {row.jid: row["count"] for row in late.collect()}
    if suspects:
        _check_firsts(spark, events, firsts, suspects, found, examples)
    if keyed:
        _check_overlaps(spark, events, items, found, "key_hash", examples)
    if any(block.overlaps for block in blocks):
        again = items.where("overlaps > 0")
        _check_overlaps(spark, events, again, found, "item", examples)
    return dict(found)


# -- in the order of items ------------------------------------------------------------------------


def _walk(
    spark: SparkSession, blocks: Sequence[Row], items: DataFrame, found: dict[int, OrderFindings],
    examples: int,
) -> dict[int, int]:  # fmt: skip
    """Check that markers rise with the log without gaps, and that first deliveries follow them.

    Blocks are compared with the blocks before them; single items only if a block does not follow.
    Return the journals in which items were opened before one of a lower marker, and how many.
    """
    earlier, latest = [], dict[int, int]()
    is_late = False
    for row in blocks:
        found[row.jid].checked += row.checked
        before_ms = latest.get(row.jid, 0)
        earlier.append((row.jid, row.block, before_ms))
        if row.checked:
            is_late |= row.late > 0 or row.earliest_ms < before_ms
            latest[row.jid] = max(before_ms, row.latest_ms)
    pairs = []
    if any(row.odd_puts for row in blocks):
        rows = items.where("is_odd_put").orderBy("jid", "item").limit(_CLOSE_MAX).collect()
        pairs = [(r.jid, r.item_before, r.lsn_before, r.item, r.put_lsn) for r in rows]
    whole = [row for row in blocks if row["first"] is not None]
    pairs += [
        (b.jid, a["last"], a.last_lsn, b["first"], b.first_lsn)
        for a, b in itertools.pairwise(whole)
        if a.jid == b.jid
    ]
    _note_puts(pairs, found, examples)
    if not is_late:
        return {}
    known = spark.createDataFrame(earlier, "jid bigint, block bigint, earlier_ms bigint")
    walked = items.where("is_first").join(fn.broadcast(known), ["jid", "block"])
    late = walked.where(fn.col("begin_ms") < fn.greatest("latest_ms", "earlier_ms"))
    return {row.jid: row["count"] for row in late.groupBy("jid").count().collect()}


def _note_puts(
    pairs: list[tuple[int, int, int, int, int]], found: dict[int, OrderFindings], examples: int
) -> None:
    """Note consecutive items with a gap between them, or with puts in the wrong order."""
    for jid, item_before, lsn_before, item, put_lsn in sorted(pairs):
        order = found[jid]
        if item > item_before + 1:
            order.gaps.append((item_before + 1, item - 1))
        if put_lsn < lsn_before:
            order.puts_swapped += 1
            _add_example(order, examples, f"item {item} was put (lsn {put_lsn}) before item "
                                   f"{item_before} (lsn {lsn_before})")  # fmt: skip


# -- first deliveries ---------------------------------------------------------------------------


def _check_firsts(
    spark: SparkSession, events: DataFrame, firsts: DataFrame, suspects: dict[int, int],
    found: dict[int, OrderFindings], examples: int,
) -> None:  # fmt: skip
    marked = _with_starts(spark, events, firsts.where(fn.col("jid").isin(list(suspects))), suspects)
    unsure = marked.where("unsure").groupBy("jid").count().collect()
    sure = marked.where("not unsure")
    swaps = _late(sure, ("jid", "key_hash", "life", "clock")).cache()
    close = _close_swaps(spark, events, swaps)
    swapped: dict[int, int] = defaultdict(int)
    for row in swaps.orderBy("jid", "item").limit(_CLOSE_MAX).collect():
        if (row.jid, row.item) in close:
            found[row.jid].close += 1
            continue
        _add_example(found[row.jid], examples, f"item {row.item} was first opened "
              f"{row.latest_ms - row.begin_ms} ms before an item with a lower marker")  # fmt: skip
    for row in swaps.groupBy("jid").count().collect():
        swapped[row.jid] = row["count"]
    swaps.unpersist()
    for row in unsure:
        found[row.jid].clock = row["count"]
    for jid, late_ones in suspects.items():
        order = found[jid]
        order.swapped = swapped[jid] - order.close
        order.restart = max(late_ones - swapped[jid] - order.clock, 0)


def _late(firsts: DataFrame, within: tuple[str, ...]) -> DataFrame:
    """Return items that were opened before one of a lower marker."""
    before = Window.partitionBy(*within).orderBy("item").rowsBetween(*_BEFORE)
    latest = firsts.withColumn("latest_ms", fn.max("begin_ms").over(before))
    return latest.where(fn.col("begin_ms") < fn.col("latest_ms"))


def _with_starts(
    spark: SparkSession, events: DataFrame, rows: DataFrame, jids: Iterable[int]
) -> DataFrame:
    """Add `life` (how many starts came before) and `clock` (how often it had been set back).

    `unsure`: begun at a time that the wall clock showed twice.
    """
    wanted = events.where(fn.col("jid").isin(list(jids)) & ~fn.col("of_child"))
    starts = wanted.where(fn.col("kind") == ev.TOKENS).select(
        "jid", fn.col("lsn").alias("begin_lsn"), fn.lit(1).alias("start"),
        fn.lit(None).cast("bigint").alias("back_from_ms"),
    )  # fmt: skip
    by_lsn = Window.partitionBy("jid").orderBy("lsn")
    timed = wanted.where(fn.col("segment") > 0)  # other facts have no time
    steps = timed.select("jid", "lsn", "ms", fn.lag("ms").over(by_lsn).alias("ms_before"))
    steps = steps.where(fn.col("ms") < fn.col("ms_before")).select(
        "jid", fn.col("lsn").alias("begin_lsn"), fn.lit(0).alias("start"),
        fn.col("ms_before").alias("back_from_ms"),
    )  # fmt: skip
    together = rows.withColumn("start", fn.lit(0)).withColumn(
        "back_from_ms", fn.lit(None).cast("bigint")
    )
    for moments in (starts, steps):
        together = together.unionByName(moments, allowMissingColumns=True)
    so_far = (
        Window.partitionBy("jid")
        .orderBy("begin_lsn", fn.col("item").asc_nulls_first())
        .rowsBetween(Window.unboundedPreceding, 0)
    )
    from_ms = fn.max("back_from_ms").over(so_far)
    return (
        together.withColumn("life", fn.sum("start").over(so_far))
        .withColumn("clock", fn.count("back_from_ms").over(so_far))
        .withColumn("from_ms", from_ms)
        .where(fn.col("item").isNotNull())
        .withColumn(
            "unsure",
            fn.coalesce(fn.col("begin_ms") <= fn.col("from_ms") + _STEP_MARGIN_MS, fn.lit(False)),
        )
    )


def _close_swaps(spark: SparkSession, events: DataFrame, swaps: DataFrame) -> set[tuple[int, int]]:
    """Return the swaps that a step of the clock may explain though no record shows it."""
    near = swaps.where(fn.col("latest_ms") - fn.col("begin_ms") <= CLOCK_STEP_MS)
    rows: list[Row] = near.orderBy("jid", "item").limit(_CLOSE_MAX).collect()
    if not rows:
        return set()
    spans = spark.createDataFrame(
        [(r.jid, r.item, r.begin_ms - CLOCK_STEP_MS, r.latest_ms + CLOCK_STEP_MS) for r in rows],
        "jid bigint, item bigint, from_ms bigint, to_ms bigint",
    )
    moments = spans.select("jid", "item", fn.explode(fn.sequence("from_ms", "to_ms")).alias("ms"))
    at = events.select("jid", "ms").join(fn.broadcast(moments), ["jid", "ms"])
    dense = at.groupBy("jid", "item").count().where(fn.col("count") >= _DENSE_RECORDS).collect()
    return {(r.jid, r.item) for r in rows} - {(r.jid, r.item) for r in dense}


# -- one lease at a time --------------------------------------------------------------------------


def _check_overlaps(
    spark: SparkSession, events: DataFrame, of: DataFrame, found: dict[int, OrderFindings],
    held: str,
    examples: int,
) -> None:  # fmt: skip
    """Check that no item, and no two items of one key, had two leases at once."""
    leases = events.where(fn.col("kind").isin(*ev.DELIVERIES) & (fn.col("opened_ms") > 0))
    leases = leases.where(~fn.col("of_child")).select("jid", "item", "lsn", "opened_ms", "ms")
    keys = of.select("jid", "item", fn.col("key_hash").alias("key_of"), "unbroken_lsn")
    leases = leases.join(keys, ["jid", "item"]).withColumnRenamed("key_of", "key_hash")
    leases = leases.where(fn.col("lsn") >= fn.col("unbroken_lsn"))
    if held == "key_hash":
        leases = leases.where(fn.col("key_hash").isNotNull())
    in_turn = Window.partitionBy("jid", held).orderBy("lsn").rowsBetween(*_BEFORE)
    until = fn.max(fn.struct("ms", "item", "lsn")).over(in_turn)
    both = leases.withColumn("until", until).where(fn.col("opened_ms") < fn.col("until.ms"))
    both = both.withColumn("begin_lsn", fn.col("lsn")).withColumn("begin_ms", fn.col("opened_ms"))
    jids = [row.jid for row in both.select("jid").distinct().collect()]
    if not jids:
        return
    marked = _with_starts(spark, events, both, jids)
    for row in marked.groupBy("jid", "unsure").count().collect():
        if row.unsure:
            found[row.jid].clock += row["count"]
        else:
            found[row.jid].overlaps += row["count"]
    for row in marked.where("not unsure").orderBy("jid", "lsn").limit(_CLOSE_MAX).collect():
        other = row.until.item
        both_of = f"item {row.item}" if other == row.item else f"items {other} and {row.item}"
        why = "" if other == row.item else ", which share a key,"
        _add_example(
            found[row.jid], examples,
            f"{both_of}{why} lent twice at once: opened (lsn {row.lsn})"
            f" {row.until.ms - row.opened_ms} ms before the delivery before it ended"
            f" (lsn {row.until.lsn})",
        )  # fmt: skip


def _add_example(order: OrderFindings, examples: int, text: str) -> None:
    if len(order.examples) < examples:
        order.examples.append(text)
