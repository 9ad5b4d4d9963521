"""Pushdown: a query's comparisons narrow the read when it is planned.

It needs `pushdown=true`, because Spark refuses a reader with pushdown unless
`spark.sql.python.filterPushdown.enabled` is true.

    marker, timestamp     a narrower range is read
    queue, server         fewer queues, fewer servers
    op                    fewer events

One rule: Spark checks every row again, so a comparison that is ignored here costs only time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from kestrelpy.spark.offsets import MarkerRange
from kestrelpy.spark.options import Options
from kestrelpy.spark.reader import KestrelReader


class PushingReader(KestrelReader):
    """A reader that takes the query's comparisons."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802  # Spark's name
        """Narrow the read by each comparison; return all of them for Spark to check."""
        for each in filters:
            self.options = narrowed(self.options, each)
        return filters


def narrowed(options: Options, comparison: Filter) -> Options:
    """Return the options narrowed to the rows for which this comparison can hold."""
    match comparison:
        case EqualTo((str(name),), value) | EqualNullSafe((str(name),), value):
            options = _one_of(options, name, [value])
            return _at_most(_at_least(options, name, value), name, value)
        case In((str(name),), values):
            return _one_of(options, name, values)
        case GreaterThan((str(name),), value):
            return _at_least(options, name, value, more=1)
        case GreaterThanOrEqual((str(name),), value):
            return _at_least(options, name, value)
        case LessThan((str(name),), value):
            return _at_most(options, name, value, less=1)
        case LessThanOrEqual((str(name),), value):
            return _at_most(options, name, value)
    return options


def _one_of(options: Options, name: str, values: Iterable[object]) -> Options:
    words = frozenset(value for value in values if isinstance(value, str))
    wanted = options.wanted
    if name == "queue":
        wanted = replace(wanted, queues=_both(wanted.queues, words))
    elif name == "server":
        wanted = replace(wanted, servers=_both(wanted.servers, words))
    elif name == "op":
        wanted = replace(wanted, ops=_both(wanted.ops, words))
    return replace(options, wanted=wanted)


def _both(known: frozenset[str] | None, words: frozenset[str]) -> frozenset[str]:
    return words if known is None else known & words


def _at_least(options: Options, name: str, value: object, more: int = 0) -> Options:
    if name == "marker" and isinstance(value, int):
        after = max(options.wanted.markers.after, value + more - 1)
        return _with_markers(options, MarkerRange(after, options.wanted.markers.upto))
    if name == "timestamp" and isinstance(value, datetime):
        from_ms = _ms(value)
        known = options.starting_timestamp_ms
        return replace(
            options, starting_timestamp_ms=from_ms if known is None else max(known, from_ms)
        )
    return options


def _at_most(options: Options, name: str, value: object, less: int = 0) -> Options:
    if name == "marker" and isinstance(value, int):
        upto = min(options.wanted.markers.upto, value - less)
        return _with_markers(options, MarkerRange(options.wanted.markers.after, upto))
    if name == "timestamp" and isinstance(value, datetime):
        before_ms = _ms(value) + 1
        known = options.ending_timestamp_ms
        return replace(
            options, ending_timestamp_ms=before_ms if known is None else min(known, before_ms)
        )
    return options


def _with_markers(options: Options, markers: MarkerRange) -> Options:
    return replace(options, wanted=replace(options.wanted, markers=markers))


def _ms(at: datetime) -> int:
    """Return milliseconds since 1970, rounded down; a time without a zone is UTC."""
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return (at - _EPOCH) // timedelta(milliseconds=1)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
