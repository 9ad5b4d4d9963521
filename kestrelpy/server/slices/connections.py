"""The sockets of the router: one of the client, and one for each slice that the client has asked.

    client ──▶ ClientConnection ──▶ RoutedConversation ──▶ SliceConnection ──▶ slice

A slice knows one connection of the router as one client: its leases, waits and hang-ups are those
of that client.

One rule: a side that does not read stops the other one, and what is held for all clients together
is counted, so that they do not fill the memory.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine
from typing import Final, Protocol, cast

from journal.engine import Member
from kestrelpy.errors import ServerError, SliceAway
from kestrelpy.protocol import (
    IDLE,
    MEMCACHE,
    ROUTED_MAIL,
    RoutedConversation,
    RouterHost,
    Wire,
    routed_wire,
)
from kestrelpy.server import clock
from kestrelpy.server.connections import (
    BODY_MS,
    PROGRESS_BYTES,
    UNCOUNTED_BYTES,
    ClientChannel,
    ConnectionMemory,
)
from kestrelpy.wire.keepalive import keep_alive

# Bytes of requests that wait for answers; with more the client is not read.
AHEAD_BYTES_MAX: Final = 64 << 10
# With more that a side has not read, the other one is not read; the kernel holds as much.
WRITE_HIGH_BYTES: Final = 16 << 10
# At once from one socket; less while memory is short.
READ_BYTES: Final = 256 << 10
_SHORT_READ_BYTES: Final = 16 << 10
_NO_MEMORY: Final = (
    "no memory for this request: it made no progress while connections held max_connection_memory"
)
_TOO_MANY: Final = b"SERVER_ERROR too many connections\r\n"


class RouterPort(RouterHost, Protocol):
    """The router, as its connections see it. `read_buffer` is for one read at a time."""

    memory: ConnectionMemory
    read_buffer: bytearray

    def admit(self, connection: ClientConnection) -> bool:
        """Return whether the connection may stay."""

    def dismiss(self, connection: ClientConnection) -> None:
        """Forget a connection that is gone."""

    def admit_member(self, connection: ClientConnection) -> bool:
        """Return whether the connection, which is one of another member, may stay."""

    async def connect(
        self, number: int, make: Callable[[], asyncio.BaseProtocol]
    ) -> Member | None:
        """Connect to a slice, once it serves; return the member of a fleet that has it. Raise
        SliceAway."""

    def start_task(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        """Run a task of the router."""


class _Reader(asyncio.BufferedProtocol):
    """A socket of which less is read at once while memory is short."""

    __slots__ = ("_router",)

    _router: RouterPort

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return where the socket reads to."""
        size = _SHORT_READ_BYTES if self._router.memory.is_short else READ_BYTES
        return memoryview(self._router.read_buffer)[:size]

    def buffer_updated(self, nbytes: int) -> None:
        """Take in what was read."""
        self.data_received(bytes(memoryview(self._router.read_buffer)[:nbytes]))

    def data_received(self, data: bytes) -> None:
        """Take in bytes; a channel calls this as well."""
        raise NotImplementedError


