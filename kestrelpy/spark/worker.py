"""A Python worker of Spark, which reads or writes partition after partition.

One rule: nothing here changes what a task does, only what it costs.
"""

from __future__ import annotations

import gc
from functools import cache

from pyspark import TaskContext


@cache
def keep_imports() -> None:
    """Leave the modules of a worker out of the garbage collection that Spark runs after each task.

    It examined them all, which took as long as reading 20 MiB of a journal.
    """
    if TaskContext.get() is not None:
        gc.freeze()
