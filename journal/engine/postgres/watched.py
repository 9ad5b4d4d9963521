"""A connection that notices that another server is the primary now.

A server that was stopped, or whose disk hangs, says nothing, and its kernel keeps its connections
alive. A failover manager promotes another one meanwhile: no client may go on waiting for the first.

    no answer for a while ──▶ connect again, as if anew ──▶ that server knows this session: wait on
                                                       └──▶ it does not: this connection is lost

One rule: a server that is slow, or waits for its standby, is waited for.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator
from typing import Any, Final

import psycopg

# After this silence of the server, look for another one.
SILENT_SECONDS: Final = 3.0
_KNOWS: Final = "SELECT FROM pg_stat_activity WHERE pid = %s AND usename = current_user"


class WatchedConnection(psycopg.Connection[tuple[Any, ...]]):
    """`connect_again` returns a plain connection to the server that is the primary now."""

    connect_again: Callable[[], psycopg.Connection[tuple[Any, ...]]] | None = None

    def wait(self, gen: Any, *args: Any, **named: Any) -> Any:
        """Wait for what the server answers, as every statement does."""
        return super().wait(self._watched(gen), *args, **named)

    def _watched(self, gen: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        """Pass on what happens on the connection; look for another server when nothing does."""
        heard_s = time.monotonic()
        try:
            asks = next(gen)
            while True:
                ready = yield asks
                if ready:
                    heard_s = time.monotonic()
                elif time.monotonic() - heard_s > SILENT_SECONDS:
                    leave_if_moved(self)
                    heard_s = time.monotonic()
                asks = gen.send(ready)
        except StopIteration as end:
            return end.value

    def has_moved(self) -> bool:
        """True if the server that takes writes now has no such session."""
        if self.connect_again is None:
            return False
        with contextlib.suppress(psycopg.Error), contextlib.closing(self.connect_again()) as other:
            return not other.execute(_KNOWS, (self.info.backend_pid,)).fetchall()
        return False


def leave_if_moved(connection: psycopg.Connection[Any]) -> None:
    """Close a connection whose server is the primary no more, and raise OperationalError. Blocks;
    call it when the server has said nothing for SILENT_SECONDS."""
    if isinstance(connection, WatchedConnection) and connection.has_moved():
        connection.close()  # what is under way here is not waited for
        raise psycopg.OperationalError("another server is the primary now")
