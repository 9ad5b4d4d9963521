"""Percentiles of latencies by group, with bins instead of sorting.

    0 .. 511 ms     a bin for each millisecond
    from there on   256 bins for each doubling: the value of a bin is at most 0.2 % off

Latencies are counted by group and bin with a hash; only the bins are sorted. (Spark's own
`percentile_approx` has a sketch for each group and sorts all rows with more than 128 groups.)

One rule: a percentile is the latency of an item, not a value between two: the least latency that
the given share of items does not exceed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from kestrelpy.spark.jobs.report.figures import Spread

PRECISION_BITS: Final = 8
ACCURACY: Final = (
    f"A percentile is that of all items; above {2 << PRECISION_BITS} ms it is at most "
    f"{1 / (2 << PRECISION_BITS):.1%} off."
)
RANKS: Final[Mapping[str, float]] = {"p50_ms": 0.50, "p95_ms": 0.95, "p99_ms": 0.99}


def bins(rows: DataFrame, keys: Sequence[str], name: str) -> DataFrame:
    """Count the rows for each group and bin of the column `name`: `bin`, `n`."""
    bits = f"greatest(cast(floor(log2(greatest({name}, 1))) as int) - {PRECISION_BITS}, 0)"
    middle = f"shiftleft(shiftright({name}, {bits}), {bits}) + shiftright(shiftleft(1L, {bits}), 1)"
    known = rows.where(fn.col(name).isNotNull())
    return known.groupBy(*keys, fn.expr(middle).alias("bin")).agg(fn.count(fn.lit(1)).alias("n"))


def spreads(binned: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Return one row for each group: `count` and the percentiles, by the names of RANKS."""
    counted = binned.groupBy(*keys, "bin").agg(fn.sum("n").alias("n"))
    group = Window.partitionBy(*keys)
    up_to = fn.sum("n").over(group.orderBy("bin"))
    rows = counted.select(
        *keys, "bin", up_to.alias("up_to"), fn.sum("n").over(group).alias("count")
    )
    return rows.groupBy(*keys).agg(
        fn.max("count").alias("count"),
        *(_percentile(rank).alias(name) for name, rank in RANKS.items()),
    )


def _percentile(rank: float) -> Column:
    enough = fn.col("up_to") >= fn.ceil(fn.col("count") * fn.lit(rank))
    return fn.min(fn.when(enough, fn.col("bin")))


def spread_of(found: Mapping[str, int]) -> Spread:
    """Return a row of `spreads` as a `Spread`."""
    return Spread(found["count"], *(found[name] for name in RANKS))
