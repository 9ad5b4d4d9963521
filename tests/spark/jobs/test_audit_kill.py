"""The audit on what real daemons leave behind that were killed under load: it holds.

`audit_holds(spark, data_dir)` of `tests.spark.jobs.audits` is for any test that kills a daemon.
"""

from __future__ import annotations

import os
import random
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pymemcache.client.base import Client

from tests.server.test_kill import Load
from tests.server.test_kill_moves import Books, Somebody
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
ALL_CONFIG = """
[queues.jobs]
max_attempts = 3
retry_delay = "5ms"
dead_letter_to = "failed"
expire_to = "late"
"""


class Anybody(Somebody):
    """Keys, delays, leases by token and moves; what is answered is not of interest here."""

    def _one(self, client: Client) -> None:
        choice, key = self.random.random(), self.random.choice("ABCD")
        if choice < 0.25:
            client.set(f"jobs/key={key},{self.random.choice('XY')}", self.books.next())
        elif choice < 0.4:
            client.set(f"jobs/delay={self.random.randrange(1, 60)}ms", self.books.next())
        elif choice < 0.55:
            client.set("jobs", self.books.next(), expire=self.random.choice((0, 0, 1)))
        elif choice < 0.7:
            if client.get("jobs/open") is not None:
                client.get(self.random.choice(("jobs/abort", "jobs/defer/delay=10ms")))
        elif choice < 0.95:
            _, token = client.gets(f"jobs/open/lease={self.random.choice((20, 5000))}ms")
            if token is not None:
                client.delete(f"jobs/token={int(token)}")
        else:
            client.raw_command(f"redrive failed all{self.random.choice(('', ' jobs'))}")
            client.raw_command("move jobs later 3")


def test_the_books_balance_after_kills_with_keys_delays_tokens_and_moves(
    spark: SparkSession, tmp_path: Path
) -> None:
    seed = int(os.environ.get("KESTRELPY_TEST_SEED", random.randrange(1 << 32)))
    print(f"seed {seed}")
    books = Books()
    with DaemonProcess(tmp_path / "data", config=ALL_CONFIG) as daemon:
        clients = [Anybody(daemon, books, seed + n) for n in range(4)]
        for _ in range(ROUNDS):
            threads = [threading.Thread(target=each.run) for each in clients]
            for thread in threads:
                thread.start()
            time.sleep(0.3)  # the load; nothing is expected of its length
            daemon.kill()
            for thread in threads:
                thread.join(30)
            daemon.start()
        daemon.kill()

    assert books.wrong == []
    found = {each.queue: each for each in audit_holds(spark, tmp_path / "data")}
    assert found["jobs"].books.ended["confirmed"] > 0
    assert found["jobs"].books.ended["moved"] > 0
    assert found["failed"].books.stored > 0


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
    rows = events.where("op = 'put'").select("marker", "value").collect()
    ended = {row.marker for row in events.where("op = 'confirm'").collect()}
    bodies = {row.marker: bytes(row.value) for row in rows}
    assert sorted(bodies.values()) == sorted(set(bodies.values())), "an item was stored twice"
    assert load.acknowledged <= set(bodies.values())
    assert load.confirmed <= {bodies[item] for item in ended}
    assert set(bodies.values()) <= load.sent
