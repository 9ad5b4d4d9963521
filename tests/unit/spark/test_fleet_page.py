"""The example of docs/pipeline.md for a fleet, on a real PostgreSQL with a real member."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pymemcache.client.base import Client
from pymemcache.exceptions import MemcacheError

from journal.engine.postgres import make_tables
from kestrelpy.examples.fleet.postgres_server import PostgresServer, folder_of_servers
from tests.process.router.test_slices import eventually
from tests.support.daemon import DaemonProcess
from tests.support.pages import ROOT, blocks
from tests.support.patroni import free_port
from tests.support.raw import Raw

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

LIVE_AND_KEPT = ("live", "items")
PAGE = ROOT / "docs" / "pipeline.md"


def test_the_example_of_a_fleet_runs_also_when_its_owner_is_another_one(
    spark: SparkSession, tmp_path: Path
) -> None:
    section = PAGE.read_text().partition("## A fleet\n")[2]
    (text,) = (each.text for each in blocks(section) if each.kind == "python")
    names: dict[str, Any] = {"spark": spark}
    with folder_of_servers() as folder:
        server = PostgresServer(folder)
        server.make()
        server.start()
        make_tables(server.address)

        def member(name: str) -> DaemonProcess:
            port = free_port()
            return DaemonProcess(tmp_path / name, port=port, config=(
                f'[fleet]\nengine = "{server.address}"\nsingle = true\nname = "{name}"\n'
                f'address = "127.0.0.1:{port}"\ntakeover = "2s"\n'
            ))  # fmt: skip

        with member("a") as a, member("b") as b:
            with closing(a.client(30.0)) as client:
                for number in range(9):
                    assert client.set("jobs", f"{number}")
            text = text.replace("postgresql://kestrel@db1,db2/kestrel", server.address)
            text = text.replace(', "/srv/archive/*"', "").replace("/srv/", f"{tmp_path}/")
            exec(compile(text, PAGE.name, "exec"), names)
            (query,) = spark.streams.active
            query.processAllAvailable()
            columns = ("server", "queue", "marker", "value")
            live, items = (sorted(names[name].select(*columns).collect()) for name in LIVE_AND_KEPT)
            assert live == items
            assert len(items) == 9
            puts = names["events"].where("op = 'put' and queue in ('jobs', 'done')")
            assert puts.count() == 18

            a.kill()
            with closing(b.client(30.0)) as client:
                eventually(lambda: is_stored(client, "jobs", "9"))
                query.processAllAvailable()
                query.stop()
            with Raw(("127.0.0.1", b.port)) as raw:
                done = raw.values(b"done/peek/after=0/n=99")
        server.stop()

    assert sorted(body for _, body in done) == [b"%d" % number for number in range(10)]


def is_stored(client: Client, queue: str, body: str) -> bool:
    """True if the owner has stored it; a member that waits refuses."""
    try:
        return bool(client.set(queue, body))
    except MemcacheError:
        return False
