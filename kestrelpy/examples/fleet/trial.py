"""A fleet under one folder: three PostgreSQL servers and two members, which are looked after.

    Cluster: n1 ▶ n2 ▶ n3              a dead server is started again, or replaced
       ▲
    member a, member b                 a dead member is started again, three seconds later

Each member has a loopback address of its own, and both have the same ports, as on two machines: so
the page of the standby links to the owner.

One rule: however it ends, no process is left behind.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from journal.engine import EngineAway, Owner
from journal.engine.postgres import PostgresEngine
from kestrelpy.examples.fleet.cluster import Cluster
from kestrelpy.examples.fresh import Server

MEMBERS: Final = ("a", "b")
_HOST: Final = "127.0.0.1"
_OTHER_HOSTS: Final = ("127.0.0.2", "::1")  # macOS has the second one only
SLICE: Final = 1
_AWAY_SECONDS: Final = 3.0
_END_SECONDS: Final = 30.0
_CONFIG: Final = """\
[server]
host = "{host}"
http_host = "{host}"

[fleet]
engine = "{engine}"
name = "{name}"
address = "{address}"
takeover = "{takeover}"
"""


class Trial:
    """A context: inside it the fleet runs."""

    def __init__(self, folder: Path, say: Callable[[str], None], takeover: str = "3s") -> None:
        """The folder is one that other users may pass through. `say` gets what happens."""
        self.folder = folder
        self.say = say
        self.takeover = takeover
        self.cluster = Cluster(folder)
        self.members = {
            name: Server((host, 0), folder / name)
            for name, host in zip(MEMBERS, (_HOST, _other_host()), strict=True)
        }
        self.owner: Owner | None = None
        self._engine: PostgresEngine | None = None
        self._gone: dict[str, float] = {}

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self.end()

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Where the members answer; one of them serves."""
        return [member.address for member in self.members.values()]

    def owner_process(self) -> Server | None:
        """Return the member that owns the data according to the engine."""
        return self.members[self.owner.member.name] if self.owner is not None else None

    def look(self) -> None:
        """Mend what has died since the last look, and say what has changed."""
        if done := self.cluster.look():
            self.say(done)
        self._look_at_owner()
        self._look_at_members()

    def start(self) -> None:
        """Start the servers, then the members; return when one of them serves."""
        self.cluster.start()
        self._engine = PostgresEngine(self.cluster.address)
        port, http_port = 0, "0"  # any free ones; the second member takes those of the first
        for name, member in self.members.items():
            assert member.folder is not None
            member.folder.mkdir()
            host = member.address[0]
            config = _CONFIG.format(
                engine=self.cluster.address, name=name, takeover=self.takeover, host=host,
                address=in_url(host),
            )  # fmt: skip
            (member.folder / "kestrelpy.toml").write_text(config)
            member.address, member.http_port = (host, port), http_port
            member.start()
            port, http_port = member.address[1], member.http_port
        self.look()

    def end(self) -> None:
        """Stop what runs."""
        for member in self.members.values():
            if member.process is not None:
                member.process.terminate()
        for member in self.members.values():
            if member.process is not None:
                member.process.wait(_END_SECONDS)
        if self._engine is not None:
            self._engine.close()
        self.cluster.stop()

    def _look_at_members(self) -> None:
        for name, member in self.members.items():
            if member.process is None or member.process.poll() is None:
                continue
            if name not in self._gone:
                self._gone[name] = time.monotonic()
                self.say(f"member {name} has died")
            elif time.monotonic() - self._gone[name] > _AWAY_SECONDS:
                del self._gone[name]
                member.start()
                self.say(f"member {name} is started again: pid {member.process.pid}")

    def _look_at_owner(self) -> None:
        assert self._engine is not None
        try:
            owner = self._engine.owners().get(SLICE)
        except EngineAway:
            return
        if owner is not None and (self.owner is None or owner.epoch != self.owner.epoch):
            self.say(f"member {owner.member.name} owns the data, in epoch {owner.epoch}")
        self.owner = owner


def in_url(host: str) -> str:
    """Return a host as it stands in front of a port."""
    return f"[{host}]" if ":" in host else host


def _other_host() -> str:
    """Return a second loopback address; raise RuntimeError if this machine has none."""
    for host in _OTHER_HOSTS:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            socket.create_server((host, 0), family=family).close()
        except OSError:
            continue
        return host
    raise RuntimeError(f"no second loopback address: neither {' nor '.join(_OTHER_HOSTS)}")
