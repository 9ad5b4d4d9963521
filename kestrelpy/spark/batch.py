"""`format("kestrel")`: what Spark asks of a source, and who answers it.

    load()     schema()                  the words are checked; nothing is looked for yet
    1. action  reader(), partitions()    once per DataFrame: what there is now, cut into partitions
    executors  read(partition)           Arrow batches; a partition says all that is needed

One rule: Spark keeps the partitions of a DataFrame: all its actions see what the first one found.
"""

from __future__ import annotations

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from kestrelpy.spark.errors import one_sentence
from kestrelpy.spark.options import parse_options


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
