"""PostgreSQL servers that replicate to each other, and a script in place of a failover manager.

    n1  primary ──each commit waits for──▶ n2  standby
        └────────────────────────────────▶ n3  standby that no commit waits for

When the primary has died, the standby that every commit waited for is promoted; it waits for the
third server, and the dead one comes back as a copy. When a standby has died, it is started again.

One rule: only the one standby that is named has everything that was acknowledged, and only it is
promoted. So a former primary that lives on cannot acknowledge anything without it. This script
sees its own child processes die; on real machines a failover manager has to find out who lives.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from journal.engine.postgres import make_tables
from kestrelpy.examples.fleet.postgres_server import PostgresServer

log = logging.getLogger("kestrelpy.examples")

NAMES: Final = ("n1", "n2", "n3")
STANDBYS: Final = "synchronous_standby_names"
_STREAMS: Final = (
    "SELECT 1 FROM pg_stat_replication WHERE application_name = '{}' AND state = 'streaming'"
)
_FOLLOW_SECONDS: Final = 3.0
_LOOK_SECONDS: Final = 0.05


class Cluster:
    """The servers of one folder. `servers[0]` is the primary, `servers[1]` the named standby."""

    def __init__(self, folder: Path, names: Sequence[str] = NAMES) -> None:
        """Two servers or more; nothing is started yet."""
        self.folder = folder
        self.servers = [PostgresServer(folder, name) for name in names]

    @property
    def primary(self) -> PostgresServer:
        """The server that takes commits."""
        return self.servers[0]

    @property
    def standby(self) -> PostgresServer:
        """The server that has every commit that was acknowledged."""
        return self.servers[1]

    @property
    def address(self) -> str:
        """The address of all of them, for who wants the primary, as libpq takes it."""
        hosts = ",".join(sorted(f"{each.host}:{each.port}" for each in self.servers))
        return f"postgresql://kestrel@{hosts}/postgres?target_session_attrs=read-write"

    def start(self) -> None:
        """Make and start them all, with the tables of the engine."""
        self.primary.make()
        self.primary.start()
        make_tables(self.primary.address)
        for server in self.servers[1:]:
            self._join(server)
        self._name_standby()

    def stop(self) -> None:
        """Stop those that run, the primary last."""
        for server in reversed(self.servers):
            if not server.has_ended:
                server.stop()

    def look(self) -> str:
        """Mend what has died since the last look; return what was done, or ""."""
        if self.primary.has_ended:
            return self.fail_over()
        for server in self.servers[1:]:
            if server.has_ended:
                server.start()
                return f"PostgreSQL {server.name}, a standby, had died and is started again"
        return ""

    def fail_over(self) -> str:
        """Promote the named standby in place of a primary that has died; return what was done."""
        dead = self.servers.pop(0)
        dead.kill()  # what is left of it
        new, others = self.servers[0], self.servers[1:]
        if others:
            self._name_standby()
        new.promote()
        for server in others:
            server.follow(new)
            if not self._streams(server, _FOLLOW_SECONDS):
                # It had received more than the new primary: commits that were not acknowledged.
                server.stop()
                self._join(server)
        self._join(dead)
        self.servers.append(dead)
        self._name_standby()
        return (
            f"PostgreSQL {dead.name}, the primary, had died: {new.name} is the primary now, each "
            f"commit waits for {self.standby.name}, and {dead.name} is a new copy"
        )

    def _join(self, server: PostgresServer) -> None:
        server.copy(self.primary)
        server.start()

    def _name_standby(self) -> None:
        """Let each commit of the primary wait for the standby."""
        self.primary.set(STANDBYS, self.standby.name)

    def _streams(self, server: PostgresServer, seconds: float) -> bool:
        """True if the primary sends its log to that server, at once or soon."""
        deadline = time.monotonic() + seconds
        while not self.primary.ask(_STREAMS.format(server.name)):
            if time.monotonic() > deadline:
                return False
            time.sleep(_LOOK_SECONDS)
        return True
