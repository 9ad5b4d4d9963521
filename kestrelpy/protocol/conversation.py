"""One connection: its turn, its leases, its waits, its hang-up.

    feed(bytes, now) -> parser -> command -> broker -> replies (held until true) -> take()

One rule: a request either changes something and is answered for it, or is refused and has changed
nothing; and a connection that is waiting, or has too much in flight, handles nothing further.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Final, Protocol

from kestrelpy.core.broker import Broker
from kestrelpy.core.item import Item
from kestrelpy.core.leases import Holder, Lease
from kestrelpy.core.log import Log
from kestrelpy.core.queue import NOT_STORED, Queue
from kestrelpy.core.reader import ABORTED, DEFERRED, Reader
from kestrelpy.core.waiters import Waiter, Want
from kestrelpy.errors import ClientError, LeaseExpired, Refused, ServerError
from kestrelpy.protocol.commands import (
    Bad,
    Command,
    Delete,
    Ending,
    Fetch,
    Plain,
    Store,
    Target,
    Touch,
)
from kestrelpy.protocol.memcache import Lines, Parser
from kestrelpy.protocol.plain import answer_plain
from kestrelpy.protocol.replies import Gate, Replies, Together

log = logging.getLogger("kestrelpy.conversation")

# One connection's requests in flight: enough for any pipeline, small enough for ten thousand.
HELD_REPLIES_MAX: Final = 1024
HELD_BYTES_MAX: Final = 4 << 20
# What a set costs beside its body, where nobody counts the answers.
RECORD_BYTES: Final = 256
# Larger requests are not kept in a buffer that may be idle for hours.
FED_BYTES_KEPT: Final = 4 << 10
_RELATIVE_SECONDS_MAX: Final = 30 * 24 * 3600  # memcached's border between an age and a date

_STORED: Final = b"STORED\r\n"
_NOT_STORED: Final = b"NOT_STORED\r\n"
_END: Final = b"END\r\n"


class Host(Protocol):
    """What a conversation asks of the process around it."""

    version: str
    server_id: str
    started_ms: int
    mode: str

    @property
    def allow_delete(self) -> bool:
        """May `delete` remove a queue?"""

    @property
    def allow_shutdown(self) -> bool:
        """May a client end the server?"""

    @property
    def max_open_reads(self) -> int:
        """How many items one connection may hold."""

    def reload(self) -> Gate:
        """Read the configuration again."""

    def shutdown(self) -> None:
        """Drain and end."""

    def removal(self, queue: Queue) -> Gate:
        """Opens when the deleted queue's files are gone for good."""

    def set_mode(self, mode: str) -> None:
        """up, readonly or quiescent."""


