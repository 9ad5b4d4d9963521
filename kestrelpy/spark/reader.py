"""Plans on the driver, reads on executors: servers and journals behind one face.

One rule: a partition is small and says all that is needed; a reader opens what it reads, no sooner.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from journal.errors import JournalError
from kestrelpy.spark.errors import one_sentence

if TYPE_CHECKING:
    import pyarrow as pa

    from kestrelpy.spark.files.partitions import Part
    from kestrelpy.spark.live.partitions import Slice
    from kestrelpy.spark.options import Options
    from kestrelpy.spark.schema import Selection


@dataclass(frozen=True)
class LivePartition(InputPartition):
    """Ranges of the queues of servers."""

    slices: list[Slice]


@dataclass(frozen=True)
class JournalPartition(InputPartition):
    """Pieces of journals."""

    parts: list[Part]


class KestrelReader(DataSourceReader):
    """What travels to an executor: the options and the columns, nothing else."""

    def __init__(self, options: Options, selection: Selection) -> None:
        self.options = options
        self.selection = selection

    def partitions(self) -> list[InputPartition]:
        """What there is now, in partitions."""
        with one_sentence():
            return self._plan()

    def _plan(self) -> list[InputPartition]:
        from kestrelpy.spark.files import partitions as journals
        from kestrelpy.spark.live import partitions as live

        if self.options.live:
            return [LivePartition(slices) for slices in live.plan(self.options)]
        return [JournalPartition(parts) for parts in journals.plan(self.options)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one partition."""
        with one_sentence(JournalError):
            if isinstance(partition, LivePartition):
                yield from self._read_live(partition)
            elif isinstance(partition, JournalPartition):
                from kestrelpy.spark.files import partitions as journals

                yield from journals.read(partition.parts, self.selection, self.options)
            # Else it is Spark's own empty partition: there was nothing to plan.

    def _read_live(self, partition: LivePartition) -> Iterator[pa.RecordBatch]:
        from kestrelpy.spark.live import partitions as live
        from kestrelpy.spark.live.batches import batch_of

        for piece, values in live.read(partition.slices, self.options):
            batch = batch_of(piece, values, self.selection, self.options)
            if batch is not None:
                yield batch
