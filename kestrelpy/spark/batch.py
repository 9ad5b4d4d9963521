"""`format("kestrel")`: what Spark asks of a source, and who answers it.

    load()     schema()                  the words are checked; nothing is looked for yet
    1. action  reader(), partitions()    once per DataFrame: what there is now, cut into partitions
    executors  read(partition)           Arrow batches; a partition says all that is needed

One rule: Spark keeps the partitions of a DataFrame: all its actions see what the first one found.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from journal.errors import JournalError
from kestrelpy.spark.errors import KestrelError, one_sentence
from kestrelpy.spark.options import Options, parse_options

if TYPE_CHECKING:
    import pyarrow as pa

    from kestrelpy.spark.journals import Part
    from kestrelpy.spark.live import Slice
    from kestrelpy.spark.schema import Selection


@dataclass(frozen=True)
class LivePartition(InputPartition):
    """Ranges of the queues of servers."""

    slices: list[Slice]


@dataclass(frozen=True)
class JournalPartition(InputPartition):
    """Pieces of journals."""

    parts: list[Part]


class KestrelSource(DataSource):
    """The source, as Spark finds it."""

    @classmethod
    def name(cls) -> str:
        """As in `format(...)`."""
        return "kestrel"

    def schema(self) -> StructType | str:
        """The columns that a read has when no schema is given."""
        with one_sentence():
            options = parse_options(self.options)
            from kestrelpy.spark.schema import default

            return default(options.mode).ddl

    def reader(self, schema: StructType) -> DataSourceReader:
        """Who plans and reads; raises KestrelError for options or columns there are not."""
        with one_sentence():
            options = parse_options(self.options)
            selection = selected(options, schema)
            if options.pushdown:
                from kestrelpy.spark.pushdown import PushingReader

                return PushingReader(options, selection)
            return KestrelReader(options, selection)


def selected(options: Options, schema: StructType) -> Selection:
    """The columns that Spark asks for; raises KestrelError."""
    from kestrelpy.spark.schema import SchemaError, select

    fields = [(field.name, field.dataType.simpleString()) for field in schema.fields]
    try:
        return select(options.mode, fields, live=options.live)
    except SchemaError as error:
        raise KestrelError(str(error)) from None


class KestrelReader(DataSourceReader):
    """Plans on the driver, reads on executors. It travels with its options and columns alone."""

    def __init__(self, options: Options, selection: Selection) -> None:
        self.options = options
        self.selection = selection

    def partitions(self) -> list[InputPartition]:
        """What there is now, in partitions."""
        with one_sentence():
            return self._plan()

    def _plan(self) -> list[InputPartition]:
        from kestrelpy.spark import journals, live

        if self.options.live:
            return [LivePartition(slices) for slices in live.plan(self.options)]
        return [JournalPartition(parts) for parts in journals.plan(self.options)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one partition."""
        with one_sentence(JournalError):
            if isinstance(partition, LivePartition):
                yield from self._read_live(partition)
            elif isinstance(partition, JournalPartition):
                from kestrelpy.spark import journals

                yield from journals.read(partition.parts, self.selection, self.options)
            # Else it is Spark's own empty partition: there was nothing to plan.

    def _read_live(self, partition: LivePartition) -> Iterator[pa.RecordBatch]:
        from kestrelpy.spark import live
        from kestrelpy.spark.answers import batch_of

        for piece, values in live.read(partition.slices, self.options):
            batch = batch_of(piece, values, self.selection, self.options)
            if batch is not None:
                yield batch
