"""The way from one member of a fleet to a slice of another one.

    slice 5 3f6a... secret          the first line; the answer is OK, and from then on
                                    each byte goes to the slice's own socket, and back
    slice 5/http 3f6a... secret     the same for requests of HTTP

A member listens on one port for clients and for other members. It does not look at what it passes
on: the member of the client has done that.

A connection counts as one of a client from its first bytes on, or when it has said nothing for a
while; one of a member never does.

One rule: who says which member it is must know the secret, if clients need a login; for what comes
after the first line is believed.
"""

from __future__ import annotations

import asyncio
import hmac
import ssl
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Final, NamedTuple, Protocol, cast

from kestrelpy.wire.keepalive import keep_alive_between_members

_FIRST: Final = b"slice "
_LINE_BYTES_MAX: Final = 1024
_OK: Final = b"OK\r\n"
_NOT_ONE: Final = b"SERVER_ERROR this is no line of a member of this fleet\r\n"
_STRANGE: Final = b"SERVER_ERROR its secret_file in [fleet] is not that of this member\r\n"
_OTHER: Final = b"SERVER_ERROR its slices or groups in [fleet] are not those of this member\r\n"
_AWAY: Final = b"SERVER_ERROR this member does not have the slice now\r\n"
_NO_HTTP: Final = b'SERVER_ERROR this member has http_port = "off"\r\n'
_HTTP: Final = b"/http"
_FULL: Final = b"SERVER_ERROR this member has too many connections of other members\r\n"
# A connection that has said nothing for so long is one of a client: a member speaks at once.
SILENT_SECONDS: Final = 1.0
# Connections that have said nothing yet; any more are of clients at once.
UNKNOWN_MAX: Final = 256


class WantedSlice(NamedTuple):
    """What a member asks for: a slice, by HTTP or by the memcache protocol."""

    number: int
    is_http: bool = False


class Key:
    """What members of one fleet have in common: where queues live, and a secret."""

    __slots__ = ("_layout", "_secret")

    def __init__(self, layout: str, secret: str) -> None:
        """`layout` names the places of all queues, `secret` is "" if clients need no login."""
        self._layout, self._secret = layout.encode(), secret.encode()

    def line(self, wanted: WantedSlice) -> bytes:
        """Return the first line of a connection to this slice."""
        slice_ = b"%d%b" % (wanted.number, _HTTP if wanted.is_http else b"")
        return b" ".join([b"slice", slice_, self._layout, self._secret]).rstrip() + b"\r\n"

    def read(self, line: bytes) -> WantedSlice | bytes:
        """Return what a first line asks for, or the refusal."""
        words = line.split()
        if not 3 <= len(words) <= 4:
            return _NOT_ONE
        number = words[1].removesuffix(_HTTP)
        if not number.isdigit():
            return _NOT_ONE
        secret = words[3] if len(words) == 4 else b""
        if not hmac.compare_digest(secret, self._secret):
            return _STRANGE
        if words[2] != self._layout:
            return _OTHER
        return WantedSlice(int(number), words[1] != number)


