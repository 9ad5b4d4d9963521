"""What went through the queues of many servers, as tables for Spark: `format("kestrel")`.

    spark.read.format("kestrel").option("servers", "a:22133").option("queues", "jobs*").load()
    spark.read.format("kestrel").option("mode", "events").load("/var/lib/kestrelpy/*")

Spark finds the format by itself where this package is installed; `register` tells a session of it
where it is not (`--py-files`); `kestrelpy.spark.session` makes one that suits.

One rule: importing this needs neither pyspark nor Java; whoever lacks them is told in a sentence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kestrelpy.spark.errors import KestrelError, sentence_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["KestrelError", "register", "sentence_of"]


def register(spark: SparkSession) -> None:
    """Make `format("kestrel")` known to a session that does not find it by itself."""
    from kestrelpy.spark.session import register as register_in

    register_in(spark)
