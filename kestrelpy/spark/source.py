"""`format("kestrel")`: the calls that Spark makes on a source and a sink.

    load()     schema()                  options are checked; no server or folder is read yet
    1. action  reader(), partitions()    once per DataFrame: the present items, cut into partitions
    executors  read(partition)           Arrow batches; a partition has all that is needed
    write      writer(), streamWriter()  the sink: kestrelpy.spark.sink

One rule: Spark stores the partitions of a DataFrame, so all its actions see what the first one
found. (With `spark.sql.python.filterPushdown.enabled` it plans each query with filters anew.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn
from uuid import uuid4

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.types import StructType

from kestrelpy.spark.errors import KestrelError, one_sentence
from kestrelpy.spark.options import Options, parse_options
from kestrelpy.spark.reader import KestrelReader, PushingReader

if TYPE_CHECKING:
    import pyarrow as pa

    from kestrelpy.spark.schema import Selection
    from kestrelpy.spark.write import RowForm, WriteOptions


class KestrelSource(DataSource):
    """The source that Spark finds."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format(...)`."""
        return "kestrel"

    def schema(self) -> StructType | str:
        """Return the columns of a read without a schema."""
        with one_sentence():
            options = parse_options(self.options)
            from kestrelpy.spark.schema import default

            return default(options.mode).ddl

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader. Raises KestrelError for an unknown option or column."""
        with one_sentence():
            options = parse_options(self.options, streams=False)
            selection = selected(options, schema)
            if options.pushdown:
                return PushingReader(options, selection)
            return KestrelReader(options, selection)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  # Spark's name
        """Return the reader of a stream; one that refuses everything if it cannot be."""
        try:
            from kestrelpy.spark.stream import KestrelStreamReader
        except ImportError:
            import pyspark

            return RefusedReader(
                f"Streams from queues need PySpark 4.2, and this is {pyspark.__version__}. Install "
                "it: pip install 'pyspark>=4.2'; reads and writes of batches, and streams into "
                "queues, go on with this one."
            )
        try:
            options = parse_options(self.options, streams=True)
            return KestrelStreamReader(options, selected(options, schema))
        except KestrelError as error:
            return RefusedReader(str(error))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return the writer of a batch. Raises KestrelError for an unknown option or column."""
        with one_sentence():
            from kestrelpy.spark.sink import KestrelWriter
            from kestrelpy.spark.write import Run

            options, form = self._row_form(schema, overwrite, streams=False)
            run = None
            if options.ids != "none":
                # Without a scope the write has one of its own: repeated tasks store nothing twice.
                run = Run(options.scope or f"batch-{uuid4().hex}", options.epoch or 0)
            return KestrelWriter(options, form, run)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802  # Spark's name
        """Return the writer of a stream. Raises KestrelError for an unknown option or column."""
        with one_sentence():
            from kestrelpy.spark.sink import KestrelStreamWriter

            options, form = self._row_form(schema, overwrite, streams=True)
            return KestrelStreamWriter(options, form)

    def _row_form(
        self, schema: StructType, overwrite: bool, *, streams: bool
    ) -> tuple[WriteOptions, RowForm]:
        from kestrelpy.spark.write import parse_write_options, row_form

        if overwrite:
            raise KestrelError(
                "A queue cannot be overwritten: its items belong to its consumers. Say "
                + ("outputMode('append')." if streams else "mode('append').")
            )
        options = parse_write_options(self.options, streams=streams)
        fields = [(field.name, field.dataType.simpleString()) for field in schema.fields]
        return options, row_form(fields, options)


def selected(options: Options, schema: StructType) -> Selection:
    """Return the columns that Spark asks for. Raises KestrelError."""
    from kestrelpy.spark.schema import SchemaError, select

    fields = [(field.name, field.dataType.simpleString()) for field in schema.fields]
    try:
        return select(options.mode, fields, live=options.live)
    except SchemaError as error:
        raise KestrelError(str(error)) from None


class RefusedReader(DataSourceStreamReader):
    """Raises its sentence, whatever Spark asks."""

    def __init__(self, sentence: str) -> None:
        self.sentence = sentence

    def _refuse(self) -> NoReturn:
        with one_sentence():
            raise KestrelError(self.sentence)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  # Spark's name
        """Raise the error."""
        self._refuse()

    def latestOffset(self, *_: object) -> dict[str, Any]:  # noqa: N802  # Spark's name
        """Raise the error; PySpark 4.1 asks without arguments."""
        self._refuse()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Raise the error."""
        self._refuse()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Raise the error."""
        self._refuse()
