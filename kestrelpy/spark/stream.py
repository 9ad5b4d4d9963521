"""`readStream.format("kestrel")`: the calls that Spark makes on a streaming source.

    start       initialOffset              only without a checkpoint
    each batch  latestOffset(start)        the batches up to `start` are committed: confirm them
                partitions(start, end)     the slices that stand in `end`
    executors   read(partition)            Arrow batches
    availableNow: after the last batch, latestOffset once more, which confirms it

Spark calls `commit` only when it plans the next batch. But it asks for `latestOffset(start)` only
when the batch before `start` is in the checkpoint: so this is where a stream confirms, at each
start, after each batch, and at the end of an `availableNow` query.

One rule: nothing is confirmed before Spark's checkpoint says that its batch is done.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from journal.errors import JournalError
from kestrelpy.spark.errors import one_sentence
from kestrelpy.spark.live import batch_of
from kestrelpy.spark.reader import JournalPartition, LivePartition, freeze_imports
from kestrelpy.spark.streaming import (
    BatchLimits,
    Journals,
    LiveQueues,
    Position,
    parse_position,
    read,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from kestrelpy.spark.options import Options
    from kestrelpy.spark.schema import Selection


class KestrelStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The stream of a query; Spark keeps one on the driver while the query runs."""

    def __init__(self, options: Options, selection: Selection) -> None:
        self.options = options
        self.selection = selection
        self._queues: LiveQueues | Journals | None = None
        self._begin: dict[str, Any] | None = None
        self._end: Position | None = None

    @property
    def queues(self) -> LiveQueues | Journals:
        """The queues of servers, or the journals of folders, on the driver."""
        if self._queues is None:
            live = self.options.live
            self._queues = LiveQueues(self.options) if live else Journals(self.options)
        return self._queues

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  # Spark's name
        """Return where a query without a checkpoint begins; Spark asks twice."""
        with one_sentence():
            if self._begin is None:
                self._begin = self.queues.begin().as_json()
            return self._begin

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802  # Spark's name
        """Return the limit of a batch; `latestOffset` adds that of bytes."""
        items, size = self.options.max_items_per_trigger, self.options.max_bytes_per_trigger
        if items is not None:
            return ReadMaxRows(items)
        return ReadMaxBytes(size) if size is not None else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  # Spark's name
        """Let the query end with what is there now."""
        with one_sentence():
            self.queues.stop_at_present()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return where the next batch ends, and confirm what the batches before it have read."""
        with one_sentence():
            begin = parse_position(start)
            end = self.queues.advance(begin, self._limits(limit))
            self.queues.confirm(begin)
            self._end = end
            return start if end is begin else end.as_json()

    def _limits(self, limit: ReadLimit) -> BatchLimits:
        if isinstance(limit, ReadAllAvailable):
            return BatchLimits()
        return BatchLimits(self.options.max_items_per_trigger, self.options.max_bytes_per_trigger)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802  # Spark's name
        """Return how far the queues go, and the lag, for the query's progress."""
        if self._end is None:
            return None
        present = self.queues.present()
        return {"lag": self.queues.lag(self._end), **present.as_json(), "lost": self._end.lost}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the slices of a batch."""
        with one_sentence():
            if start == end:
                return []
            queues, position = self.queues, parse_position(end)
            if isinstance(queues, LiveQueues):
                return [LivePartition(each) for each in queues.slices(position)]
            return [JournalPartition(each) for each in queues.parts(position) if each]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the rows of one partition."""
        with one_sentence(JournalError):
            if isinstance(partition, JournalPartition):
                from kestrelpy.spark.files import partitions as journals

                yield from journals.read(partition.parts, self.selection, self.options)
            slices = partition.slices if isinstance(partition, LivePartition) else ()
            for part, values in read(slices, self.options):
                batch = batch_of(part, values, self.selection, self.options)
                if batch is not None:
                    yield batch
        freeze_imports()

    def commit(self, end: dict[str, Any]) -> None:
        """Confirm what is committed, if `latestOffset` has not done so."""
        with one_sentence():
            self.queues.confirm(parse_position(end))
