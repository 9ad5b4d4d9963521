"""One socket: bytes in, replies out in one write per turn.

One rule: a client that does not read is not read from, so its answers are bounded, and neither is
one that has sent more than its share; and its end, however it comes, gives back what it held.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import Final, Protocol, cast

from kestrelpy.core.broker import Broker
from kestrelpy.errors import ServerError
from kestrelpy.protocol.conversation import Conversation
from kestrelpy.protocol.host import Host
from kestrelpy.protocol.memcache import Lines
from kestrelpy.server import clock
from kestrelpy.server.connection_memory import UNCOUNTED_BYTES, ConnectionMemory
from kestrelpy.server.turn import Turn

# How much may come in while the conversation is blocked, or has used up its share; then the socket
# is left alone.
AHEAD_BYTES_MAX: Final = 64 << 10
WRITE_HIGH_BYTES: Final = 256 << 10
_NO_MEMORY: Final = (
    "no memory for this item: it came no further while connections held max_connection_memory"
)


class Door(Host, Protocol):
    """The daemon, as a connection sees it."""

    broker: Broker
    memory: ConnectionMemory
    turn: Turn
    lines: Lines
    is_leaving: bool

    def admit(self, connection: Connection) -> bool:
        """May it stay?"""

    def dismiss(self, connection: Connection) -> None:
        """It is gone."""


class Connection(asyncio.Protocol):
    """Between a transport and a conversation."""

    __slots__ = (
        "_at_end", "_daemon", "_memory", "_reading", "_reserved_bytes", "_shares", "_transport",
        "_turn", "_unsent_bytes", "conversation", "heavy_until_ms", "held_bytes", "is_lined_up",
        "is_local", "moved_ms",
    )  # fmt: skip

    def __init__(self, daemon: Door) -> None:
        self._daemon = daemon
        self._turn = daemon.turn
        self._shares = daemon.turn.shares
        self._transport: asyncio.Transport | None = None
        self._reading = True
        self._at_end = False
        self.is_local = False  # through the Unix socket
        self.conversation: Conversation | None = None
        self.heavy_until_ms = 0
        self.is_lined_up = False
        self._memory = daemon.memory
        self._reserved_bytes = 0  # for an answer that is being made
        self._unsent_bytes = 0  # answers of which not all is sent: each is kept until all of it is
        self.held_bytes = 0
        self.moved_ms = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have the methods of asyncio.Transport without being one.
        transport = cast(asyncio.Transport, transport)
        self._transport = transport
        transport.set_write_buffer_limits(high=WRITE_HIGH_BYTES)
        peer = transport.get_extra_info("peername")
        name = f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) and len(peer) > 1 else "unix"
        sock = transport.get_extra_info("socket")
        if sock is not None and isinstance(peer, tuple):
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self.is_local = sock is not None and sock.family == socket.AF_UNIX
        if not self._daemon.admit(self):
            if not self._daemon.is_leaving:
                transport.write(b"SERVER_ERROR too many connections\r\n")
            transport.close()
            return
        self.conversation = Conversation(
            self._daemon.broker, self._daemon, name, self._daemon.lines, clock.now_ms()
        )
        self.conversation.shell = self

    def data_received(self, data: bytes) -> None:
        conversation = self.conversation
        if conversation is None:
            return
        self._daemon.broker.counters.bytes_read += len(data)
        now_ms, shares = clock.now_ms(), self._shares
        until = shares.until(self, now_ms)
        if until:
            conversation.feed(data, now_ms, until)
            shares.note(self, conversation.has_overrun, now_ms)
            self._turn.fed = True
        else:
            conversation.take_in(data)
        if self._reading and conversation.parser.buffered > AHEAD_BYTES_MAX:
            self._stop_reading_ahead()
        self.moved_ms = now_ms
        if conversation.parser.held_bytes >= UNCOUNTED_BYTES or self.held_bytes:
            self._count_memory(conversation)
        self._turn.touch(conversation)

    def eof_received(self) -> bool:
        """The client has said all it will say; what it asked for is still answered."""
        self._at_end = True
        if self.conversation is not None:
            self.conversation.hear_end()
            self._turn.touch(self.conversation)
        return True

    def pause_writing(self) -> None:
        if self.conversation is not None:
            self.conversation.paused = True
            self._count_memory(self.conversation)

    def resume_writing(self) -> None:
        if self.conversation is not None:
            self.conversation.paused = False
            self._turn.touch(self.conversation)

    def connection_lost(self, exc: Exception | None) -> None:
        conversation, self.conversation = self.conversation, None
        self._transport = None
        if conversation is None:
            return
        self._memory.leave(self)
        self._daemon.dismiss(self)
        if not self._daemon.is_leaving:
            conversation.hang_up(clock.now_ms())
            self._turn.owe()

    def speak(self, now_ms: int) -> None:
        """Send what is true; go on with what was held back by what was not."""
        conversation, transport = self.conversation, self._transport
        if conversation is None or transport is None:
            return
        data = conversation.output()
        if data and conversation.has_more and (until := self._shares.until(self, now_ms)):
            conversation.go_on(now_ms, until)  # what comes next may be answered along with it
            self._shares.note(self, conversation.has_overrun, now_ms)
            data += conversation.output()
            self._turn.owe()  # whatever that began goes on by turns
        if data:
            self._daemon.broker.counters.bytes_written += len(data)
            transport.write(data)
        if self.held_bytes or len(data) >= UNCOUNTED_BYTES:
            if conversation.stream is None:
                self._reserved_bytes = 0
            self._unsent_bytes += len(data)
            self._count_memory(conversation)
        if conversation.has_more:
            self._shares.line_up(self, now_ms)
            self._turn.owe()
        if not self._reading:
            self._read_on()
        if conversation.is_finished or (self._at_end and self._nothing_left(conversation)):
            transport.close()

    @property
    def is_long(self) -> bool:
        """True while it is in the middle of a long answer."""
        return self.conversation is not None and self.conversation.stream is not None

    def go_on(self, now_ms: int, until: float) -> None:
        """Carry out more, until that moment of the clock `elapsed`."""
        conversation = self.conversation
        if conversation is not None and conversation.has_more:
            conversation.go_on(now_ms, until)
            self._shares.note(self, conversation.has_overrun, now_ms)
            if not conversation.is_behind:
                conversation.parser.forget()
            self._turn.touch(conversation)

    # -- memory -----------------------------------------------------------------------------

    def reserve(self, size: int) -> bool:
        """Return whether it may be given so large an answer now; else it is told when it may."""
        if self._reserved_bytes < size:
            if not self._memory.may_go_on(self, size):
                return False
            self._reserve(size)
        return True

    def _reserve(self, size: int) -> None:
        self._reserved_bytes = size
        if self.conversation is not None:
            self._count_memory(self.conversation)

    def _count_memory(self, conversation: Conversation) -> None:
        """Say what it holds; while memory is short, do not read on."""
        transport, parser, memory = self._transport, conversation.parser, self._memory
        if transport is None:
            return
        unsent = transport.get_write_buffer_size()
        self._unsent_bytes = max(unsent, self._unsent_bytes) if unsent else 0
        made = self._unsent_bytes + conversation.replies.value_bytes
        memory.hold(self, parser.held_bytes + max(made, self._reserved_bytes))
        if self._reading and not self._has_room_to_read(conversation):
            self._reading = False
            transport.pause_reading()

    def go_on_with_room(self) -> None:
        """Read on, or have the answer made that there is room for now."""
        self.moved_ms = clock.now_ms()
        conversation = self.conversation
        if conversation is None:
            return
        if conversation.wants_bytes:
            size, conversation.wants_bytes = conversation.wants_bytes, 0
            self._reserve(size)
        self._turn.touch(conversation)

    def look_at_memory(self, now_ms: int) -> None:
        """Take note of what the client has read since the last time."""
        conversation, before = self.conversation, self.held_bytes
        if conversation is not None:
            self._count_memory(conversation)
            if self.held_bytes < before:
                self.moved_ms = now_ms

    def shed(self) -> None:
        """Let go of what it holds: a body that came no further is refused, other clients end."""
        conversation, transport = self.conversation, self._transport
        if conversation is None or transport is None:
            return
        if conversation.parser.is_in_body:
            conversation.parser.drop_body(ServerError(_NO_MEMORY))
            self._count_memory(conversation)
        elif transport.get_write_buffer_size() or self.held_bytes > AHEAD_BYTES_MAX:
            self.abort()

    def _has_room_to_read(self, conversation: Conversation) -> bool:
        """Return whether more may come in now; else it is told when it may."""
        parser, memory = conversation.parser, self._memory
        if memory.is_waiting(self):
            return False
        if not memory.is_short or parser.held_bytes < UNCOUNTED_BYTES:
            return True
        return memory.may_go_on(self, parser.missing_bytes if parser.is_in_body else 0)

    def _read_on(self) -> None:
        conversation = self.conversation
        if conversation is None or self._transport is None:
            return
        if conversation.is_blocked or conversation.is_behind:
            return
        if self._has_room_to_read(conversation):
            self._reading = True
            self._transport.resume_reading()

    # -- the end ----------------------------------------------------------------------------

    def close(self) -> None:
        """End it from our side; what is written is still sent."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """End it from our side, now."""
        if self._transport is not None:
            self._transport.abort()

    def _nothing_left(self, conversation: Conversation) -> bool:
        replies = conversation.replies
        return not (
            conversation.is_waiting
            or conversation.stream
            or conversation.is_behind
            or replies.held
            or replies.out
        )

    def _stop_reading_ahead(self) -> None:
        conversation = self.conversation
        if conversation is None or self._transport is None:
            return
        if conversation.is_blocked or conversation.is_behind:
            self._reading = False
            self._transport.pause_reading()
