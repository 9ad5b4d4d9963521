"""The state that a Python worker of Spark keeps over its tasks."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

pytest.importorskip("pyspark")

from pyspark import TaskContext

from kestrelpy.spark.reader import freeze_imports


@pytest.fixture(autouse=True)
def thawed() -> Iterator[None]:
    freeze_imports.cache_clear()
    yield
    freeze_imports.cache_clear()
    gc.unfreeze()


def test_a_worker_leaves_its_modules_out_of_collections_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(TaskContext, "get", object)
    freeze_imports()
    kept = gc.get_freeze_count()
    later: list[list[int]] = [[] for _ in range(1000)]
    freeze_imports()

    assert kept > len(later)
    assert gc.get_freeze_count() <= kept


def test_a_process_that_runs_no_task_collects_as_before() -> None:
    kept = gc.get_freeze_count()
    freeze_imports()

    assert gc.get_freeze_count() == kept
