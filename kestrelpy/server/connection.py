"""One socket: bytes in, replies out in one write per turn.

One rule: a client that does not read is not read from, so its answers are bounded; and its end,
however it comes, gives back what it held.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import Final, Protocol, cast

from kestrelpy.core.broker import Broker
from kestrelpy.protocol.conversation import Conversation
from kestrelpy.protocol.host import Host
from kestrelpy.protocol.memcache import Lines
from kestrelpy.server import clock
from kestrelpy.server.turn import Turn

# How much may come in while the conversation is blocked, before the socket is left alone.
AHEAD_BYTES_MAX: Final = 64 << 10
WRITE_HIGH_BYTES: Final = 256 << 10

class Door(Host, Protocol):
    """The daemon, as a connection sees it."""

    broker: Broker
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
        "_at_end", "_daemon", "_reading", "_transport", "_turn", "conversation", "is_local",
    )  # fmt: skip

    def __init__(self, daemon: Door) -> None:
        self._daemon = daemon
        self._turn = daemon.turn
        self._transport: asyncio.Transport | None = None
        self._reading = True
        self._at_end = False
        self.is_local = False  # through the Unix socket
        self.conversation: Conversation | None = None

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
        conversation.feed(data, clock.now_ms())
        if self._reading and conversation.parser.buffered > AHEAD_BYTES_MAX:
            self._stop_reading_ahead()
        self._turn.fed = True
        self._turn.touch(conversation)

    def eof_received(self) -> bool:
        """The client has said all it will say; what it asked for is still answered."""
        self._at_end = True
        if self.conversation is not None:
            self.conversation.hear_end(clock.now_ms())
            self._turn.touch(self.conversation)
        return True

    def pause_writing(self) -> None:
        if self.conversation is not None:
            self.conversation.paused = True

    def resume_writing(self) -> None:
        if self.conversation is not None:
            self.conversation.paused = False
            self._turn.touch(self.conversation)

    def connection_lost(self, exc: Exception | None) -> None:
        conversation, self.conversation = self.conversation, None
        self._transport = None
        if conversation is None:
            return
        self._daemon.dismiss(self)
        if not self._daemon.is_leaving:
            conversation.hang_up(clock.now_ms())
            self._turn.owe()

    def speak(self, now_ms: int) -> None:
        """Send what is true; go on with what was held back by what was not."""
        conversation, transport = self.conversation, self._transport
        if conversation is None or transport is None:
            return
        data = conversation.output(now_ms)
        if data and conversation.has_more:  # what that lets go on may be answered along with it
            conversation.run(now_ms)
            data += conversation.output(now_ms)
            self._turn.owe()  # whatever that began goes on by turns
        if data:
            self._daemon.broker.counters.bytes_written += len(data)
            transport.write(data)
        if conversation.has_more:
            conversation.run(now_ms)
            self._turn.touch(conversation)
        if not self._reading and not (conversation.is_blocked or conversation.is_behind):
            self._reading = True
            transport.resume_reading()
        if conversation.is_finished or (self._at_end and self._nothing_left(conversation)):
            transport.close()

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
