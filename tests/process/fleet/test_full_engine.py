"""The disk of the database is full: clients hear one sentence, and it goes on with the room.

Promise engine-trouble: a real disk that is full; a password that changes.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from pymemcache.exceptions import MemcacheError, MemcacheServerError

from journal.engine.postgres import make_tables
from kestrelpy.examples.fleet.postgres_server import PostgresServer, folder_of_servers
from tests.support.daemon import DaemonProcess
from tests.support.faults import SmallDisk, small_disk

SECONDS = 60.0
DISK_BYTES = 128 << 20
BODY = "x" * 2000
FULL = "the engine does not answer: .*No space left on device: the disk of the server is full"


def until(condition: Callable[[], object], member: DaemonProcess) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, "".join(member.lines[-20:])
        time.sleep(0.05)


@contextmanager
def small_engine(what: str) -> Iterator[tuple[PostgresServer, SmallDisk]]:
    """A server that has little room for its tables, or for all."""
    with folder_of_servers() as folder, small_disk(folder / "one", DISK_BYTES) as disk:
        server = PostgresServer(folder)
        server.make()
        if what == "tables":  # its log of writes has a disk of its own
            shutil.copytree(server.data / "pg_wal", folder / "wal")
            shutil.rmtree(server.data / "pg_wal")
            for each in (folder / "wal", *(folder / "wal").rglob("*")):
                shutil.chown(each, (folder / "one").owner())
            (server.data / "pg_wal").symlink_to(folder / "wal")
        server.start()
        make_tables(server.address)
        try:
            yield server, disk
        finally:
            server.kill()


@pytest.mark.soak
@pytest.mark.parametrize("what", ["tables", "all"])
def test_a_full_disk_of_the_database_loses_nothing_and_goes_on_with_the_room(
    tmp_path: Path, what: str
) -> None:
    with small_engine(what) as (server, disk):
        config = f'[fleet]\nengine = "{server.address}"\nsingle = true\ntakeover = "2s"\n'
        sent, acknowledged = list[str](), list[str]()
        with DaemonProcess(tmp_path / "a", config=config) as member:
            client = member.client(timeout=4)

            def store() -> bool:
                sent.append(f"{len(sent)} {BODY}")
                with suppress(OSError):
                    assert client.set("jobs", sent[-1])
                    acknowledged.append(sent[-1])
                    return True
                return False

            for _ in range(50):
                assert store()
            disk.fill()
            with pytest.raises(MemcacheServerError, match=FULL):
                while True:
                    store()
            with pytest.raises(MemcacheServerError, match="the engine does not answer"):
                client.get("jobs/open")
            disk.make_room()
            if server.has_ended:
                server.start()

            def goes_on() -> bool:
                with suppress(MemcacheError, OSError):
                    return store()
                return False

            until(goes_on, member)
            found = []
            while (body := client.get("jobs/close/open")) is not None:
                found.append(body.decode())
            assert len(found) == len(set(found)), "an item is there twice"
            assert set(acknowledged) <= set(found) <= set(sent)
            assert member.stop() == 0


@pytest.mark.soak
@pytest.mark.parametrize("what", ["tables", "all"])
def test_members_do_not_take_a_full_database_from_each_other(tmp_path: Path, what: str) -> None:
    with small_engine(what) as (server, disk):
        fleet = f'[fleet]\nengine = "{server.address}"\nsingle = true\ntakeover = "1s"\n'
        with (
            DaemonProcess(tmp_path / "a", config=f'{fleet}name = "a"\n') as owner,
            DaemonProcess(tmp_path / "b", config=f'{fleet}name = "b"\n') as other,
        ):
            until(lambda: any("standby of a" in each for each in other.lines), other)
            client = owner.client(timeout=2)
            assert client.set("jobs", BODY)
            disk.fill()
            with pytest.raises(MemcacheServerError, match=FULL):
                while True:
                    with suppress(TimeoutError):  # what was under way waits for the room
                        client.set("jobs", BODY)
            time.sleep(5)  # five times takeover
            disk.make_room()
            if server.has_ended:
                server.start()

            def goes_on() -> bool:
                with suppress(MemcacheError, OSError):
                    return bool(client.set("jobs", "after"))
                return False

            until(goes_on, owner)
            assert server.ask("SELECT epoch FROM kestrelpy.slice") == [(1,)]
            assert (owner.stop(), other.stop()) == (0, 0)
