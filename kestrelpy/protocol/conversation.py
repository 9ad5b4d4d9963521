"""One connection: its turn, its leases, its waits, its hang-up.

    feed(bytes, now) -> parser -> command -> broker -> replies (held until true) -> output()
                                     |
                                     +-- its share of the turn is used up: `go_on`, later

One rule: a request either changes something and is answered for it, or is refused and has changed
nothing; and a connection that is waiting, or has too much in flight, handles nothing further.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from typing import Final

from kestrelpy.core.broker import Broker
from kestrelpy.core.index.waiters import Waiter
from kestrelpy.core.queue.child_queue import Branch
from kestrelpy.core.queue.queue import Queue
from kestrelpy.core.transfer.request import Order
from kestrelpy.errors import Refused, ServerError, fitted
from kestrelpy.protocol.log_limit import address_of
from kestrelpy.protocol.parse.commands import (
    Bad,
    Command,
    Delete,
    Fetch,
    Plain,
    Remove,
    Store,
    Touch,
    Upto,
    Withdraw,
)
from kestrelpy.protocol.parse.parser import Lines, Parser
from kestrelpy.protocol.parse.target import nearest
from kestrelpy.protocol.ports import Host
from kestrelpy.protocol.replies import HELD_BYTES_MAX, Replies
from kestrelpy.protocol.verbs.admin import answer_plain
from kestrelpy.protocol.verbs.browse import Browser
from kestrelpy.protocol.verbs.children import ack_up_to, delete_child
from kestrelpy.protocol.verbs.delete_item import remove, withdraw
from kestrelpy.protocol.verbs.end_lease import find_lease
from kestrelpy.protocol.verbs.get import GetHandler
from kestrelpy.protocol.verbs.set import SetHandler

log = logging.getLogger("kestrelpy.conversation")

# One connection's requests in flight: enough for any pipeline, small enough for ten thousand.
HELD_REPLIES_MAX: Final = 1024
# Commands that one connection has carried out before others have their turn, at the most.
SHARE_COMMANDS: Final = 256
# A connection is told which option it may have meant, and after so long the next time: looking for
# that takes as long as carrying out some twenty requests.
SUGGESTION_MS: Final = 1000
# Larger requests are not kept in a buffer that may be idle for hours.
FED_BYTES_KEPT: Final = 4 << 10


class Conversation:
    """One client's requests and answers. The shell owns the socket."""

    __slots__ = (
        "_elapsed",
        "_is_handing_off",
        "_suggests_ms",
        "_transfer",
        "broker",
        "closing",
        "get_handler",
        "has_overrun",
        "holder",
        "host",
        "is_behind",
        "is_touched",
        "last_command_ms",
        "parser",
        "paused",
        "replies",
        "set_handler",
        "shell",
        "stream",
        "wants_bytes",
    )  # fmt: skip

    def __init__(
        self, broker: Broker, host: Host, peer: str, lines: Lines, now_ms: int
    ) -> None:
        self.broker = broker
        self.host = host
        self._elapsed = host.elapsed
        self.replies = Replies(self)
        self.set_handler = SetHandler(self)
        self.parser = Parser(self.set_handler.limit_of, lines)
        self.get_handler = GetHandler(self, peer)
        self.holder = self.get_handler.holder
        self.stream: Iterator[bytes] | None = None
        self.closing = False
        self.is_behind = False  # has more come in than was carried out by now?
        self.has_overrun = False  # did it use up its share the last time?
        self.paused = False
        self._is_handing_off = False  # the next command waits for the answer
        self.is_touched = False
        self.shell: object = None
        self.wants_bytes = 0  # of memory, for an answer that waits for it
        self.last_command_ms = now_ms
        self._transfer: Order | None = None
        self._suggests_ms = now_ms

    # -- the turn ---------------------------------------------------------------------------

    def feed(self, data: bytes, now_ms: int, until: float = math.inf) -> None:
        """Take bytes in, and carry out what has come in whole until then."""
        self.take_in(data)
        self.run(now_ms, until)
        if len(data) > FED_BYTES_KEPT:
            self.parser.forget()

    def take_in(self, data: bytes) -> None:
        """Take bytes in; they are carried out when this connection goes on."""
        self.parser.feed(data)
        self.is_behind = True

    def go_on(self, now_ms: int, until: float = math.inf) -> None:
        """Do the next piece of a long answer, or carry out more of what has come in."""
        if self.stream is None:
            self.run(now_ms, until)
            return
        self.last_command_ms = now_ms
        try:
            piece = next(self.stream, None)
        except Refused as refused:  # instead of what is not said yet
            self.refuse(refused)
            piece = None
        if piece is None:
            self.stream = None
        elif piece:
            self.replies.out.append(piece)
        if self.replies.held:
            self.replies.release()  # of a log that failed before, nobody tells us any more

    def run(self, now_ms: int, until: float = math.inf) -> None:
        """Carry out what has come in whole, as far as nothing stands in the way.

        `until` is a moment of `Host.elapsed`: from then on the rest waits, so that others have
        their turn. One command is carried out in any case.
        """
        parser = self.parser
        left = SHARE_COMMANDS
        self.is_behind = self.has_overrun = False
        while parser.buffered:
            if self.is_blocked:
                self.is_behind = True
                return
            if left < SHARE_COMMANDS and (not left or self._elapsed() >= until):
                self.is_behind = self.has_overrun = True
                return
            left -= 1
            self._is_handing_off = False
            command = parser.next()
            if command is None:
                return
            self.last_command_ms = now_ms
            try:
                if isinstance(command, Store):
                    self.set_handler.store(command, now_ms)
                    handoff = command.line.handoff
                    # The next open is carried out with the answer.
                    self._is_handing_off = handoff is not None and not handoff.token
                elif isinstance(command, Fetch):
                    self.stream = self.get_handler.fetch(command, now_ms)
                else:
                    self._carry_out(command, now_ms)
            except Refused as refused:
                self.refuse(refused, command.noreply)

    def _carry_out(self, command: Command, now_ms: int) -> None:
        if isinstance(command, Delete):
            (self._confirm if command.token else self._delete)(command, now_ms)
        elif isinstance(command, Upto):
            ack_up_to(self, command, now_ms)
        elif isinstance(command, Remove):
            self.stream = remove(self, command, now_ms)
        elif isinstance(command, Withdraw):
            self.stream = withdraw(self, command, now_ms)
        elif isinstance(command, Touch):
            self._touch(command, now_ms)
        elif isinstance(command, Plain):
            answer_plain(self, command, now_ms)
        elif isinstance(command, Bad):
            self._bad(command, now_ms)

    @property
    def is_blocked(self) -> bool:
        """Must the next command wait?"""
        if self.closing or self.paused or self.stream is not None:
            return True
        if self.get_handler.waiter is not None:
            return True
        replies = self.replies
        if self._is_handing_off and replies.held:
            return True
        in_flight = len(replies.held) + len(replies.out)
        return in_flight > 0 and (
            in_flight >= HELD_REPLIES_MAX
            or replies.value_bytes >= HELD_BYTES_MAX
            or self.set_handler.stored_bytes >= HELD_BYTES_MAX
        )

    def output(self) -> bytes:
        """Return what may be sent now."""
        replies = self.replies
        if replies.held:
            replies.release()
            if not replies.held:
                self.set_handler.stored_bytes = 0
        else:
            self.set_handler.stored_bytes = 0
        return replies.take() if replies.out else b""

    @property
    def has_more(self) -> bool:
        """Is there something to do that no new byte and no record will announce?"""
        if self.paused:
            return False
        if self.stream is not None:
            replies = self.replies
            return not (
                replies.held or self.is_waiting or replies.value_bytes >= HELD_BYTES_MAX
            )
        return self.is_behind and not self.is_blocked

    @property
    def is_finished(self) -> bool:
        """Has it said all it will say before the connection closes?"""
        return self.closing and not self.replies.held and not self.replies.out

    @property
    def is_waiting(self) -> bool:
        """Does it wait for an item, for one to be read, for some to be moved, or for memory?"""
        if self.wants_bytes:
            return True
        if self._transfer is not None and not self._transfer.is_over:
            return True
        return self.get_handler.is_held_up

    @property
    def is_idle(self) -> bool:
        """Neither waiting nor holding an item."""
        return not self.is_waiting and not self.holder.leases

    def hang_up(self, now_ms: int) -> None:
        """The client is gone: what it held goes back, what it waited for goes to others."""
        self.closing = True
        self.stream = None  # the rest of a long answer is for nobody
        self.parser.clear()  # a circle holds it, and garbage is seldom looked for
        self.replies.clear()
        if self._transfer is not None:
            self._transfer.give_up("whoever asked for it hung up")
        self.get_handler.hang_up(now_ms)
        self.broker.hang_up(self.holder, now_ms)

    def browser(self) -> Browser:
        """What reads by marker for it."""
        return self.get_handler.browser()

    def await_transfer(self, order: Order) -> None:
        """Carry out nothing further before this has been moved."""
        self._transfer = order

    def leave(self) -> None:
        """The server is going: nothing is given back, so no attempt is counted."""
        self.closing = True
        waiter = self.get_handler.waiter
        if waiter is not None and not waiter.done:
            self.get_handler.stop_waiting()

    def note_eof(self) -> None:
        """The client says no more. It may be gone, so nothing that comes later is handed to it."""
        self.get_handler.note_eof()

    def end_wait(self, waiter: Waiter, now_ms: int) -> None:
        """Say how a wait has ended; what came in meanwhile is carried out when it goes on."""
        if self.get_handler.end_wait(waiter):
            self.last_command_ms = now_ms

    def refuse(self, refused: Refused, noreply: bool = False) -> None:
        """Say no; with noreply say nothing and count it."""
        if noreply:
            self.broker.counters.refused_quietly += 1
        else:
            self.replies.say(refused.line() + b"\r\n")

    def store(self, command: Store, now_ms: int) -> None:
        """Carry out a set or the like; raises Refused."""
        self.set_handler.store(command, now_ms)

    # -- the rest ---------------------------------------------------------------------------

    def _confirm(self, command: Delete, now_ms: int) -> None:
        """`delete q/token=N`: what the token names is done."""
        queue = self.broker.queues.get(command.name)
        if queue is not None and queue.log.failure is not None:
            queue.raise_failed()
        lease = find_lease(command.token, queue, now_ms)
        lsn = queue.reader.confirm(lease, now_ms) if queue is not None and lease is not None else 0
        if not command.noreply:
            self._say_ended(b"DELETED\r\n", queue if lease is not None else None, lsn)

    def _say_ended(self, word: bytes, queue: Queue | None, lsn: int) -> None:
        """Say the word when the record is written, or synced where that was asked for."""
        if queue is None:
            self.replies.say(b"NOT_FOUND\r\n")
        elif queue.policy.confirms_synced:
            self.replies.hold(word, queue.log, lsn)
        else:
            self.replies.hold(word, queue.log, 0, lsn)

    def _delete(self, command: Delete, now_ms: int) -> None:
        if not self.host.allow_delete:
            raise ServerError("delete is not allowed on this server (allow_delete)")
        if self.host.mode != "up":
            raise ServerError(f"{self.host.mode}: this server deletes nothing now")
        queue = self.broker.queues.get(command.name)
        if queue is not None and queue.log.failure is not None:
            queue.raise_failed()
        if isinstance(queue, Branch):
            delete_child(self, command, queue, now_ms)
            return
        queue = self.broker.delete(command.name, now_ms)
        if command.noreply:
            return
        if queue is None:
            self.replies.say(b"NOT_FOUND\r\n")
        elif queue.is_remnant:
            self.replies.hold(b"DELETED\r\n", queue.log, queue.log.lsn_appended)
        else:
            self.replies.hold(b"DELETED\r\n", self.host.files_gone(queue), 1)

    def _touch(self, command: Touch, now_ms: int) -> None:
        queue = self.broker.queues.get(command.name)
        if queue is not None and queue.log.failure is not None:
            queue.raise_failed()
        if command.token:
            lease = find_lease(command.token, queue, now_ms)
        else:
            lease = self.get_handler.oldest(queue)
            if queue is not None and queue.reader in self.holder.overdue:
                lease = None
        lsn = 0
        if queue is not None and lease is not None:
            if lease.by_token and queue.log.no_room:
                raise ServerError(queue.log.no_room)
            lsn = queue.reader.renew(lease, command.seconds * 1000, now_ms)
        if not command.noreply:
            self._say_ended(b"TOUCHED\r\n", queue if lease is not None else None, lsn)

    def _bad(self, command: Bad, now_ms: int) -> None:
        if command.log:
            self._complain(command.log)
        if command.closes:
            self.closing = True
        if not command.noreply:
            line = command.line
            if command.unknown and now_ms >= self._suggests_ms:
                self._suggests_ms = now_ms + SUGGESTION_MS
                line = fitted(line + nearest(command.unknown).encode("ascii"))
            self.replies.say(line + b"\r\n")
        elif not command.log:
            self.broker.counters.refused_quietly += 1

    def _complain(self, text: str) -> None:
        """Log what the client did wrong."""
        peer = self.holder.name
        end = self.host.log_limit.take(address_of(peer), self.last_command_ms)
        if end is not None:
            log.warning("%s: %s%s", peer, text, end)
