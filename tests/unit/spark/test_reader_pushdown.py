"""Comparisons that narrow a read before it is planned."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
)

from kestrelpy.spark.offsets import MarkerRange
from kestrelpy.spark.options import NUMBER_MAX, Options, parse_options
from kestrelpy.spark.reader import narrowed

AT = datetime(2023, 11, 14, 22, 13, 20, 123_456, UTC)
AT_MS = 1_700_000_000_123


def narrow(*filters: Filter, **options: str) -> Options:
    narrower = parse_options({"path": "/a", **options})
    for each in filters:
        narrower = narrowed(narrower, each)
    return narrower


@pytest.mark.parametrize(
    ("comparison", "markers"),
    [
        (EqualTo(("marker",), 7), MarkerRange(6, 7)),
        (EqualNullSafe(("marker",), 7), MarkerRange(6, 7)),
        (GreaterThan(("marker",), 7), MarkerRange(7, NUMBER_MAX)),
        (GreaterThanOrEqual(("marker",), 7), MarkerRange(6, NUMBER_MAX)),
        (LessThan(("marker",), 7), MarkerRange(0, 6)),
        (LessThanOrEqual(("marker",), 7), MarkerRange(0, 7)),
        (Not(EqualTo(("marker",), 7)), MarkerRange(0, NUMBER_MAX)),
        (IsNotNull(("marker",)), MarkerRange(0, NUMBER_MAX)),
        (EqualTo(("flags",), 7), MarkerRange(0, NUMBER_MAX)),
        (EqualTo(("a", "marker"), 7), MarkerRange(0, NUMBER_MAX)),
    ],
)
def test_comparisons_of_the_marker_narrow_the_range(
    comparison: Filter, markers: MarkerRange
) -> None:
    assert narrow(comparison).wanted.markers == markers


def test_comparisons_hold_together() -> None:
    options = narrow(
        GreaterThan(("marker",), 3),
        GreaterThan(("marker",), 5),
        LessThan(("marker",), 9),
        In(("queue",), ("a", "b")),
        In(("queue",), ("b", "c")),
        EqualTo(("server",), "5e12"),
        EqualTo(("op",), "put"),
    )

    assert options.wanted.markers == MarkerRange(5, 8)
    assert options.wanted.queues == {"b"}
    assert options.wanted.servers == {"5e12"}
    assert options.wanted.ops == {"put"}


@pytest.mark.parametrize(
    ("comparison", "starting", "ending"),
    [
        (GreaterThan(("timestamp",), AT), AT_MS, None),
        (GreaterThanOrEqual(("timestamp",), AT), AT_MS, None),
        (LessThan(("timestamp",), AT), None, AT_MS + 1),
        (EqualTo(("timestamp",), AT), AT_MS, AT_MS + 1),
        (EqualTo(("timestamp",), AT.replace(tzinfo=None)), AT_MS, AT_MS + 1),
        (EqualTo(("timestamp",), AT.astimezone(timezone(timedelta(hours=5)))), AT_MS, AT_MS + 1),
    ],
)
def test_comparisons_of_the_time_never_narrow_too_much(
    comparison: Filter, starting: int | None, ending: int | None
) -> None:
    options = narrow(comparison)

    assert options.starting_timestamp_ms == starting
    assert options.ending_timestamp_ms == ending


def test_the_narrower_of_an_option_and_a_comparison_counts() -> None:
    options = narrow(
        GreaterThan(("timestamp",), AT), LessThan(("timestamp",), AT),
        startingTimestamp="5", endingTimestamp="1700000000000",
    )  # fmt: skip

    assert options.starting_timestamp_ms == AT_MS
    assert options.ending_timestamp_ms == 1_700_000_000_000
