"""The reader of servers and journals: it plans on the driver and reads on executors.

With `pushdown=true` a query's comparisons narrow the read when it is planned (`PushingReader`). It
is off by default, because Spark refuses such a reader unless
`spark.sql.python.filterPushdown.enabled` is true.

    marker, timestamp     a narrower range is read
    queue, server         fewer queues, fewer servers
    op                    fewer events

Spark checks every row again, so a comparison that is ignored here costs only time.

One rule: a partition is small and has all that is needed; files and sockets are opened by the read.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceReader,
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)

from journal.errors import JournalError
from kestrelpy.spark.errors import one_sentence
from kestrelpy.spark.offsets import MarkerRange
from kestrelpy.spark.options import Options

if TYPE_CHECKING:
    import pyarrow as pa

    from kestrelpy.spark.files import ReadPart
    from kestrelpy.spark.live import Slice
    from kestrelpy.spark.schema import Selection

@dataclass(frozen=True)
class LivePartition(InputPartition):
    """Ranges of the queues of servers."""

    slices: list[Slice]


@dataclass(frozen=True)
class JournalPartition(InputPartition):
    """Splits of journals."""

    parts: list[ReadPart]


class KestrelReader(DataSourceReader):
    """Has the options and the columns, and nothing else: it is sent to executors."""

    def __init__(self, options: Options, selection: Selection) -> None:
        self.options = options
        self.selection = selection

    def partitions(self) -> list[InputPartition]:
        """Return the present items or events, in partitions."""
        with one_sentence():
            return self._plan()

    def _plan(self) -> list[InputPartition]:
        from kestrelpy.spark.files import partitions as journals
        from kestrelpy.spark.live import partitions as live

        if self.options.live:
            return [LivePartition(slices) for slices in live.plan(self.options)]
        return [JournalPartition(parts) for parts in journals.plan(self.options)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the rows of one partition."""
        with one_sentence(JournalError):
            if isinstance(partition, LivePartition):
                yield from self._read_live(partition)
            elif isinstance(partition, JournalPartition):
                from kestrelpy.spark.files import partitions as journals

                yield from journals.read(partition.parts, self.selection, self.options)
            # Else it is Spark's own empty partition: the plan is empty.
        freeze_imports()

    def _read_live(self, partition: LivePartition) -> Iterator[pa.RecordBatch]:
        from kestrelpy.spark.live import batch_of
        from kestrelpy.spark.live import partitions as live

        for part, values in live.read(partition.slices, self.options):
            batch = batch_of(part, values, self.selection, self.options)
            if batch is not None:
                yield batch


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


@cache
def freeze_imports() -> None:
    """Leave the modules of a worker out of the garbage collection that Spark runs after each task.

    That collection examined all of them, in the time of reading 20 MiB of a journal.
    """
    if TaskContext.get() is not None:
        gc.freeze()
