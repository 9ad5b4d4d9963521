"""One Spark for all tests of a process, because its start takes seconds."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kestrelpy.spark.session import session, what_is_missing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The one session, on two cores; without Java its tests are skipped, with the reason."""
    missing = what_is_missing()
    if missing is not None:
        pytest.skip(missing)
    folder = tmp_path_factory.mktemp("spark")
    # Its Python workers import the sources beside these tests, not what happens to be installed.
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), *([before] if before else [])])
    made = session(
        "kestrelpy tests",
        "local[2]",
        {
            "spark.driver.memory": "1g",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.local.dir": str(folder / "local"),
        },
    )
    made.sparkContext.setLogLevel("OFF")
    yield made
    made.stop()
    if before is None:
        del os.environ["PYTHONPATH"]
    else:
        os.environ["PYTHONPATH"] = before
    shutil.rmtree(folder / "local", ignore_errors=True)
