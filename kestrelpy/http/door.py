"""The sockets of HTTP: who may connect, how large and how slow a request may be.

    bytes ──▶ httptools ──▶ head whole? ──▶ body whole? ──▶ the application ──▶ answer
                │ 8 KiB of URL, 32 KiB of headers, 10 s       │ 10 s without progress
                └────────── one sentence, and the end ◀───────┘

The protocol class is uvicorn's, which bounds neither. Its server class is not used: it takes the
signals, ends the process and waits for open streams.

One rule: a client that sends too much, or nothing, costs a bounded amount of memory for a bounded
time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from kestrelpy.http.answers import JSON, error_body
from kestrelpy.operations import ConnectionFacts

if TYPE_CHECKING:
    from kestrelpy.http.call import Call

URL_BYTES_MAX: Final = 8 << 10
HEAD_BYTES_MAX: Final = 32 << 10
# The time for the head of a request, and for its body to make progress.
PATIENCE_SECONDS: Final = 10.0
KEEP_ALIVE_SECONDS: Final = 30
LINGER_SECONDS: Final = 1.0
BACKLOG: Final = 128

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

# uvicorn reports each bad request of a client as a warning of its own.
logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
log = logging.getLogger("kestrelpy.http")


class Admission(Protocol):
    """Who counts the connections."""

    def may_enter(self) -> bool:
        """Return whether one more connection may stay, and count it."""

    def new_number(self) -> int:
        """Return the number of a new connection; no other has it."""

    def leave(self) -> None:
        """Forget a connection that is gone."""


class HttpConnection(HttpToolsProtocol):
    """One connection. `call` is the request that is being handled."""

    def __init__(self, config: Config, state: ServerState, admission: Admission) -> None:
        super().__init__(config, state, {})
        self.access_log = False
        self.call: Call | None = None
        self._admission = admission
        self.number, self.peer = 0, ""
        self._is_in = False
        self._is_over = False  # True if it is refused, and only drops what comes
        self._head_bytes = 0  # of a head that is not whole
        self._refusal: tuple[int, str] | None = None
        self._patience: asyncio.TimerHandle | None = None

    # -- the connection ---------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have the methods of asyncio.Transport without being one.
        self._is_in = self._admission.may_enter()
        self.number = self._admission.new_number()
        peer = transport.get_extra_info("peername")
        self.peer = f"{peer[0]}:{peer[1]}" if peer else "unknown"
        super().connection_made(cast(asyncio.Transport, transport))
        if not self._is_in:
            self._end(503, "too many HTTP connections: try again later")
            return
        self._be_patient()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._is_in:
            self._admission.leave()
        self._is_in = False
        self._stop_patience()
        super().connection_lost(exc)
        if self.call is not None:
            self.call.hang_up()

    def data_received(self, data: bytes) -> None:
        if self._is_over or self.transport.is_closing():
            return
        if self._patience is None:
            self._be_patient()
        self._head_bytes += len(data)
        super().data_received(data)
        if self._refusal is not None:
            self._end(*self._refusal)
        elif self._head_bytes > URL_BYTES_MAX + HEAD_BYTES_MAX:
            self._end(431, f"headers too large: at most {HEAD_BYTES_MAX} bytes are allowed")

    def facts(self, now_ms: int) -> ConnectionFacts:
        """Return what there is to say of it."""
        call = self.call
        leases = len(call.holder.leases) if call is not None else 0
        return ConnectionFacts(
            self.number, "http", self.peer, leases, call is not None and call.is_waiting, None,
            self.transport.get_write_buffer_size(),
        )  # fmt: skip

    def leave(self) -> None:
        """The server stops: answer what is under way, and close."""
        if self.call is not None:
            self.call.leave()
        self.shutdown()

    # -- the parser's events ----------------------------------------------------------------

    def on_message_begin(self) -> None:
        super().on_message_begin()
        cast(Scope, self.scope)["connection"] = self
        self._header_bytes = 0

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        if len(self.url) > URL_BYTES_MAX:
            self._refusal = 414, f"URL too long: at most {URL_BYTES_MAX} bytes are allowed"

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        self._header_bytes += len(name) + len(value) + 4
        if self._header_bytes > HEAD_BYTES_MAX:
            self._refusal = 431, f"headers too large: at most {HEAD_BYTES_MAX} bytes are allowed"

    def on_headers_complete(self) -> None:
        if self._refusal is None:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if self._refusal is None:
            self._head_bytes = 0
            self._be_patient()  # it makes progress
            super().on_body(body)

    def on_message_complete(self) -> None:
        if self._refusal is None:
            self._head_bytes = 0
            self._stop_patience()
            super().on_message_complete()

    def on_response_complete(self) -> None:
        self.call = None
        super().on_response_complete()

    # -- bad requests -----------------------------------------------------------------------

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP/1.1 request."""
        if self._refusal is None:
            self._end(400, "this is no HTTP/1.1 request that the server can read")

    def _end(self, status: int, description: str) -> None:
        """Answer with an error, unless an answer has begun, and close."""
        self._stop_patience()
        transport = self.transport
        if self._is_over or transport.is_closing():
            return
        cycle = self.cycle
        if cycle is None or cycle.response_complete or not cycle.response_started:
            body = error_body(status, description)
            phrase = _STATUS[status]
            transport.write(
                b"HTTP/1.1 %d %b\r\ncontent-type: %b\r\ncontent-length: %d\r\n"
                b"connection: close\r\n\r\n%b"
                % (status, phrase, JSON.encode(), len(body), body)
            )
        self._is_over = True
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True  # it waits for its body
            cycle.message_event.set()
        if not transport.can_write_eof():
            transport.close()
            return
        # What still comes is dropped for a moment: a reset would take the answer from the client.
        transport.write_eof()
        self._patience = self.loop.call_later(LINGER_SECONDS, transport.close)

    def _be_patient(self) -> None:
        self._stop_patience()
        self._patience = self.loop.call_later(PATIENCE_SECONDS, self._lose_patience)

    def _stop_patience(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _lose_patience(self) -> None:
        self._patience = None
        self._end(408, f"the request did not come within {PATIENCE_SECONDS:.0f} seconds")


_STATUS: Final = {
    400: b"Bad Request", 408: b"Request Timeout", 414: b"URI Too Long",
    431: b"Request Header Fields Too Large", 503: b"Service Unavailable",
}  # fmt: skip


class Door:
    """The listener, and all of its connections."""

    def __init__(
        self, app: App, admission: Admission, at_close: Callable[[], None] = lambda: None
    ) -> None:
        """`at_close` ends what goes on without a connection."""
        self._at_close = at_close
        self._config = Config(
            cast(Any, app), loop="none", http="httptools", ws="none", lifespan="off",
            proxy_headers=False, log_config=None, access_log=False, server_header=False,
            date_header=False, timeout_keep_alive=KEEP_ALIVE_SECONDS,
        )  # fmt: skip
        self._config.load()
        self._state = ServerState()
        self._admission = admission
        self._server: asyncio.Server | None = None

    async def listen(self, host: str, port: int) -> list[tuple[str, int]]:
        """Listen; return the addresses. Raise OSError."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._new, host, port, backlog=BACKLOG)
        return [each.getsockname()[:2] for each in self._server.sockets]

    def _new(self) -> HttpConnection:
        return HttpConnection(self._config, self._state, self._admission)

    def close(self) -> None:
        """Take no new connections, and let the others answer what is under way."""
        if self._server is not None:
            self._server.close()
        self._at_close()
        for connection in list(self._state.connections):
            cast(HttpConnection, connection).leave()

    @property
    def is_empty(self) -> bool:
        """True if no connection is left."""
        return not self._state.connections

    def connections(self) -> Iterator[HttpConnection]:
        """Yield all connections."""
        for each in self._state.connections:
            yield cast(HttpConnection, each)

    def abort(self) -> None:
        """Close all connections at once."""
        for connection in list(self._state.connections):
            cast(HttpConnection, connection).transport.abort()
