"""A client of Spark Connect: a batch, a stream and a write, in a process of its own.

    python -m tests.support.spark_connect SERVER CHECKPOINT

A process has a session of Spark Connect or a plain one, not both. The words on the output are
checked by `tests/unit/spark/test_connect.py`.
"""

from __future__ import annotations

import sys
from typing import Final

from pyspark.sql import SparkSession

from kestrelpy.spark import sentence_of, with_content_ids, with_lineage_ids

_SETTINGS: Final = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
}


def main(server: str, checkpoint: str) -> None:
    builder = SparkSession.builder.remote("local[2]")
    for name, value in _SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    print("session", type(spark).__module__)
    lines = spark.range(100).selectExpr("concat('line ', id % 10) value")
    writer = with_content_ids(lines).write.format("kestrel").option("queue", "in")
    writer.option("servers", server).mode("append").save()
    read = spark.read.format("kestrel").option("servers", server)
    print("batch", read.option("queues", "in").load().count())
    stream = spark.readStream.format("kestrel").options(servers=server, queues="in", cursor="c")
    rows = with_lineage_ids(stream.load()).select("id", "value")
    sink = rows.writeStream.format("kestrel").options(servers=server, queue="out")
    sink = sink.option("checkpointLocation", checkpoint).trigger(availableNow=True)
    sink.start().awaitTermination()
    print("stream", read.option("queues", "out").load().select("value").distinct().count())
    try:
        lines.write.format("kestrel").option("servers", server).mode("append").save()
    except Exception as error:
        print("refused", sentence_of(error))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
