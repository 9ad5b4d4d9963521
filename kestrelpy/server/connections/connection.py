"""One socket: bytes in, replies out in one write per turn.

One rule: the server does not read from a client that does not read, nor from one that has sent more
than its share; so replies and requests are bounded. Every end of a connection gives its leases
back.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Final, Protocol, cast

from kestrelpy.core import Broker
from kestrelpy.errors import ServerError
from kestrelpy.operations import ConnectionFacts, held_items, waited_for
from kestrelpy.protocol import IDLE, MEMCACHE, ROUTED, Conversation, Host, Lines, LoginPort, Wire
from kestrelpy.server import clock
from kestrelpy.server.connections.memory import UNCOUNTED_BYTES, ConnectionMemory
from kestrelpy.server.turn import Turn
from kestrelpy.wire.keepalive import keep_alive
from kestrelpy.write_at_once import write_at_once

# At most this many bytes are taken in while the conversation is blocked or has used up its share;
# then the socket is not read.
AHEAD_BYTES_MAX: Final = 64 << 10
WRITE_HIGH_BYTES: Final = 256 << 10
# A client makes progress if this much of a body has come or of a reply has gone. While memory is
# short it must make 50 KiB/s (`memory.STALL_MS`).
PROGRESS_BYTES: Final = 256 << 10
_TOO_MANY: Final = b"SERVER_ERROR too many connections\r\n"
_NO_MEMORY: Final = (
    "no memory for this item: its body made no progress while connections held "
    "max_connection_memory"
)


class DaemonPort(Host, Protocol):
    """The daemon, as a connection sees it."""

    broker: Broker
    memory: ConnectionMemory
    turn: Turn
    lines: Lines
    is_leaving: bool
    is_slice: bool  # True if its clients come through a router

    @property
    def logins(self) -> LoginPort:
        """The users that may use it."""

    def admit(self, connection: Connection) -> bool:
        """Return whether the connection may stay."""

    def dismiss(self, connection: Connection) -> None:
        """Forget a connection that is gone."""


class Connection(asyncio.Protocol):
    """The link between a transport and a conversation."""

    __slots__ = (
        "_at_end", "_counters", "_daemon", "_memory", "_moved_bytes", "_reading", "_reserved_bytes",
        "_shares", "_transport", "_turn", "_unsent_bytes", "_unsent_mark", "_wire", "conversation",
        "heard_ms", "heavy_until_ms", "held_bytes", "is_lined_up", "is_local", "moved_ms", "number",
    )  # fmt: skip

    def __init__(self, daemon: DaemonPort, wire: Wire = MEMCACHE) -> None:
        self._daemon = daemon
        self._wire = wire
        self._turn = daemon.turn
        self._shares = daemon.turn.shares
        self._transport: asyncio.Transport | None = None
        self._reading = True
        self._at_end = False
        self.is_local = False  # through the Unix socket
        self.conversation: Conversation | None = None
        self.number = 0  # among all connections since the start
        self.heavy_until_ms = 0
        self.is_lined_up = False
        self._memory = daemon.memory
        self._counters = daemon.broker.counters
        self._reserved_bytes = 0  # for a reply that is being made
        # of replies that are not sent in full: each is held until all of it is
        self._unsent_bytes = 0
        self._unsent_mark = 0  # the unsent bytes when the client last made progress
        self._moved_bytes = 0  # come in since the client last made progress
        self.held_bytes = 0
        self.moved_ms = self.heard_ms = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have the methods of asyncio.Transport without being one.
        transport = cast(asyncio.Transport, transport)
        self._transport = transport
        transport.set_write_buffer_limits(high=WRITE_HIGH_BYTES)
        if self._turn.may_answer is not None:  # in a fleet this process may be stopped meanwhile
            write_at_once(transport)
        peer = transport.get_extra_info("peername")
        name = f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) and len(peer) > 1 else "unix"
        sock = transport.get_extra_info("socket")
        if sock is not None:
            keep_alive(sock)
        self.is_local = sock is not None and sock.family == socket.AF_UNIX
        is_routed = self.is_local and self._daemon.is_slice
        if not self._daemon.admit(self):
            if not self._daemon.is_leaving:
                usual = self._wire.usual
                transport.write(_TOO_MANY if usual is None else usual.reply(_TOO_MANY))
            transport.close()
            return
        self.conversation = Conversation(
            self._daemon.broker, self._daemon, name, self._daemon.lines, clock.now_ms(),
            ROUTED if is_routed and self._wire is MEMCACHE else self._wire,
            # The permissions of its file say who may use the Unix socket; that of a slice is for
            # its router, which says who the user is.
            None if self.is_local and not is_routed else self._daemon.logins, is_routed,
        )  # fmt: skip
        self.conversation.shell = self

    def data_received(self, data: bytes) -> None:
        conversation = self.conversation
        if conversation is None:
            return
        self._counters.bytes_read += len(data)
        now_ms, shares = self._turn.now_ms(), self._shares
        until = shares.until() if self._is_light(now_ms) else 0.0
        if until:
            conversation.feed(data, now_ms, until)
            if conversation.has_overrun:
                shares.note_overrun(self, now_ms)
            self._turn.commit_delay.note_input(now_ms)
        else:
            conversation.take_in(data)
        if self._reading and self._is_ahead(conversation):
            self._stop_reading()
        self.heard_ms = now_ms
        self._moved_bytes += len(data)
        is_whole = not conversation.parser.is_in_body
        if is_whole or not self.held_bytes or self._moved_bytes >= PROGRESS_BYTES:
            self.moved_ms, self._moved_bytes = now_ms, 0
        if conversation.parser.held_bytes >= UNCOUNTED_BYTES or self.held_bytes:
            self._count_memory(conversation)
        if conversation.is_due or not self._reading:
            self._turn.touch(conversation)
        else:
            self._turn.schedule()

    def facts(self, now_ms: int) -> ConnectionFacts | None:
        """Return what there is to say of it; None: it is gone."""
        talk = self.conversation
        if talk is None:
            return None
        idle_ms = max(now_ms - self.heard_ms, 0) if self.heard_ms else None
        return ConnectionFacts(
            self.number, talk.wire.name, talk.holder.name, len(talk.holder.leases),
            talk.is_waiting, idle_ms, self.held_bytes, talk.commands, held_items(talk.holder),
            waited_for(talk.waiter), talk.user,
        )  # fmt: skip

    def eof_received(self) -> bool:
        """Note the end of the client's input; its requests are still answered."""
        self._at_end = True
        if self.conversation is not None:
            self.conversation.note_eof()
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
            self._turn.schedule()

    def flush_output(self, now_ms: int) -> None:
        """Send the replies that are true; continue with the requests that waited for them."""
        conversation, transport = self.conversation, self._transport
        if conversation is None or transport is None:
            return
        data, has_more = conversation.output(), conversation.has_more
        if data and has_more and self._is_light(now_ms) and (until := self._shares.until()):
            conversation.go_on(now_ms, until)  # the next replies may leave with these
            if conversation.has_overrun:
                self._shares.note_overrun(self, now_ms)
            data += conversation.output()
            has_more = conversation.has_more
            self._turn.schedule()  # the work begun by it continues in turns
        if data:
            may_answer = None if self._turn.is_refusing else self._turn.may_answer
            if may_answer is not None and not may_answer():
                transport.abort()  # it was stopped just now: the data may no longer be ours
                return
            self._counters.bytes_written += len(data)
            self._unsent_bytes += len(data)
            transport.write(data)
        if self.held_bytes or transport.get_write_buffer_size() >= UNCOUNTED_BYTES:
            if conversation.stream is None:
                self._reserved_bytes = 0
            self._count_memory(conversation)
        else:
            self._unsent_bytes = 0
        if has_more and not conversation.paused:
            self._shares.line_up(self, now_ms)
            self._turn.schedule()
        if not self._reading:
            self._read_on()
        if (conversation.closing and conversation.is_finished) or (
            self._at_end and self._nothing_left(conversation)
        ):
            transport.close()

    def _is_light(self, now_ms: int) -> bool:
        """True if it may go on at once, while there is time."""
        return not (self.is_lined_up or now_ms < self.heavy_until_ms or self.is_long)

    @property
    def is_long(self) -> bool:
        """True in the middle of a long reply."""
        return self.conversation is not None and self.conversation.stream is not None

    def go_on(self, now_ms: int, until: float) -> None:
        """Execute more requests, until this moment of the clock `elapsed`."""
        conversation = self.conversation
        if conversation is not None and conversation.has_more:
            conversation.go_on(now_ms, until)
            if conversation.has_overrun:
                self._shares.note_overrun(self, now_ms)
            if not conversation.is_behind:
                conversation.parser.forget()
            self._turn.touch(conversation)

    # -- memory -----------------------------------------------------------------------------

    def reserve(self, size: int) -> bool:
        """Return whether a reply of this size may be made now; if not, `go_on_with_room` is called
        later."""
        if self._reserved_bytes < size:
            if not self._memory.may_go_on(self, size):
                return False
            self._reserve(size)
        return True

    def _reserve(self, size: int) -> None:
        self._reserved_bytes = size
        if self.conversation is not None:
            self._count_memory(self.conversation)

    def release(self) -> None:
        """Release the reserved room: no reply is made now."""
        self._reserve(0)

    def _count_memory(self, conversation: Conversation) -> None:
        """Report the memory it holds; while memory is short, stop reading."""
        transport, parser, memory = self._transport, conversation.parser, self._memory
        if transport is None:
            return
        unsent = transport.get_write_buffer_size()
        self._unsent_bytes = max(unsent, self._unsent_bytes) if unsent else 0
        made = self._unsent_bytes + conversation.replies.value_bytes
        memory.hold(self, parser.held_bytes + max(made, self._reserved_bytes))
        if self._reading and not self._has_room_to_read(conversation):
            self._stop_reading()

    def go_on_with_room(self) -> None:
        """Read on, or make the reply that there is room for now."""
        self.moved_ms = clock.now_ms()
        conversation = self.conversation
        if conversation is None:
            return
        if conversation.wants_bytes:
            size, conversation.wants_bytes = conversation.wants_bytes, 0
            self._reserve(size)
        self._turn.touch(conversation)

    def look_at_memory(self, now_ms: int) -> None:
        """Note how much the client has read since the last look."""
        conversation, transport = self.conversation, self._transport
        if conversation is None or transport is None:
            return
        self._count_memory(conversation)
        unsent = transport.get_write_buffer_size()
        if unsent > self._unsent_mark or not self._unsent_mark:
            self._unsent_mark = unsent
        elif not unsent or self._unsent_mark - unsent >= PROGRESS_BYTES:
            self._unsent_mark, self.moved_ms = unsent, now_ms

    def shed(self) -> None:
        """Free the memory it holds: refuse a stalled body, else close the connection."""
        conversation, transport = self.conversation, self._transport
        if conversation is None or transport is None:
            return
        has_dropped = conversation.parser.drop_body(ServerError(_NO_MEMORY))
        if has_dropped:
            self._count_memory(conversation)
            self._turn.touch(conversation)  # the rest of it is read and dropped
        if transport.get_write_buffer_size() or not (
            has_dropped or self.held_bytes <= AHEAD_BYTES_MAX
        ):
            self.abort()

    # -- reading ----------------------------------------------------------------------------

    def _is_ahead(self, conversation: Conversation) -> bool:
        """True if more has come in than is executed soon."""
        return conversation.parser.buffered > AHEAD_BYTES_MAX and (
            conversation.is_blocked or conversation.is_behind
        )

    def _has_room_to_read(self, conversation: Conversation) -> bool:
        """Return whether more of a body may come in now; if not, `go_on_with_room` is called later.

        Input other than bodies is bounded, and a hang-up during a wait must be noticed.
        """
        parser, memory = conversation.parser, self._memory
        if not memory.is_short or not parser.is_in_body or parser.held_bytes < UNCOUNTED_BYTES:
            return True
        return not memory.is_waiting(self) and memory.may_go_on(self, parser.missing_bytes)

    def _stop_reading(self) -> None:
        if self._transport is not None:
            self._reading = False
            self._transport.pause_reading()

    def _read_on(self) -> None:
        conversation = self.conversation
        if conversation is None or self._transport is None:
            return
        if not self._is_ahead(conversation) and self._has_room_to_read(conversation):
            self._reading = True
            self._transport.resume_reading()

    # -- the end ----------------------------------------------------------------------------

    def close(self) -> None:
        """Close the connection; written bytes are still sent."""
        if self._transport is not None:
            self._transport.close()

    def leave(self) -> None:
        """Answer what has come and close: the server ends. A router's client that holds nothing
        here does not notice."""
        conversation = self.conversation
        if conversation is None:
            return
        is_bare = conversation.is_idle and self._nothing_left(conversation)
        if conversation.is_routed and is_bare and not conversation.parser.buffered:
            self.close_idle()
            return
        conversation.leave()
        self._turn.touch(conversation)

    def close_idle(self) -> None:
        """Close the connection, which is idle; a router may connect again for its client."""
        if self._transport is not None and self.conversation is not None:
            if self.conversation.is_routed:
                self._transport.write(IDLE)
                self._transport.close()
            else:
                self._transport.abort()

    def abort(self) -> None:
        """Close the connection at once."""
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
