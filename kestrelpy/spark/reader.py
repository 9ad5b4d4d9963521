"""The reader of servers and journals: it plans on the driver and reads on executors.

One rule: a partition is small and has all that is needed; files and sockets are opened by the read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from journal.errors import JournalError
from kestrelpy.spark.errors import one_sentence
from kestrelpy.spark.worker import keep_imports

if TYPE_CHECKING:
    import pyarrow as pa

    from kestrelpy.spark.files import ReadPart
    from kestrelpy.spark.live import Slice
    from kestrelpy.spark.options import Options
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
        keep_imports()

    def _read_live(self, partition: LivePartition) -> Iterator[pa.RecordBatch]:
        from kestrelpy.spark.live import batch_of
        from kestrelpy.spark.live import partitions as live

        for part, values in live.read(partition.slices, self.options):
            batch = batch_of(part, values, self.selection, self.options)
            if batch is not None:
                yield batch
