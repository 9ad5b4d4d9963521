# ruff: noqa: PLC0415
"""The streaming query of `pipeline`, in a process of its own: it may be killed at any moment.

    queue lines                  "17<tab>asyncio<tab>import asyncio"
      ──▶ parse, level, JSON     {"number": 17, "timestamp": "...", "level": "INFO", ...}
      ──▶ queue of the level     log.info, log.error, ...

It reads all lines that there are, in batches, and ends. A killed query goes on from its checkpoint:
the batch that was under way is repeated, and its rows have the same ids, made of the items that
they are made of, so servers store none of them twice.

One rule: the query keeps nothing but its checkpoint.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Final

from kestrelpy.examples.messages import LINES, OTHERWISE, QUEUES, WORDS
from kestrelpy.spark.errors import KestrelError, sentence_of
from kestrelpy.spark.session import session

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_SETTINGS: Final = {
    "spark.driver.memory": "700m",
    "spark.ui.enabled": "false",
    "spark.log.level": "OFF",
    "spark.sql.shuffle.partitions": "2",
}
_FIELDS: Final = 3


def parsed(frame: DataFrame) -> DataFrame:
    """Return the messages of lines, each with the queue of its level and an id of its line."""
    from pyspark.sql import functions as fn

    from kestrelpy.spark import with_lineage_ids

    fields = fn.split(fn.col("value").cast("string"), "\t", _FIELDS)
    text = fields[2]
    level = fn.lit(OTHERWISE)
    for name, words in reversed(WORDS):
        level = fn.when(_has_any(text, words), name).otherwise(level)
    queue = fn.create_map(*(fn.lit(each) for pair in QUEUES.items() for each in pair))[level]
    message = fn.struct(
        fields[0].cast("int").alias("number"), fn.col("timestamp"), level.alias("level"),
        fields[1].alias("service"), text.alias("message"),
    )  # fmt: skip
    return with_lineage_ids(frame).select(
        "id", queue.alias("queue"), fn.to_json(message).alias("value")
    )


def _has_any(text: Column, words: tuple[str, ...]) -> Column:
    from pyspark.sql import functions as fn

    lower = fn.lower(text)
    found = lower.contains(words[0])
    for word in words[1:]:
        found |= lower.contains(word)
    return found


def run(spark: SparkSession, servers: str, checkpoint: str, at_once: int) -> None:
    """Parse the lines that there are, `at_once` in each batch."""
    lines = spark.readStream.format("kestrel").options(
        servers=servers, queues=LINES, consume="confirm", maxItemsPerTrigger=str(at_once),
        fetchRetries="20",  # ten seconds: a daemon that was killed is soon there again
    ).load()  # fmt: skip
    query = (
        parsed(lines).writeStream.format("kestrel").options(servers=servers)
        .option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    )  # fmt: skip
    query.awaitTermination()


def main(argv: list[str] | None = None) -> int:
    """Run it from the command line; return the exit code."""
    parser = argparse.ArgumentParser(description="Parse lines into messages, from queue to queue.")
    parser.add_argument("servers", metavar="SERVERS")
    parser.add_argument("checkpoint", metavar="FOLDER")
    parser.add_argument("--at-once", type=int, default=10_000, metavar="N", help="of one batch")
    said = parser.parse_args(argv)
    from pyspark.errors import PySparkException

    try:
        spark = session("kestrelpy parser", "local[2]", _SETTINGS)
        run(spark, said.servers, said.checkpoint, said.at_once)
    except (KestrelError, PySparkException) as error:
        print(f"kestrelpy: {sentence_of(error)}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
