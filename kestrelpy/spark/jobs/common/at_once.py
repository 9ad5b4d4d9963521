"""Several small Spark queries at once: while one is planned and compiled, another one runs.

One rule: when the block ends, all that was begun is over, whatever failed.
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
