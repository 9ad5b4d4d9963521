"""Two members on a PostgreSQL and its standby: killed, stopped and woken while clients go on."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from journal.engine import SLICE, EngineAway
from journal.engine.postgres import PostgresEngine
from kestrelpy.examples.fleet.cluster import Cluster
from kestrelpy.examples.fleet.postgres_server import folder_of_servers
from tests.support.daemon import DaemonProcess

SECONDS: Final = 90.0
TAKEOVER_S: Final = 2
_LOOK_SECONDS: Final = 0.02
_SETTINGS: Final = """
[queue_defaults]
max_attempts = "none"
[queues.keyed]
key_format = "json"
key = ["k"]
[schedules.tick]
cron = "* * * * * *"
queue = "ticks"
catch_up = "all"
"""


class Pair:
    """A cluster of two servers and two members; one member owns the data."""

    def __init__(self, folder: Path, cluster: Cluster) -> None:
        self.cluster = cluster
        self.engine = PostgresEngine(cluster.address)
        self.members = {
            name: DaemonProcess(folder / name, config=self._config(name)) for name in ("a", "b")
        }

    def _config(self, name: str) -> str:
        return (
            f'[fleet]\nengine = "{self.cluster.address}"\nname = "{name}"\n'
            f'takeover = "{TAKEOVER_S}s"\naddress = "there:{name}"\n{_SETTINGS}'
        )

    @property
    def epoch(self) -> int:
        """The epoch of the last claim."""
        owner = self.engine.owners().get(SLICE)
        return 0 if owner is None else owner.epoch

    def owner(self) -> DaemonProcess:
        """Return the member that owns the data and has committed since its claim."""
        found: list[DaemonProcess] = []

        def is_owned() -> bool:
            owner = self.engine.owners().get(SLICE)
            if owner is not None and not owner.has_released and owner.age_s < TAKEOVER_S:
                found.append(self.members[owner.member.name])
            return bool(found)

        until(is_owned, "a member owns the data", self)
        return found[0]

    def other(self, member: DaemonProcess) -> DaemonProcess:
        """Return the other member."""
        (found,) = (each for each in self.members.values() if each is not member)
        return found

    def wait_for_standby(self, member: DaemonProcess) -> None:
        """Wait until this member says that it stands by the present owner."""
        says = f"standby of {self.other(member).data_dir.name} "
        until(lambda: any(says in line for line in member.lines[-3:]), says, self)

    def lines(self) -> str:
        """Return what the members have said last."""
        return "".join(
            f"{name}: {line}" for name, each in self.members.items() for line in each.lines[-12:]
        )


@contextmanager
def running_pair(folder: Path) -> Iterator[Pair]:
    """Give a pair that serves; both end."""
    with folder_of_servers() as servers:
        cluster = Cluster(servers, ("n1", "n2"))
        pair: Pair | None = None
        try:
            cluster.start()
            pair = Pair(folder, cluster)
            with pair.members["a"], pair.members["b"]:
                yield pair
                for member in pair.members.values():
                    assert member.stop() == 0
        finally:
            if pair is not None:
                for member in pair.members.values():
                    with suppress(ProcessLookupError, AssertionError):
                        os.kill(member.pid, signal.SIGCONT)
                pair.engine.close()
            cluster.stop()


def until(condition: Callable[[], object], what: str, pair: Pair) -> None:
    """Look again and again until it is so; an engine that is away is looked at again."""
    deadline = time.monotonic() + SECONDS
    while True:
        with suppress(EngineAway):
            if condition():
                return
        assert time.monotonic() < deadline, f"not in {SECONDS:.0f} s: {what}\n{pair.lines()}"
        time.sleep(_LOOK_SECONDS)
