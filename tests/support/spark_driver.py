"""A driver to be killed: one stream from queue to queue, in a process of its own.

    python -m tests.support.spark_driver SERVERS IN OUT CHECKPOINT [--ids none] [--hold FILE]

SERVERS are addresses with commas between them, or that of the engine of a fleet.

It reads what is there, with the cursor `spark`, writes it, and ends with code 0. With `--hold` the
sink's commit of a batch makes FILE and waits until it is gone: the moment between the last row and
the checkpoint.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

from pyspark.sql.types import StructType

from journal.engine import is_engine
from kestrelpy.spark import with_lineage_ids
from kestrelpy.spark.session import session
from kestrelpy.spark.sink import KestrelStreamWriter
from kestrelpy.spark.source import KestrelSource

BATCH = 400
CURSOR = "spark"
_HOLD = "KESTRELPY_TEST_HOLD"
_HELD_SECONDS = 120.0


class HeldWriter(KestrelStreamWriter):
    """Waits in its commit, and says so with a file."""

    def commit(self, messages: list[Any], batchId: int) -> None:  # noqa: N803  # Spark's name
        hold = Path(os.environ[_HOLD])
        if batchId != 2:
            return
        hold.touch()
        deadline = time.monotonic() + _HELD_SECONDS
        while hold.exists() and time.monotonic() < deadline:
            time.sleep(0.02)


class HeldSource(KestrelSource):
    """The Kestrel source with a writer that can be held."""

    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:  # noqa: N802
        writer = super().streamWriter(schema, overwrite)
        if _HOLD not in os.environ:
            return writer
        assert isinstance(writer, KestrelStreamWriter)
        return HeldWriter(writer.options, writer.form)


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("servers", "source", "target", "checkpoint"):
        parser.add_argument(name)
    parser.add_argument("--ids", default="column")
    parser.add_argument("--hold")
    said = parser.parse_args()
    if said.hold:
        os.environ[_HOLD] = said.hold
    spark = session(
        "killed",
        "local[2,4]",  # a task is tried four times
        {
            "spark.driver.memory": "700m",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "2",
        },
    )
    spark.sparkContext.setLogLevel("OFF")
    spark.dataSource.register(HeldSource)
    where = {"fleet" if is_engine(said.servers) else "servers": said.servers}
    read = spark.readStream.format("kestrel").options(**where, queues=said.source)
    frame = read.options(cursor=CURSOR, maxItemsPerTrigger=str(BATCH), minPartitions="3").load()
    rows = with_lineage_ids(frame).select("id", "value")
    if said.ids == "none":
        rows = rows.drop("id")
    writer = rows.repartition(2).writeStream.format("kestrel").options(**where)
    writer = writer.options(queue=said.target, ids=said.ids, readTimeout="5s")
    query = writer.option("checkpointLocation", said.checkpoint).trigger(availableNow=True).start()
    print("started", flush=True)
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
