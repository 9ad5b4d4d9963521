"""Members whose clocks are a day wrong: who owns the data is decided all the same.

Promise: claim.
"""

from __future__ import annotations

import time
from contextlib import closing, suppress
from pathlib import Path

import pytest
from pymemcache.exceptions import MemcacheError

from journal.engine.postgres import make_tables
from kestrelpy.examples.fleet.postgres_server import PostgresServer, folder_of_servers
from tests.support.daemon import DaemonProcess

SECONDS = 60.0
TURNS = 4
LIBRARY = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)


def faked(offset: str) -> tuple[str, ...]:
    """Return the words before a command that set its wall clock wrong by `offset`."""
    return ("env", f"LD_PRELOAD={LIBRARY}", f"FAKETIME={offset}", "FAKETIME_DONT_FAKE_MONOTONIC=1")


def serves(member: DaemonProcess, body: str) -> None:
    deadline = time.monotonic() + SECONDS
    while True:
        with suppress(MemcacheError, OSError), closing(member.client()) as client:
            if client.set("jobs", body):
                return
        assert time.monotonic() < deadline, "".join(member.lines[-20:])
        time.sleep(0.05)


@pytest.mark.soak
@pytest.mark.skipif(LIBRARY is None, reason="faketime is not installed")
def test_clocks_a_day_wrong_lose_nothing_and_delay_no_takeover(tmp_path: Path) -> None:
    with folder_of_servers() as folder:
        server = PostgresServer(folder)
        server.make()
        server.start()
        make_tables(server.address)
        config = f'[fleet]\nengine = "{server.address}"\nsingle = true\ntakeover = "2s"\nname = '
        members = [DaemonProcess(tmp_path / name, config=f'{config}"{name}"') for name in "ab"]
        wrong = ("+1d", "-1d")
        with members[0].start(*faked(wrong[0])), members[1].start(*faked(wrong[1])):
            for turn in range(TURNS):
                serves(members[turn % 2], str(turn))
                members[turn % 2].kill()
                began = time.monotonic()
                serves(members[1 - turn % 2], f"{turn} again")
                took = time.monotonic() - began
                print(f"takeover by the member with {wrong[1 - turn % 2]}: {took:.1f} s")
                members[turn % 2].start(*faked(wrong[turn % 2]))
            found = []
            with closing(members[TURNS % 2].client()) as client:
                while (body := client.get("jobs")) is not None:
                    found.append(body.decode())
            assert found == [f"{turn}{more}" for turn in range(TURNS) for more in ("", " again")]
        server.stop()
