"""The sockets of HTTP: limits on connections, and on the size and the time of a request.

    bytes ──▶ httptools ──▶ head whole? ──▶ body whole? ──▶ the application ──▶ answer
                │ 8 KiB of URL, 32 KiB of headers, 10 s       │ 10 s without progress
                └────────── one sentence, and the end ◀───────┘

The protocol class is uvicorn's, which bounds neither. Its server class is not used: it takes the
signals, ends the process and waits for open streams.

One rule: a client that sends too much, or nothing, or reads nothing, costs a bounded amount of
memory for a bounded time.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from kestrelpy.http.answers import JSON, SAFETY_HEADERS, error_body
from kestrelpy.http.memory import HttpMemory, Share
from kestrelpy.operations import ConnectionFacts, held_items, waited_for
from kestrelpy.wire.keepalive import keep_alive

if TYPE_CHECKING:
    from kestrelpy.http.call import Call

URL_BYTES_MAX: Final = 8 << 10
HEAD_BYTES_MAX: Final = 32 << 10
# The time for the head of a request, and for its body to make progress.
PATIENCE_SECONDS: Final = 10.0
KEEP_ALIVE_SECONDS: Final = 30
LINGER_SECONDS: Final = 1.0
# A client that reads nothing of its answer for this long is gone.
STALL_SECONDS: Final = 10.0
# Requests sent ahead, and the memory that each of them takes.
PIPELINED_MAX: Final = 256
_PIPELINED_PAUSE: Final = 16  # no more is read while there are as many
_PIPELINED_BYTES: Final = 4 << 10
BACKLOG: Final = 128

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

# uvicorn reports each bad request of a client as a warning of its own.
logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
log = logging.getLogger("kestrelpy.http")


class Admission(Protocol):
    """The counter of the connections."""

    def may_enter(self) -> bool:
        """Return whether one more connection may stay, and count it."""

    def new_number(self) -> int:
        """Return the number of a new connection; no other has it."""

    def leave(self) -> None:
        """Forget a connection that is gone."""

    def memory_limit(self) -> int:
        """Return how many bytes all connections together may hold."""


class HttpConnection(HttpToolsProtocol):
    """One connection. `call` is the request that is being handled."""

    def __init__(
        self, config: Config, state: ServerState, admission: Admission, memory: HttpMemory
    ) -> None:
        super().__init__(config, state, {})
        self.share = Share(memory)
        self.access_log = False
        self.call: Call | None = None
        self.at_hang_up: Callable[[], object] | None = None  # of a request without a call
        self.is_of_router = False  # True in a slice: its router speaks, for its own clients
        self.requests = 0  # so far
        self.producer = 0  # the slice where it puts into sliced queues; 0: none yet
        self._admission = admission
        self.number, self.peer = 0, ""
        self._is_in = False
        self._is_over = False  # True if it is refused, and only drops what comes
        self._head_bytes = 0  # of a head that is not whole
        self._refusal: tuple[int, str] | None = None
        self._patience: asyncio.TimerHandle | None = None
        self.running: RequestResponseCycle | None = None  # the request that is handled
        self._stall: asyncio.TimerHandle | None = None
        self._unsent = 0  # bytes of the answer at the last look

    # -- the connection ---------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have the methods of asyncio.Transport without being one.
        self._is_in = self._admission.may_enter()
        self.number = self._admission.new_number()
        peer = transport.get_extra_info("peername")
        self.peer = f"{peer[0]}:{peer[1]}" if peer else "unknown"
        sock = transport.get_extra_info("socket")
        if sock is not None:
            self.is_of_router = sock.family == socket.AF_UNIX
            keep_alive(sock)
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
        self._stop_stall()
        self.pipeline.clear()
        super().connection_lost(exc)
        if self.running is not None:
            self.running.disconnected = True
            self.running.message_event.set()
        self.share.shrink(0)
        if self.call is not None:
            self.call.hang_up()
        if self.at_hang_up is not None:
            self.at_hang_up()

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

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unsent = self.transport.get_write_buffer_size()
        self._stop_stall()
        if not self.is_of_router:  # it watches its clients, and reads as they do
            self._stall = self.loop.call_later(STALL_SECONDS, self._look_at_stall)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_stall()
        if self.call is None:
            self.share.shrink(0)

    def _look_at_stall(self) -> None:
        """Close the connection if the client has read nothing since the last look."""
        unsent, self._stall = self.transport.get_write_buffer_size(), None
        if unsent >= self._unsent:
            self.transport.abort()
            return
        self._unsent = unsent
        self._stall = self.loop.call_later(STALL_SECONDS, self._look_at_stall)

    def _stop_stall(self) -> None:
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None

    def facts(self, now_ms: int) -> ConnectionFacts:
        """Return the facts of the connection."""
        call = self.call
        leases = len(call.holder.leases) if call is not None else 0
        holds = held_items(call.holder) if call is not None else []
        return ConnectionFacts(
            self.number, "http", self.peer, leases, call is not None and call.is_waiting, None,
            self.transport.get_write_buffer_size(), self.requests, holds,
            waited_for(call.waiter) if call is not None else None,
            call.user if call is not None else None,
        )  # fmt: skip

    @property
    def is_hurried(self) -> bool:
        """True if the router of this slice wants the answer to the present request now: it has
        sent another one after it, which it does for nothing else."""
        return self.is_of_router and bool(self.pipeline)

    def end_after_this(self) -> None:
        """Answer the request that is handled, and close."""
        if self.running is not None:
            self.running.keep_alive = False

    def leave(self) -> None:
        """The server stops: answer what is under way, and close."""
        if self.call is not None:
            self.call.leave()
        self.shutdown()

    # -- the parser's events ----------------------------------------------------------------

    def on_message_begin(self) -> None:
        super().on_message_begin()
        cast(Scope, self.scope)["connection"] = self
        self._header_bytes, self._is_head_over = 0, False

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        if len(self.url) > URL_BYTES_MAX:
            self._refusal = 414, f"URL too long: at most {URL_BYTES_MAX} bytes are allowed"

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._is_head_over:  # uvicorn would add it to the headers, which were checked
            self._refusal = 400, "fields after the body (a trailer) are not read: send headers"
            return
        super().on_header(name, value)
        self._header_bytes += len(name) + len(value) + 4
        if self._header_bytes > HEAD_BYTES_MAX:
            self._refusal = 431, f"headers too large: at most {HEAD_BYTES_MAX} bytes are allowed"

    def on_headers_complete(self) -> None:
        self._is_head_over = True
        if self._refusal is None:
            super().on_headers_complete()
            if self.pipeline:
                self._hold(_PIPELINED_BYTES)
                if len(self.pipeline) < _PIPELINED_PAUSE:
                    self.flow.resume_reading()  # a client that waits may hang up
                if self.is_hurried and self.call is not None:
                    self.call.hurry()
                if len(self.pipeline) > PIPELINED_MAX:
                    self._refusal = 400, f"at most {PIPELINED_MAX} requests may be sent ahead"

    def on_body(self, body: bytes) -> None:
        if self._refusal is None:
            self._head_bytes = 0
            self._be_patient()  # it makes progress
            if self.cycle is not None and not self.cycle.response_complete:
                self._hold(len(body))
            super().on_body(body)

    def on_message_complete(self) -> None:
        if self._refusal is None:
            self._head_bytes = 0
            self._stop_patience()
            super().on_message_complete()

    def on_response_complete(self) -> None:
        self.call = self.running = self.at_hang_up = None
        if not self.flow.write_paused and not self.pipeline:
            self.share.shrink(0)
        super().on_response_complete()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self.running = cycle
        self.requests += 1
        super()._start_asgi_task(cycle, app)

    def _hold(self, size: int) -> None:
        if not self.share.hold(size):
            self._refusal = 503, "too many large requests at this moment: try again later"

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
        running, cycle = self.running, self.cycle
        if running is not None and not running.more_body:
            # It is about a later request: the one before it is answered, then it ends.
            running.keep_alive, self._is_over = False, True
            self.pipeline.clear()
            return
        if cycle is None or cycle.response_complete or not cycle.response_started:
            body = error_body(status, description)
            phrase = _STATUS[status]
            transport.write(
                b"HTTP/1.1 %d %b\r\ncontent-type: %b\r\ncontent-length: %d\r\n"
                b"%bconnection: close\r\n\r\n%b"
                % (status, phrase, JSON.encode(), len(body), _SAFETY_LINES, body)
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


_SAFETY_LINES: Final = b"".join(b"%b: %b\r\n" % pair for pair in SAFETY_HEADERS)
_STATUS: Final = {
    400: b"Bad Request", 408: b"Request Timeout", 414: b"URI Too Long",
    431: b"Request Header Fields Too Large", 503: b"Service Unavailable",
}  # fmt: skip


class HttpListener:
    """The listener, and all of its connections."""

    def __init__(
        self, app: App, admission: Admission, at_open: Callable[[], None] = lambda: None,
        at_close: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        """`at_open` begins what goes on without a connection, `at_close` ends it."""
        self._at_open = at_open
        self._at_close = at_close
        self._config = Config(
            cast(Any, app), loop="none", http="httptools", ws="none", lifespan="off",
            proxy_headers=False, log_config=None, access_log=False, server_header=False,
            date_header=False, timeout_keep_alive=KEEP_ALIVE_SECONDS,
        )  # fmt: skip
        self._config.load()
        self._state = ServerState()
        self._admission = admission
        self._memory = HttpMemory(admission.memory_limit)
        self._server: asyncio.Server | None = None

    async def listen(
        self, host: str, port: int, tls: ssl.SSLContext | None = None
    ) -> list[tuple[str, int]]:
        """Listen; return the addresses. Raise OSError."""
        loop, options = asyncio.get_running_loop(), dict[str, Any]()
        if tls is not None:
            options = {"ssl": tls, "ssl_handshake_timeout": PATIENCE_SECONDS}
        self._server = await loop.create_server(self._new, host, port, backlog=BACKLOG, **options)
        self._at_open()
        return [each.getsockname()[:2] for each in self._server.sockets]

    async def listen_unix(self, path: str) -> None:
        """Listen on a Unix socket, where the router of this slice speaks. Raise OSError."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_unix_server(self._new, path, backlog=BACKLOG)
        self._at_open()

    def _new(self) -> HttpConnection:
        return HttpConnection(self._config, self._state, self._admission, self._memory)

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
