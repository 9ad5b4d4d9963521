"""How a job runs its Spark queries: several small ones at once, with settings for their size.

While one query is planned and compiled, another one runs.

One rule: both change the time of a job, never its result. At the end of a block all its work is
over, whatever failed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final, Protocol, TypeVar

from pyspark import inheritable_thread_target
from pyspark.sql import SparkSession

_T = TypeVar("_T")
_MOST: Final = 8  # Spark queues the tasks of more


class Begin(Protocol):
    """Begins a work on a thread; its result comes from the future."""

    def __call__(self, work: Callable[[], _T]) -> Future[_T]: ...


@contextmanager
def at_once(spark: SparkSession) -> Iterator[Begin]:
    """Give a function that begins a work on a thread of its own.

    Each thread has a copy of this one's local properties (a job group, a tag): Spark writes into
    them.
    """
    with ThreadPoolExecutor(_MOST, "kestrelpy-query") as pool:

        def begin(work: Callable[[], _T]) -> Future[_T]:
            return pool.submit(inheritable_thread_target(spark)(work))

        yield begin


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
    With small journals the steps are cheap, but Spark's attempts to make them cheaper are not: it
    plans each step again while it runs, and compiles each.
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
