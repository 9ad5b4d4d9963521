"""Series from ticks and item rows: figures of each interval, for each queue that is shown.

    label     0 the busiest queue, 1 the next, ...; one after the last of them: all the others
    bucket    0 the interval with the first event, ...
    -1        all labels, or all buckets

One rule: at most one row for each label and bucket comes to the driver.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from kestrelpy.spark.jobs.common.at_once import Begin
from kestrelpy.spark.jobs.report import item_rows as ev
from kestrelpy.spark.jobs.report.figures import Bucket, Series, Spread, bucket_count
from kestrelpy.spark.jobs.report.percentiles import bins, spread_of, spreads

_RATES: Final = {
    ev.PUT: "put", ev.CONFIRM: "confirmed", ev.RETURN: "returned", ev.DEAD: "dead",
}  # fmt: skip
_ALL: Final = -1

Place = tuple[int, int]  # label and bucket


@dataclass(frozen=True, slots=True)
class Axes:
    """The queues and intervals of the series; `names` are the queues with a label of their own."""

    interval_ms: int
    first_ms: int
    last_ms: int
    names: tuple[str, ...]
    queues: int
    servers: int

    def labels(self, ticks: DataFrame) -> DataFrame:
        """Return the label of every journal, by `jid`."""
        known = ticks.sparkSession.createDataFrame(
            list(zip(self.names, range(len(self.names)), strict=True)), "queue string, label int"
        )
        journals = ticks.select("jid", "queue").distinct().join(known, "queue", "left")
        rest = fn.lit(len(self.names))
        return fn.broadcast(journals.select("jid", fn.coalesce("label", rest).alias("label")))

    def bucket(self, ms: Column) -> Column:
        """Return the interval of a time."""
        first = self.first_ms // self.interval_ms
        return (fn.floor(ms / fn.lit(self.interval_ms)) - fn.lit(first)).cast("int")

    @property
    def count(self) -> int:
        """How many intervals there are."""
        return bucket_count(self.first_ms, self.last_ms, self.interval_ms)


@dataclass(slots=True)
class _Points:
    rates: dict[Place, dict[str, int]]
    steps: dict[Place, int]  # by how many the depth changed
    waiting: dict[Place, Spread]
    service: dict[Place, Spread]


def all_series(
    ticks: DataFrame, table: DataFrame, axes: Axes, begin: Begin
) -> tuple[Series, tuple[Series, ...]]:
    """Return the series of all queues together, and of each shown queue, the others as the last.

    `begin` runs the queries, at once.
    """
    labels = axes.labels(ticks)
    table = table.join(labels, "jid")
    rates = begin(partial(_rates, ticks.join(labels, "jid"), axes))
    steps = begin(partial(_steps, table, axes))
    waiting = begin(partial(_latencies, table, axes, "opened_ms", "waiting"))
    service = begin(partial(_latencies, table, axes, "confirmed_ms", "service"))
    points = _Points(rates.result(), steps.result(), waiting.result(), service.result())
    named = [_series(points, axes, [label], name, 1) for label, name in enumerate(axes.names)]
    rest = axes.queues - len(axes.names)
    if rest:
        named.append(_series(points, axes, [len(axes.names)], None, rest))
    everything = _series(points, axes, range(len(axes.names) + 1), None, axes.queues)
    return everything, tuple(named)


def _series(
    points: _Points, axes: Axes, labels: Sequence[int], name: str | None, queues: int
) -> Series:
    label_of_all = labels[0] if len(labels) == 1 else _ALL
    depth, buckets = 0, []
    for number in range(axes.count):
        counted: dict[str, int] = defaultdict(int)
        for label in labels:
            depth += points.steps.get((label, number), 0)
            for what, n in points.rates.get((label, number), {}).items():
                counted[what] += n
        begin_ms = (axes.first_ms // axes.interval_ms + number) * axes.interval_ms
        at = (label_of_all, number)
        # When a clock steps back, an item may leave before it came.
        buckets.append(Bucket(
            begin_ms, counted["put"], counted["confirmed"], counted["returned"], counted["dead"],
            max(depth, 0), points.waiting.get(at), points.service.get(at),
        ))  # fmt: skip
    whole = (label_of_all, _ALL)
    return Series(
        name, queues, tuple(buckets), points.waiting.get(whole), points.service.get(whole)
    )


def _rates(ticks: DataFrame, axes: Axes) -> dict[Place, dict[str, int]]:
    found = (
        ticks.where(fn.col("kind").isin(*_RATES))
        .groupBy("label", axes.bucket(fn.col("first_ms")).alias("bucket"), "kind")
        .agg(fn.sum("n").alias("n"))
    )
    rates: dict[Place, dict[str, int]] = defaultdict(dict)
    for each in found.collect():
        rates[each["label"], each["bucket"]][_RATES[each["kind"]]] = each["n"]
    return rates


def _steps(table: DataFrame, axes: Axes) -> dict[Place, int]:
    """Return the changes of depth; an item from before the history came in the first interval."""
    was_there = fn.col("left_ms").isNotNull() | (fn.col("state") != "dead")
    came = axes.bucket(fn.coalesce(fn.col("put_ms"), fn.lit(axes.first_ms)))
    left = axes.bucket(fn.col("left_ms"))
    both = table.where(was_there).groupBy("label", came.alias("came"), left.alias("left")).agg(
        fn.count(fn.lit(1)).alias("n")
    )  # fmt: skip
    steps = fn.array(
        fn.struct(fn.col("came").alias("bucket"), fn.col("n").alias("step")),
        fn.struct(fn.col("left").alias("bucket"), (-fn.col("n")).alias("step")),
    )
    found = (
        both.select("label", fn.inline(steps)).where(fn.col("bucket").isNotNull())
        .groupBy("label", "bucket").agg(fn.sum("step").alias("n"))
    )  # fmt: skip
    return {(each["label"], each["bucket"]): each["n"] for each in found.collect()}


def _latencies(table: DataFrame, axes: Axes, when: str, name: str) -> dict[Place, Spread]:
    placed = table.select("label", axes.bucket(fn.col(when)).alias("bucket"), name)
    counted = bins(placed, ["label", "bucket"], name)
    for key in ("label", "bucket"):  # a row counts in its own, and in all
        twice = fn.explode(fn.array(fn.col(key), fn.lit(_ALL)))
        counted = counted.withColumn(key, twice)
    found = spreads(counted, ["label", "bucket"]).collect()
    return {(each["label"], each["bucket"]): spread_of(each.asDict()) for each in found}
