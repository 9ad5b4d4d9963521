"""HTTP within the daemon: loaded only if it is on, with a part of the connections for itself.

One rule: with http_port = "off" nothing of it is imported.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from kestrelpy.server.connections import CannotListen, Revocable
from kestrelpy.server.descriptors import HTTP_PART

if TYPE_CHECKING:
    from kestrelpy.http import Admission, HttpConnection, HttpHost, HttpListener, SlicesPort

    Make = Callable[[Admission], HttpListener]



def serving(host: HttpHost, allowed_hosts: Iterable[str]) -> Make:
    """Return what makes the listener of a daemon."""
    from kestrelpy.http import open_listener

    return lambda side: open_listener(host, side, frozenset(allowed_hosts))


def routing(slices: SlicesPort, allowed_hosts: Iterable[str]) -> Make:
    """Return what makes the listener of a router."""
    from kestrelpy.http import open_router

    return lambda side: open_router(slices, side, frozenset(allowed_hosts))


class HttpSide:
    """The HTTP side of one process. `allowance` returns how many connections all wires may have
    now, `memory` how many bytes these may hold."""

    def __init__(
        self, allowance: Callable[[], int], memory: Callable[[], int],
        new_number: Callable[[], int],
    ) -> None:  # fmt: skip
        """`new_number` numbers the connections of all wires."""
        self._allowance = allowance
        self._memory = memory
        self.new_number = new_number
        self._listener: HttpListener | None = None
        self.connections = 0
        self.port: int | None = None  # None: it does not listen

    async def listen_unix(self, make: Make, path: str) -> None:
        """Listen on a Unix socket, for the router of this slice. Raise CannotListen."""
        listener = make(self)
        try:
            await listener.listen_unix(path)
        except OSError as error:
            raise CannotListen(f"cannot listen on {path} for HTTP: {error.strerror}") from error
        self._listener = listener

    async def listen(
        self, make: Make, address: str, port: int, tls: ssl.SSLContext | None = None
    ) -> list[str]:
        """Listen; return a line for each address. Raise CannotListen."""
        listener = make(self)
        try:
            names = await listener.listen(address, port, tls)
        except OSError as error:
            why = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
            raise CannotListen(f"cannot listen on {address}:{port} for HTTP: {why}") from error
        self._listener, self.port = listener, names[0][1] if names else None
        return [f"listening: http on {name}:{port}" for name, port in names]

    def may_enter(self) -> bool:
        """Return whether one more connection may stay, and count it."""
        if self.connections >= max(self._allowance() // HTTP_PART, 1):
            return False
        self.connections += 1
        return True

    def leave(self) -> None:
        """Forget a connection that is gone."""
        self.connections -= 1

    def memory_limit(self) -> int:
        """Return how many bytes all connections together may hold."""
        return self._memory() // HTTP_PART

    def connected(self) -> Iterable[HttpConnection]:
        """Return all connections."""
        return self._listener.connections() if self._listener is not None else ()

    def close_connection(self, number: int) -> bool:
        """Close this connection at once; return False if there is none."""
        for each in self.connected():
            if each.number == number:
                each.transport.abort()
                return True
        return False

    def calls(self) -> Iterator[Revocable]:
        """Yield the requests under way."""
        return (each.call for each in self.connected() if each.call is not None)

    def close(self) -> None:
        """Take no new connections, and let the others answer what is under way."""
        if self._listener is not None:
            self._listener.close()

    @property
    def is_empty(self) -> bool:
        """True if no connection is left."""
        return self._listener is None or self._listener.is_empty

    def abort(self) -> None:
        """Close all connections at once."""
        if self._listener is not None:
            self._listener.abort()