class ClientConnection(_Reader):
    """The link between a client's transport and its conversation."""

    __slots__ = (
        "_asked", "_crowded", "_ended", "_heard_s", "_is_given", "_is_leaving", "_left",
        "_moved_bytes", "_reading", "_slices", "_transport", "_unsent_mark", "_wire",
        "held_bytes", "is_slice", "moved_ms", "talk",
    )  # fmt: skip

    def __init__(
        self, router: RouterPort, wire: Wire = MEMCACHE, is_slice: bool = False
    ) -> None:
        """`is_slice`: a slice that sends messages to others, and no client."""
        self._router = router
        self.is_slice: Final = is_slice
        self._wire = ROUTED_MAIL if is_slice else routed_wire(wire)
        self._transport: asyncio.Transport | None = None
        self._slices: dict[int, SliceConnection] = {}
        self._ended: list[SliceConnection] = []  # those on which nothing more is sent
        self._left: set[int] = set()  # their slices
        self._asked: SliceConnection | None = None  # the last one on which something was sent
        self._crowded: set[int] = set()  # slices that take no more bytes now
        self._reading = True
        self._is_leaving = False  # True if the router ends
        self._is_given = False  # True if it is one of another member
        self._heard_s = clock.elapsed()
        self.talk: RoutedConversation | None = None
        self.held_bytes = self.moved_ms = 0
        self._moved_bytes = 0  # come in since the client last made progress
        self._unsent_mark = 0  # bytes that it had not read when it last made progress

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have the methods of asyncio.Transport without being one.
        self._transport = transport = cast(asyncio.Transport, transport)
        transport.set_write_buffer_limits(high=WRITE_HIGH_BYTES, low=UNCOUNTED_BYTES - 1)
        sock = transport.get_extra_info("socket")
        if sock is not None:
            keep_alive(sock)
        if not self._router.admit(self):
            transport.write(self._wire.worded(_TOO_MANY))
            transport.close()
            return
        peer = transport.get_extra_info("peername")
        name = f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) and len(peer) > 1 else "unix"
        is_local = sock is not None and sock.family == socket.AF_UNIX
        self.talk = RoutedConversation(
            self._router, name, self._wake, not is_local, self._wire
        )

    def data_received(self, data: bytes) -> None:
        self._heard_s = clock.elapsed()
        if self.talk is not None and not self._is_leaving:
            self.talk.feed(data)
            if self.held_bytes:
                self._moved_bytes += len(data)
                if self._moved_bytes >= PROGRESS_BYTES or not self.talk.is_in_body:
                    self._note_progress()
            self._go_on()

    def eof_received(self) -> bool:
        """Note the end of the client's input; its requests are still answered."""
        if self.talk is not None:
            self.talk.at_end = True
            self.talk.login.note_eof()
            self._go_on()
        return True

    def give_away(self, transport: asyncio.Transport) -> bool:
        """Be the connection of another member from here on; return False if there are too many of
        these, or it is closing."""
        talk = self.talk
        if (talk is None and self._transport is not None) or not self._router.admit_member(self):
            return False
        if talk is not None:  # it counted as a client
            talk.login.hang_up()
        self.talk, self._transport, self._is_given = None, transport, True
        return True

    def _wake(self) -> None:
        """Go on after a login."""
        if self.talk is not None:
            self.talk.run()
            self._go_on()

    def pause_writing(self) -> None:
        if self.talk is not None:
            self.talk.paused = True
            for each in (*self._slices.values(), *self._ended):
                each.pause_reading()

    def resume_writing(self) -> None:
        if self.talk is not None:
            self.talk.paused = False
            for each in (*self._slices.values(), *self._ended):
                each.resume_reading()
            self.talk.run()
            self._go_on()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport, talk = None, self.talk
        self.talk = None
        if talk is not None:
            talk.login.hang_up()
        if talk is not None or self._is_given:
            self._router.dismiss(self)
        links = [*self._slices.values(), *self._ended]
        self._slices, self._ended, self._asked = {}, [], None
        for each in links:
            each.close()
        self._router.memory.leave(self)

    # -- from the slices --------------------------------------------------------------------

    def heard(self, number: int, data: bytes) -> None:
        """Take in bytes of a slice."""
        talk = self.talk
        if data == IDLE and talk is not None and not talk.is_owed_by(number):
            link = self._slices.pop(number, None)
            if link is not None:
                link.close()
            return
        if talk is not None:
            if self.held_bytes and not talk.paused:
                self._note_progress()
            talk.heard(number, data)
            self._go_on()

    def gone(self, link: SliceConnection) -> None:
        """End, because the connection to a slice broke, unless nothing more was expected of it."""
        if link in self._ended:
            self._ended.remove(link)
        talk = self.talk
        if talk is None or (link.has_ended and not (talk.is_owed and link is self._asked)):
            return
        if self._slices.get(link.number) is link and talk.can_lose(link.number):
            del self._slices[link.number]
            self._crowded.discard(link.number)
            talk.lose(link.number)
            self._go_on()
            return
        talk.gone(link.number)
        self._go_on()

    def note_owner(self, number: int, owner: Member) -> None:
        """Let go of connections to a member that has the slice no more."""
        for each in (*self._slices.values(), *self._ended):
            if each.number == number and each.owner not in (None, owner):
                each.abort()

    def unreachable(self, number: int, why: str) -> None:
        """Refuse what waits for a slice; the next request connects again."""
        self._slices.pop(number, None)
        self._crowded.discard(number)
        if self.talk is not None:
            self.talk.unreachable(number, why)
            self._go_on()

    def note_crowded(self, number: int, is_crowded: bool) -> None:
        """Note whether a slice takes no more bytes now."""
        (self._crowded.add if is_crowded else self._crowded.discard)(number)
        self._go_on()

    # -- inside -----------------------------------------------------------------------------

    def _go_on(self) -> None:
        """Send what is there for either side, and read on if there is room for more."""
        talk, transport = self.talk, self._transport
        if talk is None or transport is None:
            return
        if talk.at_end:
            talk.settle()
        if talk.sent:
            self._send(talk)
        if talk.out:
            transport.write(_joined(talk.out))
            talk.out.clear()
        if talk.is_finished:
            transport.close()
            return
        if talk.at_end:
            self._end_input(talk)
        if self.held_bytes or self._crowded or talk.paused or talk.held_bytes >= UNCOUNTED_BYTES:
            self.count_memory()
        is_ahead = (
            bool(self._crowded) or (talk.is_blocked and talk.ahead_bytes > AHEAD_BYTES_MAX)
            or not self._has_room_to_read(talk)
        )  # fmt: skip
        if is_ahead and self._reading:
            self._reading = False
            transport.pause_reading()
        elif self._reading is is_ahead:
            self._reading = True
            transport.resume_reading()

    # -- memory -----------------------------------------------------------------------------

    def _note_progress(self) -> None:
        self.moved_ms, self._moved_bytes = clock.now_ms(), 0

    def count_memory(self) -> None:
        """Report the memory that is held for this client."""
        talk, transport = self.talk, self._transport
        if talk is not None and transport is not None and not self.is_slice:
            links = (*self._slices.values(), *self._ended)
            unsent = transport.get_write_buffer_size()
            held = talk.held_bytes + unsent + sum(each.held_bytes for each in links)
            if not self.held_bytes:
                self._note_progress()
            self._router.memory.hold(self, held)

    def _has_room_to_read(self, talk: RoutedConversation) -> bool:
        """Return whether more of a body that is held may come in now; if not, `go_on_with_room` is
        called later."""
        memory, missing = self._router.memory, talk.missing_bytes
        if not memory.is_short or not missing or self.is_slice:
            return True
        return not memory.is_waiting(self) and memory.may_go_on(self, missing)

    def may_lend(self, size: int) -> bool:
        """Return whether a slice may send so much more than its window."""
        memory, talk = self._router.memory, self.talk
        return not memory.is_short and talk is not None and not talk.paused

    def reserve(self, size: int) -> bool:
        """Return True: answers are counted as they come."""
        return True

    def release(self) -> None:
        """Do nothing: nothing is reserved."""

    def go_on_with_room(self) -> None:
        """Read on, in the next turn."""
        self._note_progress()
        asyncio.get_running_loop().call_soon(self._go_on)

    def look_at_memory(self, now_ms: int) -> None:
        """Note how much the client has read since the last look."""
        self.count_memory()
        if self._transport is None:
            return
        unsent = self._transport.get_write_buffer_size()
        if unsent > self._unsent_mark or not self._unsent_mark:
            self._unsent_mark = unsent
        elif unsent < self._unsent_mark:
            self._unsent_mark, self.moved_ms = unsent, now_ms

    def shed(self) -> None:
        """Free the memory that is held: refuse a stalled body, else close the connection."""
        if self.talk is None or self._transport is None:
            return
        if self.talk.drop_body(ServerError(_NO_MEMORY)):
            self.count_memory()
            self._go_on()  # the rest of it is read and dropped
        if self.held_bytes > AHEAD_BYTES_MAX or self._transport.get_write_buffer_size():
            self.abort()

    # -- the slices -------------------------------------------------------------------------

    def _end_input(self, talk: RoutedConversation) -> None:
        """Say in the slice that owes an answer that the client sends no more: it may be gone, so
        waits end.

        Requests that come after a wait go on over another connection.
        """
        if not talk.is_owed or (link := self._slices.get(talk.slice)) is None:
            return
        if not link.can_write_eof:
            return  # the wait has its time, unless the client or the router ends before
        if not talk.is_blocked:  # all requests have been sent
            link.write_eof()
        elif talk.has_wait:
            del self._slices[talk.slice]
            self._ended.append(link)
            self._left.add(link.number)
            link.write_eof()

    def _send(self, talk: RoutedConversation) -> None:
        if self._slices and talk.login.is_another:
            for each in self._slices.values():
                each.close()
            self._slices, self._crowded = {}, set()
        sent, talk.sent = talk.sent, []
        pieces: dict[int, list[bytes]] = {}
        for number, raw in sent:
            if number in pieces:
                pieces[number].append(raw)
            else:
                pieces[number] = [raw]
        for number, some in pieces.items():
            link = self._slices.get(number)
            if link is None and self._has_lost_leases(talk, number):
                talk.gone(number)
                return
            if link is None:
                link = self._slices[number] = SliceConnection(self._router, self, number)
                link.send(talk.login.introduction)
            link.send(_joined(some))
            self._asked = link

    def _has_lost_leases(self, talk: RoutedConversation, number: int) -> bool:
        """True if the client may have held items over an earlier connection to this slice."""
        return number in talk.opened and number in self._left

    def leave(self) -> None:
        """Answer what has come, and close: the router ends. Waits end at once."""
        self._is_leaving = True
        if self.talk is not None:
            self.talk.at_end = True
            self._go_on()

    def abort(self) -> None:
        """Close the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    @property
    def is_idle(self) -> bool:
        """True if no request of this client is under way."""
        return self.talk is None or not self.talk.is_waiting

    @property
    def is_paused(self) -> bool:
        """True while the client does not read."""
        return self.talk is not None and self.talk.paused

    def close_if_idle(self, now_s: float, idle_s: float | None) -> None:
        """Close the connection if its client has sent nothing for so long and holds nothing in a
        slice, or has sent no more of a body for BODY_MS."""
        talk, silent_s = self.talk, now_s - self._heard_s
        if talk is None or not self.is_idle or not self._reading:
            return
        is_over = idle_s is not None and silent_s > idle_s and not self._slices
        if is_over or (talk.is_in_body and silent_s > BODY_MS / 1000):
            self.abort()


class SliceConnection(_Reader):
    """One client's connection to one slice. It connects when it is made."""

    __slots__ = (
        "_channel", "_client", "_is_at_end", "_is_closed", "_is_full", "_task", "_transport",
        "_unsent", "has_ended", "number", "owner",
    )  # fmt: skip

    def __init__(self, router: RouterPort, client: ClientConnection, number: int) -> None:
        self._router, self._client = router, client
        self._channel: ClientChannel | None = None  # the transport, if it is one
        self.number = number
        self._transport: asyncio.Transport | None = None
        self._unsent: list[bytes] = []  # until it is connected
        self._is_closed = self._is_at_end = self._is_full = False
        self.owner: Member | None = None  # of the slice, as this connection was made
        self.has_ended = False  # True if the slice knows that no more is sent
        self._task = router.start_task(self._connect(router))

    async def _connect(self, router: RouterPort) -> None:
        self._client.note_crowded(self.number, True)
        try:
            self.owner = await router.connect(self.number, lambda: self)
        except SliceAway as error:
            if not self._is_closed:
                self._client.unreachable(self.number, str(error))
            return
        if self._client.is_paused:  # since before it was connected
            self.pause_reading()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport = cast(asyncio.Transport, transport)
        if self._is_closed:
            transport.close()
            return
        if isinstance(transport, ClientChannel):
            self._channel = transport
            transport.lender = self._may_lend
        transport.set_write_buffer_limits(high=WRITE_HIGH_BYTES, low=UNCOUNTED_BYTES - 1)
        unsent, self._unsent = b"".join(self._unsent), []
        transport.write(unsent)
        if self._is_at_end:
            self.write_eof()
        self._client.note_crowded(self.number, self._is_full)

    def data_received(self, data: bytes) -> None:
        """Take in bytes of the slice."""
        self._client.heard(self.number, data)

    def _may_lend(self, size: int) -> bool:
        if not self._client.may_lend(size):
            return False
        asyncio.get_running_loop().call_soon(self._client.count_memory)  # when it is lent
        return True

    @property
    def held_bytes(self) -> int:
        """The bytes that wait here, or may come at any time."""
        if self._channel is not None:
            return self._channel.held_bytes
        if self._transport is None:
            return sum(map(len, self._unsent))
        return self._transport.get_write_buffer_size()

    def pause_writing(self) -> None:
        self._is_full = True
        self._client.note_crowded(self.number, True)

    def resume_writing(self) -> None:
        self._is_full = False
        self._client.note_crowded(self.number, False)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = self._channel = None
        if not self._is_closed:
            self._client.gone(self)

    def send(self, data: bytes) -> None:
        """Send requests, now or when it is connected."""
        if self._transport is None:
            self._unsent.append(data)
        else:
            self._transport.write(data)

    @property
    def can_write_eof(self) -> bool:
        """False if the connection is of TLS: it has no end of one direction."""
        return self._transport is None or self._transport.can_write_eof()

    def write_eof(self) -> None:
        """Say that the client sends no more: a wait ends at once."""
        self._is_at_end = True
        if self._transport is not None and self.can_write_eof and not self.has_ended:
            self.has_ended = True
            self._transport.write_eof()

    def pause_reading(self) -> None:
        """Take in no more answers: the client does not read."""
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Take in answers again."""
        if self._transport is not None:
            self._transport.resume_reading()

    def abort(self) -> None:
        """Break the connection: nothing more is expected of that process, which may be asleep."""
        if self._transport is not None:
            self._transport.abort()

    def close(self) -> None:
        """Hang up: the client is gone."""
        self._is_closed = True
        self._task.cancel()
        if self._transport is not None:
            self._transport.close()


def _joined(pieces: list[bytes]) -> bytes:
    """Return pieces as one; most often there is one."""
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)
