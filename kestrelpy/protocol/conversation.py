"""One connection: its requests, leases, waits, replies and hang-up.

    feed(bytes, now) -> parser -> command -> broker -> replies (held until true) -> output()
                                     |
                                     +-- its share of the turn is used up: `go_on`, later

One rule: a request either changes something and is answered, or is refused and changes nothing. A
connection that waits, or has too much in flight, handles no further request.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Final

from kestrelpy.core import Broker, HandOff, Log, TransferRequest, Waiter
from kestrelpy.errors import ClientError, NoRoomYet, Refused
from kestrelpy.operations import Work
from kestrelpy.protocol.login import LOGIN_BYTES_MAX, ClosedGate, LoginGate, LoginPort
from kestrelpy.protocol.parse import Command, Fetch, Lines, Parser, Requests, Store
from kestrelpy.protocol.ports import Host, Shell
from kestrelpy.protocol.replies import HELD_BYTES_MAX, HELD_REPLIES_MAX, Replies
from kestrelpy.protocol.steps import Steps
from kestrelpy.protocol.verbs import Browser, GetHandler, SetHandler
from kestrelpy.protocol.wire import MEMCACHE, Wire, wire_named

# A connection executes at most this many commands before the other connections have their turn.
SHARE_COMMANDS: Final = 256
# A router ends a wait by this line.
UNWAIT: Final = b"unwait\r\n"
# A larger request is not kept in the buffer of a connection that may be idle for hours.
FED_BYTES_KEPT: Final = 4 << 10


class Conversation:
    """One client's requests and replies. The server's connection owns the socket."""

    __slots__ = (
        "_again", "_counters", "_elapsed", "_gate", "_is_handing_off", "_lines", "_logins",
        "_transfer", "_verbs", "_waiting_room",
        "broker", "closing", "commands", "get_handler", "has_overrun", "holder", "host",
        "is_barred", "is_behind", "is_routed", "is_touched", "last_command_ms", "owes", "parser",
        "paused", "replies", "set_handler", "shell", "stream", "suggests_ms", "wants_bytes", "wire",
    )  # fmt: skip

    def __init__(
        self, broker: Broker, host: Host, peer: str, lines: Lines, now_ms: int,
        wire: Wire = MEMCACHE, logins: LoginPort | None = None, is_routed: bool = False,
    ) -> None:  # fmt: skip
        """`logins` are the users that may use it; None: every client may. `is_routed`: a router
        says whose connection it is (`introduce`)."""
        self.broker = broker
        self.host = host
        counters = self._counters = broker.counters.wire(wire.name)
        self._elapsed = host.elapsed
        self.replies = Replies(self, wire.usual, counters)
        self.set_handler = SetHandler(self)
        self.wire = wire
        self._verbs = wire.verbs
        self._lines, self._logins = lines, logins
        self._gate = LoginGate(logins, wire.verbs) if logins is not None else None
        self.parser: Requests = wire.requests(self._limit_of, lines)
        self.get_handler = GetHandler(self, peer)
        self.holder = self.get_handler.holder
        self.stream: Steps = None
        self.closing = False
        self.is_routed = is_routed
        self.commands = 0  # so far
        self.is_barred = False  # True if its rights are gone, so that its requests under way end
        self.is_behind = False  # True if bytes have come in that are not executed yet
        self.has_overrun = False  # True if it used up its share the last time
        self.paused = False
        self._is_handing_off = False  # True if the next command waits for the reply of a hand-off
        self.is_touched = False
        self.shell: Shell | None = None
        self.owes = False  # True if a reply was on its way when the server stopped serving
        self.wants_bytes = 0  # bytes of memory that a reply waits for
        self.last_command_ms = now_ms
        self._transfer: TransferRequest | HandOff | None = None
        self._again: Command | None = None  # to be executed once there is room for it
        self._waiting_room: dict[object, None] | None = None  # it is among these while it waits
        self.suggests_ms = now_ms

    @property
    def aliases(self) -> Mapping[bytes, tuple[bytes, ...]]:
        """The names that stand for several queues."""
        return self.broker.aliases

    @property
    def user(self) -> str | None:
        """The logged-in user; None: no user is logged in, or logins are not needed."""
        return self._gate.user if self._gate is not None else None

    @property
    def who(self) -> str:
        """The logged-in user, else the peer."""
        return self.user or self.holder.name

    def introduce(self, wire_name: str, peer: str, user: str | None) -> None:
        """Be the connection of this client, which speaks this wire, and of this user; "": no user
        has logged in there; None: it needs no login."""
        self.holder.name = peer
        if wire_name != self.wire.name:
            self._speak(wire_named(wire_name))
        if self._gate is not None:
            self._gate.enter(user)

    def _speak(self, wire: Wire) -> None:
        """Take the bytes that come next, and answer them, by another wire."""
        rest = self.parser.take_rest()
        self.wire, self._verbs = wire, wire.verbs
        self._counters = self.replies.counters = self.broker.counters.wire(wire.name)
        self.parser = wire.requests(self._limit_of, self._lines)
        self.parser.feed(rest)
        self.replies.usual = self.replies.form = wire.usual
        if self._gate is not None:
            self._gate.judge_by(wire.verbs)

    # -- the turn ---------------------------------------------------------------------------

    def feed(self, data: bytes, now_ms: int, until: float = math.inf) -> None:
        """Take bytes in and execute the complete commands among them, until the moment `until`."""
        self.take_in(data)
        self.run(now_ms, until)
        self._end_wait_if_told()
        if len(data) > FED_BYTES_KEPT:
            self.parser.forget()

    def flush(self, now_ms: int) -> None:
        """Send the replies that are true; continue with the requests that waited for them."""
        if self.shell is not None:
            self.shell.flush_output(now_ms)

    def abort(self) -> None:
        """Close the connection at once."""
        if self.shell is not None:
            self.shell.abort()

    def take_in(self, data: bytes) -> None:
        """Take bytes in; the commands in them are executed by the next `go_on`."""
        self.parser.feed(data)
        self.is_behind = True
        self._end_wait_if_told()

    def go_on(self, now_ms: int, until: float = math.inf) -> None:
        """Produce the next part of a long reply, or execute more of the commands that have come
        in."""
        if self.is_barred:
            self.revoke(now_ms)
        if self.stream is None:
            self.run(now_ms, until)
            self._end_wait_if_told()
            return
        self.last_command_ms = now_ms
        self._waiting_room = None
        try:
            piece = next(self.stream, None)
        except Refused as refused:  # the error takes the place of the rest of the reply
            self.refuse(refused)
            piece = None
        if piece is None:
            self.stream = None
        elif piece:
            self.replies.out.append(piece)
        if self.replies.held:
            self.replies.release()  # a log that failed earlier sends no notification

    def run(self, now_ms: int, until: float = math.inf) -> None:
        """Execute the complete commands that have come in, until one has to wait.

        `until` is a moment of `Host.elapsed`: the commands after it wait for the next turn. At
        least one command is executed.
        """
        gate, left = self._stands_before(now_ms), SHARE_COMMANDS
        self.is_behind = self.has_overrun = False
        has_more = self.parser.buffered > 0 or self._again is not None
        while has_more:
            parser = self.parser  # another one after an introduction
            if self.is_blocked:
                self.is_behind = True
                return
            if left < SHARE_COMMANDS and (not left or self._elapsed() >= until):
                self.is_behind = self.has_overrun = True
                return
            left -= 1
            self._is_handing_off = False
            command = self._again
            if command is not None:
                self._again = self._waiting_room = None
            else:
                command = parser.next()
                if command is None:
                    return
                self._counters.commands += 1
                self.commands += 1
            has_more = parser.buffered > 0
            self.last_command_ms = now_ms
            if self.replies.form is not self.replies.usual:
                self.replies.form = self.replies.usual
            try:
                if gate is not None and not gate.admits(self, command):
                    continue
                if isinstance(command, Store):
                    if has_more and command.line.is_simple and left and isinstance(parser, Parser):
                        run = self.set_handler.store_run(command, parser, left, now_ms)
                        if run:
                            left -= run
                            self._counters.commands += run
                            self.commands += run
                            has_more = parser.buffered > 0
                            continue
                    self.stream = self.set_handler.store(command, now_ms)
                    handoff = command.line.handoff
                    # The next open is executed together with the reply.
                    self._is_handing_off = handoff is not None and not handoff.token
                elif isinstance(command, Fetch):
                    self.stream = self.get_handler.fetch(command, now_ms)
                else:
                    self.stream = self._verbs[type(command)].execute(self, command, now_ms)
            except NoRoomYet as none_yet:  # nothing has changed: it is executed again
                if isinstance(command, Store):
                    self.broker.counters.cmd_set -= 1  # and counted again
                self._again, self.is_behind = command, True
                self.await_room(none_yet.waiting)
                return
            except Refused as refused:
                self.refuse(refused, command.noreply)

    def _end_wait_if_told(self) -> None:
        """End the wait if a router says so: its client has an item of another slice."""
        waits = self.is_routed and self.get_handler.waiter is not None
        if waits and self.parser.take_line(UNWAIT):
            self.get_handler.end_early()

    def _stands_before(self, now_ms: int) -> LoginGate | ClosedGate | None:
        """Return the gate that each command has to pass now; None: there is none.

        A request whose rights are gone ends first.
        """
        if self.is_barred:
            self.revoke(now_ms)
        logins = self._logins
        needs_login = logins is not None and logins.are_needed
        if self.host.closed:
            return ClosedGate(self.host.closed, needs_login)
        return self._gate if needs_login else None

    def _limit_of(self, name: bytes) -> int:
        """Return how large an item of this queue may be, in bytes."""
        if self._gate is not None and self._gate.is_strange:
            return LOGIN_BYTES_MAX
        return self.set_handler.limit_of(name)

    @property
    def is_blocked(self) -> bool:
        """True if the next command must wait."""
        if self.closing or self.paused or self.stream is not None:
            return True
        if self.get_handler.waiter is not None:
            return True
        if self._waiting_room is not None and self in self._waiting_room:
            return True
        replies = self.replies
        if self._is_handing_off and replies.held:
            return True
        in_flight = len(replies.held) + replies.merged + len(replies.out)
        return in_flight > 0 and (
            in_flight >= HELD_REPLIES_MAX
            or replies.value_bytes >= HELD_BYTES_MAX
            or self.set_handler.stored_bytes >= HELD_BYTES_MAX
        )

    def output(self) -> bytes:
        """Return the bytes that may be sent now."""
        replies = self.replies
        if replies.held:
            replies.release()
            if not replies.held:
                self.set_handler.stored_bytes = 0
        else:
            self.set_handler.stored_bytes = 0
        return replies.take() if replies.out else b""

    @property
    def is_due(self) -> bool:
        """True if `flush` would do something before a record is stored or a wait is over."""
        replies = self.replies
        return (
            bool(replies.out)
            or replies.has_failed
            or self.is_behind
            or self.closing
            or self.stream is not None
        )

    @property
    def has_more(self) -> bool:
        """True if there is work that no new byte and no record will announce."""
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
        """True if the connection closes and all of its replies have left."""
        return self.closing and not self.replies.held and not self.replies.out

    @property
    def is_waiting(self) -> bool:
        """True if it waits for an item, a read, a transfer, memory or room in a journal."""
        if self.wants_bytes:
            return True
        if self._waiting_room is not None and self in self._waiting_room:
            return True
        if self._transfer is not None and not self._transfer.is_over:
            return True
        if self._gate is not None and self._gate.is_waiting:
            return True
        return self.get_handler.is_held_up

    @property
    def waiter(self) -> Waiter | None:
        """Its wait for an item; None: it does not wait for one."""
        return self.get_handler.waits

    @property
    def is_idle(self) -> bool:
        """True if it neither waits nor holds an item."""
        return not self.is_waiting and not self.holder.leases

    def hang_up(self, now_ms: int) -> None:
        """End the conversation: the client is gone. Its leases are given back, its waits end."""
        self.closing = True
        self.stream = None  # the rest of a long reply has no reader
        if self._gate is not None:
            self._gate.hang_up()
        self.parser.clear()  # breaks a reference cycle
        self.replies.clear()
        self._again = None
        self._leave_room()
        if self._transfer is not None:
            self._transfer.give_up("the client hung up")
        self.get_handler.hang_up(now_ms)
        self._give_back(now_ms)

    def bar(self) -> bool:
        """Return True if a reload took the rights for what is under way: a wait is not served any
        more, and everything ends before the client is handed anything, by `revoke` at the latest.
        """
        if self._gate is None or not self._gate.is_revoked:
            return False
        self.is_barred = True
        waiter = self.get_handler.waiter
        if waiter is not None and waiter.line is not None:
            waiter.line.finish(waiter)
        return True

    def revoke(self, now_ms: int) -> bool:
        """End what is under way if it is barred; return True if it was.

        Leases are given back, waits end without an item. The client may log in again.
        """
        if not self.is_barred:
            return False
        self.is_barred = False
        is_answered = self.get_handler.is_taken  # by a plain get that waited: it is confirmed
        self._leave_room()  # its request is executed again, and refused
        is_unanswered = self.is_waiting or self.stream is not None
        if not is_answered:
            self.get_handler.hang_up(now_ms)
        self.stream, self.wants_bytes = None, 0
        if self._transfer is not None:
            self._transfer.give_up("the user has lost the rights for it")
            self._transfer = None
        self._give_back(now_ms)
        if is_unanswered and not is_answered:
            self.refuse(ClientError("unauthenticated"))
        return True

    def _give_back(self, now_ms: int) -> None:
        """Give back all leases of this conversation."""
        self.holder = self.get_handler.holder = self.broker.hang_up(self.holder, now_ms)

    def _leave_room(self) -> None:
        if self._waiting_room is not None:
            self._waiting_room.pop(self, None)
            self._waiting_room = None

    def browser(self) -> Browser:
        """Return the browser of this conversation."""
        return self.get_handler.browser()

    def start_read(self, log: Log, work: Work) -> None:
        """Run a read of this log on a thread, and go on when it is over."""
        self.host.start_read(log, work, self)

    def await_stored(self, log: Log, lsn: int) -> None:
        """Go on when the log has stored this record, or has failed."""
        self.replies.hold(b"", log, lsn)

    def await_room(self, waiting: dict[object, None]) -> None:
        """Execute no further command until a journal has room, or none: it wakes those `waiting`.
        """
        waiting[self] = None
        self._waiting_room = waiting

    def await_transfer(self, request: TransferRequest | HandOff) -> None:
        """Execute no further command until this transfer request is over."""
        self._transfer = request

    def note_closed(self) -> None:
        """Note whether a reply is on its way when the server stops serving requests."""
        replies = self.replies
        self.owes = bool(replies.out or replies.held or self.stream or self.waiter)

    def leave(self) -> None:
        """Close because the server stops: no item is given back, so no attempt is counted."""
        self.closing = True
        waiter = self.get_handler.waiter
        if waiter is not None and not waiter.done:
            self.get_handler.stop_waiting()

    def note_eof(self) -> None:
        """Note the end of the client's input. The client may be gone, so a wait ends here."""
        self.get_handler.note_eof()
        if self._gate is not None:
            self._gate.note_eof()

    def resume(self, waiter: Waiter, now_ms: int) -> None:
        """Answer a wait that is over; the commands that came meanwhile are executed by `go_on`."""
        if self.is_barred:
            self.revoke(now_ms)
        if self.replies.form is not None:
            self.replies.form.unix_ms = now_ms + self.broker.clock.offset_ms
        if self.get_handler.end_wait(waiter):
            self.last_command_ms = now_ms

    def refuse(self, refused: Refused, noreply: bool = False) -> None:
        """Reply with the refusal; with noreply only count it."""
        self.replies.count_error(isinstance(refused, ClientError))
        if noreply:
            self.broker.counters.refused_quietly += 1
        else:
            self.replies.say(refused.line() + b"\r\n")

    def store(self, command: Store, now_ms: int) -> Steps:
        """Execute a set, add, cas or replace; raise Refused."""
        return self.set_handler.store(command, now_ms)

    def fetch(self, command: Fetch, now_ms: int) -> Steps:
        """Execute a get or gets; raise Refused."""
        return self.get_handler.fetch(command, now_ms)

    def fetch_to_end(self, command: Fetch, now_ms: int) -> Iterator[bytes]:
        """Execute a get or gets, and yield until its reply is made; raise Refused."""
        return self.get_handler.fetch_to_end(command, now_ms)
