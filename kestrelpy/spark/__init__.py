"""Items and events of the queues of many servers, as tables for Spark: `format("kestrel")`.

    spark.read.format("kestrel").option("servers", "a:22133").option("queues", "jobs*").load()
    spark.read.format("kestrel").option("mode", "events").load("/var/lib/kestrelpy/*")

Spark finds the format by itself if this package is installed; `register` makes it known to a
session that has it from `--py-files`; `kestrelpy.spark.session` makes a session that suits.

One rule: an import of this needs neither pyspark nor Java; a call without them says so in a
sentence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kestrelpy.spark.errors import KestrelError, sentence_of
from kestrelpy.spark.ids import with_content_ids, with_lineage_ids

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["KestrelError", "register", "sentence_of", "with_content_ids", "with_lineage_ids"]


def register(spark: SparkSession) -> None:
    """Make `format("kestrel")` known to a session that does not find it by itself."""
    from kestrelpy.spark.session import register as register_in

    register_in(spark)
