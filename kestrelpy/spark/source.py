"""`format("kestrel")`: what Spark asks of a source, and who answers it.

    load()     schema()                  the words are checked; nothing is looked for yet
    1. action  reader(), partitions()    once per DataFrame: what there is now, cut into partitions
    executors  read(partition)           Arrow batches; a partition says all that is needed

One rule: Spark keeps the partitions of a DataFrame: all its actions see what the first one found.
(With `spark.sql.python.filterPushdown.enabled` it plans each query that filters anew.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.types import StructType

from kestrelpy.spark.errors import KestrelError, one_sentence
from kestrelpy.spark.options import Options, parse_options
from kestrelpy.spark.reader import KestrelReader

if TYPE_CHECKING:
    from kestrelpy.spark.schema import Selection


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
