"""Several queries at once: each on a thread of its own, and all over when the block ends."""

from __future__ import annotations

import threading
from typing import Final

import pytest
from pyspark.sql import SparkSession

from kestrelpy.spark.jobs.common.queries import at_once

NAME: Final = "kestrelpy.test"
PATIENCE_S: Final = 60


def test_what_is_begun_runs_at_once(spark: SparkSession) -> None:
    both = threading.Barrier(2)

    def query() -> int:
        both.wait(PATIENCE_S)  # it would break, if the one ran after the other
        return spark.range(5).count()

    with at_once(spark) as begin:
        found = [begin(query), begin(query)]

    assert [each.result() for each in found] == [5, 5]


def test_each_has_a_copy_of_the_local_properties(spark: SparkSession) -> None:
    """Spark writes into them: with one object for all, two queries were one in its eyes."""
    context, both = spark.sparkContext, threading.Barrier(2)

    def query(own: str) -> tuple[str | None, str | None]:
        inherited = context.getLocalProperty(NAME)
        both.wait(PATIENCE_S)
        context.setLocalProperty(NAME, own)
        both.wait(PATIENCE_S)
        return inherited, context.getLocalProperty(NAME)

    context.setLocalProperty(NAME, "ours")
    try:
        with at_once(spark) as begin:
            one, other = begin(lambda: query("one")), begin(lambda: query("other"))
        assert one.result() == ("ours", "one")
        assert other.result() == ("ours", "other")
        assert context.getLocalProperty(NAME) == "ours"
    finally:
        context.setLocalProperty(NAME, None)


def test_all_is_over_when_the_block_ends_whatever_fails(spark: SparkSession) -> None:
    has_failed, ended = threading.Event(), list[int]()

    def fails() -> None:
        has_failed.set()
        raise ValueError("no")

    def slow() -> None:
        has_failed.wait(PATIENCE_S)
        ended.append(spark.range(3).count())

    with pytest.raises(ValueError, match="no"), at_once(spark) as begin:
        begin(slow)
        begin(fails).result()

    assert ended == [3]
