"""The audit on what real daemons leave behind that were killed under load: it holds.

`audit_holds(spark, data_dir)` of `tests.spark.jobs.audits` is for any test that kills a daemon.
"""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.server.test_kill import Load
from tests.spark.jobs.audits import audit_holds
from tests.support.daemon import DaemonProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

ROUNDS = 6
# Segments and snapshots come and go, and items die, expire and are dropped.
CONFIG = """
[queues."jobs"]
archive_to = "archive"
"""


def test_the_books_balance_after_kills_under_load(spark: SparkSession, tmp_path: Path) -> None:
    seed = int(os.environ.get("KESTRELPY_TEST_SEED", random.randrange(1 << 32)))
    print(f"seed {seed}")
    chance = random.Random(seed)
    daemon = DaemonProcess(tmp_path / "data")
    load = Load(daemon)
    with daemon:
        for _ in range(ROUNDS):
            load.run_until_killed(chance.uniform(0.05, 0.3))
            daemon.start()
        client = daemon.client()
        still_there = []
        while (body := client.get("jobs/open")) is not None and len(still_there) < 20:
            still_there.append(body)
            client.get("jobs/abort" if len(still_there) % 2 else "jobs/close")
        daemon.kill()

    (found,) = audit_holds(spark, tmp_path / "data")

    assert found.order.judged > 0
    assert found.books.ended["confirmed"] > 0


def test_with_an_archive_the_history_is_whole_and_every_body_is_accounted_for(
    spark: SparkSession, tmp_path: Path
) -> None:
    daemon = DaemonProcess(tmp_path / "data", config=CONFIG)
    load = Load(daemon)
    with daemon:
        for seconds in (0.2, 0.3, 0.2):
            load.run_until_killed(seconds)
            daemon.start()
        client = daemon.client()
        drained = []
        while (body := client.get("jobs")) is not None:
            drained.append(body)
        assert daemon.stop() == 0

    folders = [tmp_path / "data", *tmp_path.glob("archive"), *(tmp_path / "data").glob("archive")]
    found = audit_holds(spark, *folders)
    assert len(found) == 1
    events = spark.read.format("kestrel").option("mode", "events").load([str(f) for f in folders])
    rows = events.where("op = 'put'").select("item", "value").collect()
    ended = {row.item for row in events.where("op = 'confirm'").select("item").collect()}
    bodies = {row.item: bytes(row.value) for row in rows}
    assert sorted(bodies.values()) == sorted(set(bodies.values())), "an item was stored twice"
    assert load.acknowledged <= set(bodies.values())
    assert load.confirmed <= {bodies[item] for item in ended}
    assert set(bodies.values()) <= load.sent
