"""Percentiles by bins: against the percentiles of every single latency."""

from __future__ import annotations

import random
from math import ceil
from typing import TYPE_CHECKING

import pytest
from pytest import approx

from kestrelpy.spark.jobs.report.metrics import RANKS, bins, spread_of, spreads

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow


def test_a_percentile_is_that_of_all_latencies_and_exact_below_half_a_second(
    spark: SparkSession,
) -> None:
    seed = random.randrange(1_000_000)
    rng = random.Random(seed)
    groups = {
        "exact": [rng.randrange(512) for _ in range(400)],
        "edges": [2**n + d for n in range(34) for d in (-1, 0, 1)],
        "wide": [int(10 ** rng.uniform(0, 10)) for _ in range(400)],
        "one": [7],
        "two": [3, 500_000],
    }
    rows = [(name, ms) for name, latencies in groups.items() for ms in latencies]
    table = spark.createDataFrame([*rows, ("one", None)], "name string, ms bigint")

    found = {
        row["name"]: spread_of(row.asDict())
        for row in spreads(bins(table, ["name"], "ms"), ["name"]).collect()
    }

    assert set(found) == set(groups)
    for name, latencies in groups.items():
        ordered = sorted(latencies)
        assert found[name].count == len(ordered)
        for word, rank in RANKS.items():
            expected = ordered[ceil(rank * len(ordered)) - 1]
            said = getattr(found[name], word)
            assert said == approx(expected, rel=0.002 if expected >= 512 else 0), (seed, name, word)
