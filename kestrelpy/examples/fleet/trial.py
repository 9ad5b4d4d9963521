"""A fleet under one folder: three PostgreSQL servers and some members, which are looked after.

    Cluster: n1 ▶ n2 ▶ n3              a dead server is started again, or replaced
       ▲
    member a, member b                 a dead member is started again, three seconds later

Each member has a loopback address of its own, as on machines of their own. Two members of one slice
have the same ports as well: so the page of the standby links to the owner. The page of members that
share several slices is the same at each.

One rule: however it ends, no process is left behind.
"""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from string import ascii_lowercase
from types import TracebackType
from typing import Final, Self

from journal.engine import EngineAway, Owner
from journal.engine.postgres import PostgresEngine, drain
from kestrelpy.examples.fleet.cluster import Cluster
from kestrelpy.examples.fresh import Server
from kestrelpy.fleet import owned

MEMBERS: Final = 2
MEMBERS_MAX: Final = len(ascii_lowercase)
_HOST: Final = "127.0.0.1"
_OTHER_HOST: Final = "::1"  # macOS has no 127.0.0.2
SLICE: Final = 1
_AWAY_SECONDS: Final = 3.0
_END_SECONDS: Final = 60.0
_SHARE_SECONDS: Final = 120.0
_LOOK_SECONDS: Final = 0.1
_CONFIG: Final = """\
[server]
host = "{host}"
http_host = "{host}"

[fleet]
engine = "{engine}"
name = "{name}"
address = "{address}"
takeover = "{takeover}"
slices = {slices}
"""


class Trial:
    """A context: inside it the fleet runs."""

    def __init__(
        self, folder: Path, say: Callable[[str], None], takeover: str = "3s", slices: int = 1,
        members: int = MEMBERS,
    ) -> None:  # fmt: skip
        """The folder is one that other users may pass through. `say` gets what happens."""
        self.folder = folder
        self.say = say
        self.takeover = takeover
        self.slices = slices
        self.cluster = Cluster(folder)
        names = ascii_lowercase[:members]
        self.members = {
            name: Server((host, 0), folder / name)
            for name, host in zip(names, _hosts(members), strict=True)
        }
        self.owner: Owner | None = None  # of the only slice
        self.owners: dict[int, str] = {}  # the name of the member that owns each slice
        self._told = ""  # the last words on them
        self._drained = ""
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
        """Where the members answer; of one slice one of them serves, of several each does."""
        return [member.address for member in self.members.values()]

    def owner_process(self) -> Server | None:
        """Return the member that owns the data according to the engine."""
        return self.members[self.owner.member.name] if self.owner is not None else None

    def look(self) -> None:
        """Mend what has died since the last look, and say what has changed."""
        if done := self.cluster.look():
            self.say(done)
        self._look_at_owners()
        self._look_at_members()

    def start(self) -> None:
        """Start the servers, then the members; return when all slices have an owner."""
        self.cluster.start()
        self._engine = PostgresEngine(self.cluster.address)
        port, http_port = 0, "0"  # any free ones; the second member takes those of the first
        for name, member in self.members.items():
            assert member.folder is not None
            member.folder.mkdir()
            host = member.address[0]
            address = in_url(host)
            if self.slices > 1:  # the others connect to it there
                port = _free_port(host)
                address = f"{address}:{port}"
            config = _CONFIG.format(
                engine=self.cluster.address, name=name, takeover=self.takeover, host=host,
                address=address, slices=self.slices,
            )  # fmt: skip
            (member.folder / "kestrelpy.toml").write_text(config)
            member.address, member.http_port = (host, port), http_port
            member.start()
            port, http_port = member.address[1], member.http_port
        self.look()
        deadline = time.monotonic() + _SHARE_SECONDS
        while self.slices > 1 and not self.is_shared:
            if time.monotonic() > deadline:
                raise RuntimeError(f"not every slice has an owner: {self.shares()}")
            time.sleep(_LOOK_SECONDS)
            self.look()

    @property
    def is_shared(self) -> bool:
        """True if every slice has an owner that runs, and no member owns more than its share."""
        names = {name for name, each in self.members.items() if is_alive(each)} - {self._drained}
        counts = [sum(owner == name for owner in self.owners.values()) for name in names]
        return sum(counts) == self.slices and max(counts) - min(counts) <= 1

    def shares(self) -> str:
        """Return who owns which slices."""
        words = []
        for name in self.members:
            numbers = [number for number, owner in sorted(self.owners.items()) if owner == name]
            words.append(f"{name} owns {' '.join(map(str, numbers)) or 'none'}")
        return ", ".join(words)

    def kill(self, name: str) -> None:
        """Kill a member with `kill -9`: its router, and the processes of its slices."""
        member = self.members[name]
        assert member.process is not None
        os.killpg(member.process.pid, signal.SIGKILL)
        member.process.wait()

    def drain(self, name: str) -> None:
        """Let the other members take the slices of this one; "": no member is drained any more."""
        if self._drained:
            drain(self.cluster.address, self._drained, False)
        self._drained = name
        if name:
            drain(self.cluster.address, name, True)

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

    def _look_at_owners(self) -> None:
        assert self._engine is not None
        try:
            owners = self._engine.owners()
        except EngineAway:
            return
        self.owners = {number: each.name for number, each in owned(owners).items()}
        if self.slices > 1:
            if self.is_shared and self.shares() != self._told:
                self._told = self.shares()
                self.say(self._told)
            return
        owner = owners.get(SLICE)
        if owner is not None and (self.owner is None or owner.epoch != self.owner.epoch):
            self.say(f"member {owner.member.name} owns the data, in epoch {owner.epoch}")
        self.owner = owner


def in_url(host: str) -> str:
    """Return a host as it stands in front of a port."""
    return f"[{host}]" if ":" in host else host


def is_alive(member: Server) -> bool:
    """True if the process of a member runs."""
    return member.process is not None and member.process.poll() is None


def _hosts(count: int) -> list[str]:
    """Return a loopback address for each member, all different where this machine has so many."""
    found = [_HOST]
    for number in range(2, count + 1):
        for host in (f"127.0.0.{number}", _OTHER_HOST):
            if host not in found and _free_port(host):
                found.append(host)
                break
        else:
            found.append(_HOST)
    if count > 1 and found[1] == _HOST:
        raise RuntimeError(f"no second loopback address: neither 127.0.0.2 nor {_OTHER_HOST}")
    return found


def _free_port(host: str) -> int:
    """Return a port that is free there; 0: this machine does not have the address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.create_server((host, 0), family=family) as server:
            return int(server.getsockname()[1])
    except OSError:
        return 0