class EnteringClient(Protocol):
    """The connection that this is, if it is one of a client."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """As of any protocol."""

    def data_received(self, data: bytes) -> None:
        """As of any protocol."""

    def eof_received(self) -> bool | None:
        """As of any protocol."""

    def connection_lost(self, exc: Exception | None) -> None:
        """As of any protocol."""

    def give_away(self, transport: asyncio.Transport) -> bool:
        """Be the connection of a member from here on; return False if there are too many of these,
        or it is closing."""


class DoorPort(Protocol):
    """The router, as its doors see it."""

    key: Key

    @property
    def has_http(self) -> bool:
        """True if the slices here speak HTTP."""

    def socket_of(self, wanted: WantedSlice) -> Path | None:
        """Return the socket of a slice that serves here; None: it does not."""

    def start_task(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        """Run a task of the router."""


class Waiting:
    """The connections that have said nothing yet, the oldest first."""

    __slots__ = ("_is_over", "_now_s", "_since_s")

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s, self._since_s = now_s, dict[Entrance, float]()
        self._is_over = False

    def take(self, entrance: Entrance) -> bool:
        """Let a connection wait for its first bytes; return False if too many do."""
        if self._is_over or len(self._since_s) >= UNKNOWN_MAX:
            return False
        self._since_s[entrance] = self._now_s()
        return True

    def leave(self, entrance: Entrance) -> None:
        """Forget a connection: it is known what it is, or it is gone."""
        self._since_s.pop(entrance, None)

    def look(self) -> None:
        """Count those that have been silent for too long as clients."""
        late_s = self._now_s() - SILENT_SECONDS
        for entrance in [each for each, since_s in self._since_s.items() if since_s <= late_s]:
            entrance.enter()

    def close(self) -> None:
        """Count all as clients, which hear that the server ends, and let no other one wait."""
        self._is_over = True
        for entrance in list(self._since_s):
            entrance.enter()


class Entrance(asyncio.Protocol):
    """A connection until its first bytes say whether it is of a client or of a member."""

    __slots__ = ("_begun", "_client", "_is_in", "_port", "_transport", "_waiting")

    def __init__(self, port: DoorPort, client: EnteringClient, waiting: Waiting) -> None:
        self._port, self._client, self._waiting = port, client, waiting
        self._transport: asyncio.Transport | None = None
        self._begun = b""
        self._is_in = False  # True if it counts as one of a client

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if not self._waiting.take(self):
            self.enter()

    def enter(self) -> None:
        """Count as a connection of a client; it may be refused."""
        self._waiting.leave(self)
        if not self._is_in and self._transport is not None:
            self._is_in = True
            self._client.connection_made(self._transport)

    def data_received(self, data: bytes) -> None:
        transport, begun = self._transport, self._begun + data
        if transport is None or transport.is_closing():
            return
        if not (begun.startswith(_FIRST) or _FIRST.startswith(begun)):
            self.enter()
            if transport.is_closing():  # there are too many
                return
            transport.set_protocol(cast(asyncio.BaseProtocol, self._client))
            self._client.data_received(begun)
            return
        line, end, rest = begun.partition(b"\n")
        if not end and len(begun) <= _LINE_BYTES_MAX:
            self._begun = begun
            return
        found = self._lookup(line) if end and not rest else _NOT_ONE
        if isinstance(found, bytes) or not self._client.give_away(transport):
            transport.write(found if isinstance(found, bytes) else _FULL)
            transport.close()
            return
        self._waiting.leave(self)
        _end_with_network(transport)
        near = Side(self._client)
        transport.set_protocol(near)
        near.connection_made(transport)
        self._port.start_task(join(near, found))

    def _lookup(self, line: bytes) -> Path | bytes:
        """Return the socket for which a first line asks, or the refusal."""
        wanted = self._port.key.read(line)
        if isinstance(wanted, bytes):
            return wanted
        if wanted.is_http and not self._port.has_http:
            return _NO_HTTP
        return self._port.socket_of(wanted) or _AWAY

    def eof_received(self) -> bool | None:
        self.enter()
        return self._client.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._waiting.leave(self)
        if self._is_in:
            self._client.connection_lost(exc)


class Side(asyncio.Protocol):
    """One of the two connections that are joined. What one gets the other one sends."""

    __slots__ = ("_client", "_transport", "other")

    def __init__(self, client: EnteringClient | None = None) -> None:
        """`client` is told of the end."""
        self._client = client
        self._transport: asyncio.Transport | None = None
        self.other: Side | None = None

    @property
    def transport(self) -> asyncio.Transport | None:
        """The connection; None: it is lost."""
        return self._transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self.other is not None and (out := self.other.transport) is not None:
            out.write(data)

    def eof_received(self) -> bool:
        if self.other is not None and (out := self.other.transport) is not None:
            if not out.can_write_eof():  # TLS has no half of an end
                return False
            out.write_eof()
        return self.other is not None

    def pause_writing(self) -> None:
        if self.other is not None and (source := self.other.transport) is not None:
            source.pause_reading()

    def resume_writing(self) -> None:
        if self.other is not None and (source := self.other.transport) is not None:
            source.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self.other is not None and (out := self.other.transport) is not None:
            out.close()
        if self._client is not None:
            self._client.connection_lost(exc)


async def join(near: Side, path: Path) -> None:
    """Join a member's connection to the slice with this socket."""
    far = Side()
    try:
        await asyncio.get_running_loop().create_unix_connection(lambda: far, str(path))
    except OSError:  # it has ended just now
        if near.transport is not None:
            near.transport.write(_AWAY)
            near.transport.close()
        return
    if near.transport is None or far.transport is None:  # one has ended meanwhile
        for each in (near.transport, far.transport):
            if each is not None:
                each.close()
        return
    near.other, far.other = far, near
    near.transport.write(_OK)


class _Asking(asyncio.Protocol):
    """A connection to another member until its answer to the first line."""

    __slots__ = ("_answer", "_line", "begun")

    def __init__(self, line: bytes, answer: asyncio.Future[bytes]) -> None:
        self._line, self._answer = line, answer
        self.begun = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast(asyncio.Transport, transport).write(self._line)

    def data_received(self, data: bytes) -> None:
        self.begun += data
        if (b"\n" in self.begun or len(self.begun) > _LINE_BYTES_MAX) and not self._answer.done():
            self._answer.set_result(self.begun)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._answer.done():
            self._answer.set_result(self.begun)


def _end_with_network(transport: asyncio.BaseTransport) -> None:
    """Let a connection of two members end soon if the network between them does."""
    sock = transport.get_extra_info("socket")
    if sock is not None:
        keep_alive_between_members(sock)


def _one_line(said: bytes) -> str:
    """Return the first line of an answer, for a client: whatever listens there may have said it."""
    text = said.partition(b"\n")[0].decode("ascii", "replace").strip()
    text = text.removeprefix("SERVER_ERROR ")
    return "".join(each if each.isprintable() else "?" for each in text)


class NotThere(Exception):
    """A member does not let this one to a slice; the text says why."""


async def reach(
    address: tuple[str, int], line: bytes, make: Callable[[], asyncio.BaseProtocol],
    tls: ssl.SSLContext | None = None,
) -> None:  # fmt: skip
    """Connect to a slice of the member at this address, and make the protocol there; raise NotThere
    or OSError."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[bytes] = loop.create_future()
    host, port = address
    transport, asking = await loop.create_connection(
        lambda: _Asking(line, answer), host, port, ssl=tls
    )
    _end_with_network(transport)
    try:
        await answer
    except asyncio.CancelledError:
        transport.abort()
        raise
    said = b"" if transport.is_closing() and asking.begun == _OK else asking.begun
    if said != _OK:  # or more has come, or the connection has ended, since the answer
        transport.abort()
        raise NotThere(_one_line(said) or "it closed the connection")
    protocol = make()
    transport.set_protocol(protocol)
    protocol.connection_made(transport)
