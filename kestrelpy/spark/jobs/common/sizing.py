"""Spark's settings by the size of the journals that a job reads.

One rule: a setting changes how fast a job is, never its result.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PARTITIONS: Final = "spark.sql.shuffle.partitions"
_PARTITION_BYTES: Final = 64 << 20
_SMALL_BYTES: Final = 32 << 20
_FOR_SMALL: Final = {
    "spark.sql.adaptive.enabled": "false", "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}  # fmt: skip


@contextmanager
def sized(spark: SparkSession, bytes_: int) -> Iterator[None]:
    """Set the number of partitions by the size of the journals; tables between steps have it too.

    Spark's default of 200 costs 200 tasks a step, most of them empty, and there are a dozen steps.
    Of small journals the steps are cheap, and what Spark does to make them cheaper is not: it plans
    each again as it goes, and compiles each.
    """
    parallel = spark.sparkContext.defaultParallelism
    wanted = {_PARTITIONS: str(max(parallel, -(-bytes_ // _PARTITION_BYTES)))}
    if bytes_ <= _SMALL_BYTES:
        wanted = {_PARTITIONS: "1", **_FOR_SMALL}
    before = {name: str(spark.conf.get(name)) for name in wanted}
    for name, value in wanted.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


