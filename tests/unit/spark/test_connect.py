"""Spark Connect: the source, the stream and the sink as in a plain session."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import pytest

from kestrelpy.spark.session import what_is_missing
from tests.support.daemon import DaemonProcess
from tests.support.raw import Raw
from tests.support.spark_classes import submit_options

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]


def test_a_batch_a_stream_and_a_write_go_through_spark_connect(tmp_path: Path) -> None:
    missing = what_is_missing()
    if missing is None and find_spec("grpc_status") is None:
        missing = "Spark Connect's packages are not installed: pip install 'pyspark[connect]'"
    if missing is not None:
        pytest.skip(missing)
    environment = {
        **os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable,
        "SPARK_TESTING": "1", "SPARK_SUBMIT_OPTS": submit_options(),
    }  # fmt: skip
    with DaemonProcess(tmp_path / "data") as daemon:
        server = f"127.0.0.1:{daemon.port}"
        ended = subprocess.run(
            [sys.executable, "-m", "tests.support.spark_connect", server,
             str(tmp_path / "checkpoint")],
            capture_output=True, text=True, timeout=280, check=False, cwd=tmp_path,
            env=environment,
        )  # fmt: skip
        assert ended.returncode == 0, ended.stdout + ended.stderr
        with Raw(("127.0.0.1", daemon.port)) as raw:
            found = Counter(body for _, body in raw.values(b"out/peek/after=0/n=1000"))

    said = dict(line.split(" ", 1) for line in ended.stdout.splitlines() if " " in line)
    assert said["session"] == "pyspark.sql.connect.session"
    assert (said["batch"], said["stream"]) == ("100", "10")
    assert said["refused"].startswith("The rows name no queue. Say .option('queue', 'jobs')")
    assert found == Counter({b"line %d" % n: 10 for n in range(10)})
