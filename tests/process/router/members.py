"""Members of a fleet for tests, on one PostgreSQL: each is a real process with real slices.

One rule: what a test has started is ended, whether it runs, sleeps or is dead.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Final

from journal.engine.postgres import PostgresEngine
from kestrelpy.examples.fleet.postgres_server import PostgresServer
from kestrelpy.fleet import owned
from kestrelpy.server.slices import member_slices
from tests.process.router.test_slices import eventually, is_running, slices_of
from tests.support.daemon import DaemonProcess
from tests.support.patroni import free_port

SLICES: Final = 4
TAKEOVER_S: Final = 2
SECRET: Final = "a-secret-of-members"


class Fleet:
    """Members on one PostgreSQL, each with an address of its own."""

    slices = SLICES

    def __init__(self, folder: Path, server: PostgresServer, more: str = "") -> None:
        self.folder, self.address, self.more = folder, server.address, more
        self.engine = PostgresEngine(server.address, is_single=True)
        self.members: dict[str, DaemonProcess] = {}
        (folder / "secret").write_text(f"{SECRET}\n")

    def member(self, name: str, slices: int = SLICES, more: str = "") -> DaemonProcess:
        """Make a member; it is not started."""
        host, port = f"127.0.0.{ord(name) - ord('a') + 2}", free_port()
        assert member_slices.NOTES >= 2  # so a late note makes nobody give up slices
        config = (
            f'[server]\nallow_shutdown = true\n[fleet]\nengine = "{self.address}"\nsingle = true\n'
            f'name = "{name}"\naddress = "{host}:{port}"\nslices = {slices}\n'
            f'takeover = "{TAKEOVER_S}s"\nsecret_file = "secret"\n{more}\n{self.more}'
        )
        made = DaemonProcess(self.folder / name, config=config, host=host, port=port)
        self.members[name] = made
        return made

    def start(self, *names: str) -> list[DaemonProcess]:
        """Start members and wait until they own all slices, in even shares."""
        started = [self.member(name).start() for name in names]
        self.wait_for_shares()
        return started

    def owners(self) -> dict[int, str]:
        """The name of the owner of each slice."""
        return {number: each.name for number, each in owned(self.engine.owners()).items()}

    def is_even(self) -> bool:
        """True if the members that run own all slices, in even shares."""
        owners = self.owners()
        names = [name for name, each in self.members.items() if is_running(each.pid)]
        counts = [list(owners.values()).count(each) for each in names]
        return sum(counts) == len(owners) == self.slices and max(counts) - min(counts) <= 1

    def wait_for_shares(self) -> None:
        """Wait until the members that run own all slices, in even shares."""
        eventually(self.is_even)

    def other(self, member: DaemonProcess) -> DaemonProcess:
        """Return the member to ask after this one."""
        members = list(self.members.values())
        return members[(members.index(member) + 1) % len(members)]

    def send(self, member: DaemonProcess, number: signal.Signals) -> None:
        """Send a signal to a member and the processes of its slices."""
        for pid in (member.pid, *slices_of(member).values()):
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def close(self) -> None:
        """End what runs."""
        for each in self.members.values():
            if is_running(each.pid):
                self.send(each, signal.SIGCONT)
                each.stop()
        self.engine.close()