class Conversation:
    """One client's requests and answers. The shell owns the socket."""

    __slots__ = (
        "_quiet_bytes", "_stored_bytes", "at_end", "broker", "closing", "holder", "host",
        "is_behind", "is_touched", "last_command_ms", "parser", "paused", "replies", "shell",
        "stream", "waiter", "waiting_fetch",
    )  # fmt: skip

    def __init__(
        self, broker: Broker, host: Host, peer: str, lines: Lines, now_ms: int
    ) -> None:
        self.broker = broker
        self.host = host
        self.holder = Holder(peer)
        self.parser = Parser(self._limit_of, lines)
        self.replies = Replies(self)
        self.waiter: Waiter | None = None
        self.waiting_fetch: _Waiting | None = None
        self.stream: Iterator[bytes] | None = None
        self.closing = False
        self.at_end = False
        self.is_behind = False  # has more come in than was carried out, because it is blocked?
        self.paused = False
        self.is_touched = False
        self.shell: object = None
        self.last_command_ms = now_ms
        self._stored_bytes = 0
        self._quiet_bytes = 0

    # -- the turn ---------------------------------------------------------------------------

    def feed(self, data: bytes, now_ms: int) -> None:
        """Bytes came."""
        self.parser.feed(data)
        self.run(now_ms)
        if len(data) > FED_BYTES_KEPT:
            self.parser.forget()

    def run(self, now_ms: int) -> None:
        """Carry out what has come in whole, as far as nothing stands in the way."""
        parser = self.parser
        self.is_behind = False
        while parser.buffered:
            if self.is_blocked:
                self.is_behind = True
                return
            command = parser.next()
            if command is None:
                return
            self.last_command_ms = now_ms
            try:
                if isinstance(command, Store):
                    self._store(command, now_ms)
                elif isinstance(command, Fetch):
                    self._fetch(command, now_ms)
                else:
                    self._carry_out(command, now_ms)
            except Refused as refused:
                self.refuse(refused, command.quiet)

    def _carry_out(self, command: Command, now_ms: int) -> None:
        if isinstance(command, Delete):
            self._delete(command, now_ms)
        elif isinstance(command, Touch):
            self._touch(command, now_ms)
        elif isinstance(command, Plain):
            answer_plain(self, command, now_ms)
        elif isinstance(command, Bad):
            self._bad(command)

    @property
    def is_blocked(self) -> bool:
        """Must the next command wait?"""
        if self.waiter is not None or self.stream is not None or self.closing or self.paused:
            return True
        replies = self.replies
        in_flight = len(replies.held) + len(replies.out)
        return in_flight >= HELD_REPLIES_MAX or (
            in_flight > 0
            and (self._stored_bytes >= HELD_BYTES_MAX or replies.value_bytes >= HELD_BYTES_MAX)
        )

    def output(self, now_ms: int) -> bytes:
        """What may be sent now."""
        replies = self.replies
        if replies.held:
            replies.release()
            if not replies.held:
                self._stored_bytes = 0
        else:
            self._stored_bytes = 0
        if (
            self.stream is not None
            and not (replies.held or self.paused)
            and replies.value_bytes < HELD_BYTES_MAX
        ):
            self.last_command_ms = now_ms
            piece = next(self.stream, None)
            if piece is None:
                self.stream = None
            elif piece:
                replies.out.append(piece)
        return replies.take() if replies.out else b""

    @property
    def has_more(self) -> bool:
        """Is there something to do that no new byte and no record will announce?"""
        if self.paused or self.replies.held:
            return False
        return self.stream is not None or (self.is_behind and not self.is_blocked)

    @property
    def is_finished(self) -> bool:
        """Has it said all it will say before the connection closes?"""
        return self.closing and not self.replies.held and not self.replies.out

    @property
    def is_idle(self) -> bool:
        """Neither waiting nor holding an item."""
        return self.waiter is None and not self.holder.leases

    def hang_up(self, now_ms: int) -> None:
        """The client is gone: what it held goes back, what it waited for goes to others."""
        self.closing = True
        self._stop_waiting()
        self.broker.hang_up(self.holder, now_ms)

    def leave(self) -> None:
        """The server is going: nothing is given back, so no attempt is counted."""
        self.closing = True
        if self.waiter is not None and not self.waiter.done:
            self._stop_waiting()

    def hear_end(self, now_ms: int) -> None:
        """The client says no more. It may be gone, so nothing that comes later is handed to it."""
        self.at_end = True
        if self.waiter is not None and not self.waiter.done:
            waiting = self.waiting_fetch
            self._stop_waiting()
            if waiting is not None:
                self._say_nothing_came(waiting)
            self.run(now_ms)

    def _stop_waiting(self) -> None:
        waiter, self.waiter = self.waiter, None
        if waiter is not None:
            # Served in this very turn and not yet told: its lease is among the holder's.
            self.broker.give_up(waiter)

    def refuse(self, refused: Refused, quiet: bool = False) -> None:
        """Say no; with noreply say nothing and count it."""
        if quiet:
            self.broker.counters.refused_quietly += 1
        else:
            self.replies.say(refused.line() + b"\r\n")

    def _limit_of(self, name: bytes) -> int:
        queue = self.broker.queues.get(name)
        policy = queue.policy if queue is not None else self.broker.policy_of(name)
        return policy.max_item_bytes

    # -- storing ----------------------------------------------------------------------------

    def _store(self, command: Store, now_ms: int) -> None:
        broker = self.broker
        broker.counters.cmd_set += 1
        if self.host.mode != "up":
            raise ServerError(f"{self.host.mode}: this server stores nothing now")
        line = command.line
        name = line.target.name
        queue = broker.queues.get(name) or self._create(name, line.size, now_ms)
        expires_ms = self._expires_ms(line.expiry, now_ms) if line.expiry else 0
        if line.only_if_empty:
            lsn = queue.add(command.body, line.flags, expires_ms, now_ms)
        else:
            lsn = queue.put(command.body, line.flags, expires_ms, now_ms)
        self._stored_bytes += len(command.body)
        if command.quiet:
            if lsn == NOT_STORED:
                broker.counters.refused_quietly += 1
            else:
                self._bound_quiet(len(command.body), queue.log, lsn)
        elif lsn == NOT_STORED:
            # It rests on what is stored: not said before that is on disk.
            self.replies.hold(_NOT_STORED, queue.log, queue.log.lsn_appended)
        else:
            self.replies.hold(_STORED, queue.log, lsn)

    def _create(self, name: bytes, size: int, now_ms: int) -> Queue:
        """A queue for a set that will not be refused: a refusal leaves nothing behind."""
        limit = self._limit_of(name)
        if size > limit:
            raise ServerError(f"item too large ({size} bytes, limit {limit})")
        return self.broker.create(name, now_ms)

    def _bound_quiet(self, body_bytes: int, log: Log, lsn: int) -> None:
        """noreply promises nothing, but neither may it fill the memory: now and then an empty
        reply holds this connection back until the disk has caught up."""
        self._quiet_bytes += body_bytes + RECORD_BYTES
        if self._quiet_bytes >= HELD_BYTES_MAX:
            self._quiet_bytes = 0
            self._stored_bytes = HELD_BYTES_MAX
            self.replies.hold(b"", log, lsn)

    def _expires_ms(self, expiry: int, now_ms: int) -> int:
        """Memcached's rule: up to 30 days from now, above a date, negative: already gone."""
        wall_ms = now_ms + self.broker.wall.offset_ms
        if expiry < 0:
            return max(1, wall_ms - 1)
        if expiry <= _RELATIVE_SECONDS_MAX:
            return wall_ms + expiry * 1000
        return expiry * 1000

    # -- fetching ---------------------------------------------------------------------------

    def _fetch(self, command: Fetch, now_ms: int) -> None:
        targets = command.targets
        if self.host.mode == "quiescent" and any(t.takes or t.lends or t.peeks for t in targets):
            raise ServerError("quiescent: this server hands out nothing now")
        if len(targets) == 1:
            target = targets[0]
            queue = self.broker.queues.get(target.name)
            lease = self._check(target, queue)
            self._fetch_one(target, queue, lease, command.numbered, now_ms, _END, self.replies)
            return
        opened = {t.name for t in targets if t.lends}
        if any(t.takes and t.name in opened for t in targets):
            raise ClientError("open and a plain get of one queue do not go together")
        for target in targets:
            self._check(target, self.broker.queues.get(target.name))
        stream = self._fetch_each(command)
        if next(stream, None) is not None:
            self.stream = stream

    def _fetch_each(self, command: Fetch) -> Iterator[bytes]:
        """Several keys, each in turn, as one reply; a long one leaves in several."""
        part = Together()
        for target in command.targets:
            if part.value_bytes >= HELD_BYTES_MAX:
                self.replies.value_bytes += part.value_bytes
                self.replies.hold(part.data, part, 1)
                yield b""
                if part.failure is not None:
                    return  # the error was the end of the answer
                part = Together()
            queue = self.broker.queues.get(target.name)
            if queue is not None and not target.dead:
                while queue.reader.is_sweeping(self.last_command_ms):
                    queue.reader.first(self.last_command_ms)
                    yield b""
            lease = self._oldest(queue) if self.holder.leases else None
            now_ms = self.last_command_ms
            self._fetch_one(target, queue, lease, command.numbered, now_ms, b"", part)
        part.say(_END)
        self.replies.value_bytes += part.value_bytes
        self.replies.hold(part.data, part, 1)

    def _check(self, target: Target, queue: Queue | None) -> Lease | None:
        """Refuse what may not be done, before anything is; returns the lease it would end."""
        holder = self.holder
        if queue is not None and not target.peeks and queue.log.failure is not None:
            queue.raise_failed()
        lease = self._oldest(queue) if holder.leases else None
        if holder.overdue and target.ending is Ending.CONFIRM and self._forgive(target, queue):
            raise LeaseExpired(target.name)
        if target.lends:
            ends_one = target.ending is not None and lease is not None
            if len(holder.leases) - ends_one >= self.host.max_open_reads:
                raise ClientError("close or abort the open item first")
        elif target.takes and lease is not None:
            raise ClientError("close or abort the open item first")
        return lease

    def _forgive(self, target: Target, queue: Queue | None) -> bool:
        """Did a lease of this queue end under the client's hands? One such mark is taken away.

        An open forgets them all, unless another item of the queue is open: then each mark
        stands for a close that is still to come, and that must not end another lease.
        """
        overdue = self.holder.overdue
        if queue is None or queue.reader not in overdue:
            return False
        if target.ending is not None:
            overdue.remove(queue.reader)
        elif self._oldest(queue) is None:
            overdue[:] = [reader for reader in overdue if reader is not queue.reader]
        return True

    def _fetch_one(
        self,
        target: Target,
        queue: Queue | None,
        lease: Lease | None,
        numbered: bool,
        now_ms: int,
        end: bytes,
        to: Replies | Together,
    ) -> None:
        """Answer one key; `end` closes the answer (nothing, among several keys)."""
        counters = self.broker.counters
        awaited: Log | None = None
        written = stored = 0
        was_over = (
            bool(self.holder.overdue)
            and (target.lends or target.ending is not None)
            and self._forgive(target, queue)
        )
        if target.ending is not None:
            if was_over:
                pass  # it went back already; nobody's fault, nothing to count
            elif lease is None or queue is None:
                if not target.lends:  # with close/open a worker begins
                    self._note_nothing_open(target, queue)
            else:
                awaited = queue.log
                lsn = self._end_lease(target.ending, lease, queue.reader, now_ms)
                stored, written = (lsn, 0) if queue.policy.confirms_synced else (0, lsn)
            if not target.lends:
                _say(to, end, awaited, stored, written)
                return
        if target.peeks:
            counters.cmd_peek += 1
        else:
            counters.cmd_get += 1
        if queue is not None and self._hand_out(
            target, queue, numbered, now_ms, end, stored, written, to
        ):
            counters.get_hits += 1
            return
        if (target.wait_ms and not self.at_end) or (
            queue is not None and not target.dead and queue.reader.is_sweeping(now_ms)
        ):
            self._wait(_Waiting(target, numbered, awaited, stored, written), now_ms)
            return
        counters.get_misses += 1
        _say(to, end, awaited, stored, written)

    def _hand_out(
        self,
        target: Target,
        queue: Queue,
        numbered: bool,
        now_ms: int,
        end: bytes,
        stored: int,
        written: int,
        to: Replies | Together,
    ) -> bool:
        """Say the next item, lent, taken or shown; False: there is none."""
        reader = queue.reader
        if target.peeks:
            item = reader.first(now_ms, target.dead)
            if item is None:
                return False
            data = _value(target.raw, item, end, item.marker if numbered else 0)
            to.value_bytes += len(data)
            to.hold(data, queue.log, item.lsn)
            return True
        if reader.waiters and reader.waiters.first(target.dead) is not None:
            return False  # others came first
        lease = reader.open(self.holder, now_ms, target.dead)
        if lease is None:
            return False
        if target.takes:
            written = reader.confirm(lease, now_ms)
            if queue.policy.confirms_synced:
                stored = written
        self._say_lease(target, numbered, lease, reader, end, stored, written, to)
        return True

    def _say_lease(
        self,
        target: Target,
        numbered: bool,
        lease: Lease,
        reader: Reader,
        end: bytes,
        stored: int,
        written: int,
        to: Replies | Together,
    ) -> None:
        item = lease.item
        number = 0
        stored = max(stored, item.lsn)
        if numbered:
            number = lease.token if target.lends else item.marker
            if target.lends:
                stored = max(stored, reader.tokens_lsn)
        data = _value(target.raw, item, end, number)
        to.value_bytes += len(data)
        to.hold(data, reader.log, stored, written)

    def _oldest(self, queue: Queue | None) -> Lease | None:
        """This connection's oldest open item of that queue."""
        if queue is None:
            return None
        reader = queue.reader
        for lease in self.holder.leases:
            if lease.owner is reader:
                return lease
        return None

    def _end_lease(self, ending: Ending, lease: Lease, reader: Reader, now_ms: int) -> int:
        if ending is Ending.CONFIRM:
            return reader.confirm(lease, now_ms)
        reason = ABORTED if ending is Ending.GIVE_BACK else DEFERRED
        return reader.give_back(lease, now_ms, reason)

    def _note_nothing_open(self, target: Target, queue: Queue | None) -> None:
        if queue is None or target.ending is None:
            return
        queue.reader.counters.closes_without_open += 1
        if queue.may_complain(self.last_command_ms):
            log.warning(
                "queue %s: %s by %s with nothing open on that connection (a pooled client uses "
                "another connection for open and close)",
                target.name.decode("ascii"), target.ending.value, self.holder.name,
            )  # fmt: skip

    # -- waiting ----------------------------------------------------------------------------

    def _wait(self, waiting: _Waiting, now_ms: int) -> None:
        target = waiting.target
        want = Want.PEEK if target.peeks else Want.OPEN if target.lends else Want.TAKE
        self.waiting_fetch = waiting
        self.waiter = self.broker.wait(
            want, target.name, self.holder, target.dead, self, now_ms + target.wait_ms
        )

    def resume(self, waiter: Waiter, now_ms: int) -> None:
        """The wait is over: say what came of it and go on."""
        if self.waiter is not waiter or self.waiting_fetch is None:
            return
        waiting = self.waiting_fetch
        target, numbered = waiting.target, waiting.numbered
        self.waiter = self.waiting_fetch = None
        self.last_command_ms = now_ms
        counters, replies = self.broker.counters, self.replies
        reader, lease, item = waiter.owner, waiter.lease, waiter.item
        if reader is None or (lease is None and item is None):
            self._say_nothing_came(waiting)
        else:
            counters.get_hits += 1
            if item is not None:
                data = _value(target.raw, item, _END, item.marker if numbered else 0)
                replies.value_bytes += len(data)
                replies.hold(data, reader.log, item.lsn)
            elif lease is not None:
                # A close before the wait was of the same queue: its record comes first.
                stored = waiter.done_lsn if reader.policy.confirms_synced else 0
                stored = max(stored, waiting.stored)
                written = max(waiter.done_lsn, waiting.written)
                self._say_lease(target, numbered, lease, reader, _END, stored, written, replies)
        self.run(now_ms)

    def _say_nothing_came(self, waiting: _Waiting) -> None:
        queue = self.broker.queues.get(waiting.target.name)
        self.broker.counters.get_misses += 1
        try:
            if queue is not None and not waiting.target.peeks and queue.log.failure is not None:
                queue.raise_failed()
            _say(self.replies, _END, waiting.awaited, waiting.stored, waiting.written)
        except Refused as refused:
            self.refuse(refused)

    # -- the rest ---------------------------------------------------------------------------

    def _delete(self, command: Delete, now_ms: int) -> None:
        if not self.host.allow_delete:
            raise ServerError("delete is not allowed on this server (allow_delete)")
        if self.host.mode != "up":
            raise ServerError(f"{self.host.mode}: this server deletes nothing now")
        queue = self.broker.queues.get(command.target.name)
        if queue is not None and queue.log.failure is not None:
            queue.raise_failed()
        queue = self.broker.delete(command.target.name, now_ms)
        if command.quiet:
            return
        if queue is None:
            self.replies.say(b"NOT_FOUND\r\n")
        else:
            self.replies.hold(b"DELETED\r\n", self.host.removal(queue), 1)

    def _touch(self, command: Touch, now_ms: int) -> None:
        queue = self.broker.queues.get(command.target.name)
        if queue is not None and queue.log.failure is not None:
            queue.raise_failed()
        lease = self._oldest(queue)
        found = queue is not None and lease is not None and queue.reader not in self.holder.overdue
        if found and queue is not None and lease is not None:
            queue.reader.renew(lease, command.seconds * 1000, now_ms)
        if not command.quiet:
            self.replies.say(b"TOUCHED\r\n" if found else b"NOT_FOUND\r\n")

    def _bad(self, command: Bad) -> None:
        if command.log:
            log.warning("%s: %s", self.holder.name, command.log)
        if command.closes:
            self.closing = True
        if not command.quiet:
            self.replies.say(command.line + b"\r\n")
        elif not command.log:
            self.broker.counters.refused_quietly += 1


class _Waiting:
    """A fetch that waits, and the record of the close before it, if there was one."""

    __slots__ = ("awaited", "numbered", "stored", "target", "written")

    def __init__(
        self, target: Target, numbered: bool, awaited: Log | None, stored: int, written: int
    ) -> None:
        self.target = target
        self.numbered = numbered
        self.awaited = awaited
        self.stored = stored
        self.written = written


def _say(
    to: Replies | Together, data: bytes, awaited: Log | None, stored: int, written: int
) -> None:
    if awaited is None:
        to.say(data)
    else:
        to.hold(data, awaited, stored, written)


def _value(key: bytes, item: Item, end: bytes, number: int) -> bytes:
    body = item.body
    if number:
        return b"VALUE %b %d %d %d\r\n%b\r\n%b" % (key, item.flags, len(body), number, body, end)
    return b"VALUE %b %d %d\r\n%b\r\n%b" % (key, item.flags, len(body), body, end)
