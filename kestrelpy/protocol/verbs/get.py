"""The `get` side of one connection: fetch, lease, wait, end a lease.

    check (refuses, changes nothing) -> end a lease -> hand out | wait | nothing -> reply, held

A close before a wait is answered together with the item, and only when it is true. A request that
ends nothing is counted, because its client is mistaken.

One rule: all refusals come before the first change, across all keys of one request.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from kestrelpy.access import with_user
from kestrelpy.core import (
    ABORTED,
    DEFERRED,
    LEASED,
    AnyQueue,
    Holder,
    Item,
    Lease,
    Subscription,
    Waiter,
    Want,
)
from kestrelpy.errors import (
    ClientError,
    InvalidToken,
    LeaseExpired,
    Refused,
    ServerError,
    Unread,
)
from kestrelpy.operations import LeaseEnd, Leasing, Rests
from kestrelpy.protocol.parse import Ending, Fetch, Target
from kestrelpy.protocol.ports import Talk
from kestrelpy.protocol.replies import HELD_BYTES_MAX, JointReply, Replies
from kestrelpy.protocol.room import must_wait_for_room, with_room
from kestrelpy.protocol.steps import Steps, begin
from kestrelpy.protocol.verbs.browse import Browser
from kestrelpy.protocol.verbs.children import (
    begins_at_time,
    mention_child,
    mention_since,
    note_request,
)
from kestrelpy.protocol.verbs.streams import refuse_stream, show_stream
from kestrelpy.protocol.verbs.value_line import full_value, value

_log = logging.getLogger("kestrelpy.conversation")

OPEN_FIRST: Final = "close or abort the open item first"
STEP_KEYS: Final = 8  # of one get, before other connections have their turn: half a millisecond
UNREAD_MS: Final = 100  # until one key of several is tried again after a failed read


class PendingGet:
    """A get that waits. `rests` is the record of the close before it; None: there was none."""

    __slots__ = ("rests", "target")

    def __init__(self, target: Target, rests: Rests | None) -> None:
        self.target = target
        self.rests = rests


class GetHandler:
    """The `get` side of one conversation."""

    __slots__ = (
        "_browser", "_leasing", "_pending", "_talk", "at_end", "broker", "holder", "host",
        "replies", "waiter",
    )  # fmt: skip

    def __init__(self, talk: Talk, peer: str) -> None:
        self._talk = talk
        self.broker = talk.broker
        self.host = talk.host
        self.replies = talk.replies
        self.holder = Holder(peer)
        self.waiter: Waiter | None = None
        self.at_end = False
        self._pending: PendingGet | None = None
        self._browser: Browser | None = None
        self._leasing = Leasing(talk.broker, talk.host)

    @property
    def is_held_up(self) -> bool:
        """True if it waits for an item, or for the disk."""
        return self.waiter is not None or (
            self._browser is not None and self._browser.is_held_up
        )

    @property
    def waits(self) -> Waiter | None:
        """The wait of a fetch or a peek; None: there is none."""
        browser = self._browser
        return self.waiter or (browser.waiter if browser is not None else None)

    @property
    def is_taken(self) -> bool:
        """True if a plain get that waited has its item, and the reply is still to come."""
        waiter = self.waiter
        return waiter is not None and waiter.want is Want.TAKE and waiter.lease is not None

    # -- fetching ---------------------------------------------------------------------------

    def fetch(self, command: Fetch, now_ms: int) -> Steps:
        """Answer the request, begin to wait, or refuse it; return the rest of a long reply."""
        targets = command.targets
        if self.host.mode == "quiescent" and any(t.takes or t.opens or t.peeks for t in targets):
            self._leasing.check_mode()
        if self.host.room.is_short and must_wait_for_room(self._talk, targets, now_ms):
            return with_room(self._talk, partial(self.fetch, command))
        if len(targets) == 1:
            target = targets[0]
            queue = self.broker.queues.get(target.name)
            if target.is_plain:  # nearly all are
                lease = self._check(target, queue, now_ms, command.token)
                self._fetch_one(target, queue, lease, now_ms, self.replies)
                return None
            if target.parent:
                note_request(self._talk, queue, now_ms)
            if target.begin is not None and begins_at_time(self._talk, target):
                return begin(mention_since(self._talk, target, partial(self.fetch, command)))
            if target.view is not None or target.key:
                refuse_stream(target, queue)
                return begin(self._observe(target, self.replies))
            queue = queue or mention_child(self._talk, target, now_ms)
            lease = self._check(target, queue, now_ms, command.token)
            self._fetch_one(target, queue, lease, now_ms, self.replies)
            return None
        opened = {t.name for t in targets if t.opens}
        if any(t.takes and t.name in opened for t in targets):
            raise ClientError("open and a plain get of one queue do not go together")
        for target in targets:
            if target.begin is not None and begins_at_time(self._talk, target):
                raise ClientError(
                    f"{target.name.decode('ascii')} does not exist yet: a child that "
                    "begins at a time is mentioned in a get of its own"
                )
            queue = self.broker.queues.get(target.name)
            refuse_stream(target, queue)
            self._check(target, queue, now_ms)
            if why := _why_unread(target, queue, now_ms):
                raise Unread(why)
        for target in targets:  # none was refused
            queue = self.broker.queues.get(target.name) or mention_child(self._talk, target, now_ms)
            note_request(self._talk, queue, now_ms)
        return begin(self._fetch_each(command, now_ms))

    def fetch_to_end(self, command: Fetch, now_ms: int) -> Iterator[bytes]:
        """Answer the request, and yield until its reply is made; raise Refused."""
        rest = self.fetch(command, now_ms)
        if rest is not None:
            yield from rest
        while self.waiter is not None:
            yield b""

    def _observe(self, target: Target, to: Replies | JointReply) -> Iterator[bytes]:
        if target.key:
            return show_stream(self._talk, self.browser(), target, to)
        return self.browser().observe(target, to)

    def browser(self) -> Browser:
        """Return the browser of this conversation, made at its first use."""
        if self._browser is None:
            self._browser = Browser(self._talk, self.holder, self.at_end)
        return self._browser

    def _fetch_each(self, command: Fetch, now_ms: int) -> Iterator[bytes]:
        """Answer several keys in turn as one reply; a long one leaves in parts."""
        part = JointReply()
        for number, target in enumerate(command.targets):
            if number and not number % STEP_KEYS:
                yield b""  # other connections have their turn
            if part.value_bytes >= HELD_BYTES_MAX:
                self.replies.value_bytes += part.value_bytes
                self.replies.hold(part.data, part, 1)
                yield b""
                if part.failure is not None:
                    return  # the error was the end of the reply
                part = JointReply()
            if target.view is not None or target.key:
                yield from _retry_unread(partial(self._observe, target, part))
                continue
            queue = self.broker.queues.get(target.name)
            if queue is not None:
                opens = not target.peeks
                while queue.reader.is_busy(self._talk.last_command_ms, target.dead, opens):
                    queue.reader.first(self._talk.last_command_ms, target.dead)
                    if queue.reader.unread:
                        self.browser().pause(target.name, self._talk.last_command_ms + UNREAD_MS)
                    yield b""
            lease = oldest(self.holder, queue) if self.holder.leases else None
            now_ms = self._talk.last_command_ms
            self._fetch_one(target, queue, lease, now_ms, part)
        part.say(self.replies.end)
        self.replies.value_bytes += part.value_bytes
        self.replies.hold(part.data, part, 1)

    def _check(
        self, target: Target, queue: AnyQueue | None, now_ms: int, token: int = 0
    ) -> Lease | None:
        """Refuse the request before it changes anything; return the lease that it would end."""
        holder = self.holder
        if queue is None:
            if self.broker.refusal:
                raise ServerError(self.broker.refusal)
        elif not target.peeks and queue.log.failure is not None:
            queue.raise_failed()
        if token:
            lease = LeaseEnd.named(queue, token, now_ms)
            if lease is None:
                raise InvalidToken(token, target.name)
        else:
            lease = oldest(holder, queue) if holder.leases else None
            closes = target.ending is Ending.CONFIRM
            if holder.overdue and closes and self._forgive(target, queue):
                raise LeaseExpired(target.name)
        if target.delay is not None and lease is not None and lease.dead:
            raise ClientError("a leased dead letter goes back to the dead letters at once")
        if target.lease_ms:
            if queue is not None:
                Leasing.check_room(queue)
        elif target.opens:
            if not holder.leases:
                return lease
            ends_one = target.ending is not None and lease is not None and lease.holder is holder
            if len(holder.leases) - ends_one >= self.host.server_settings.max_open_reads:
                raise ClientError(OPEN_FIRST)
        elif lease is not None and target.takes:
            raise ClientError(OPEN_FIRST)
        return lease

    def _forgive(self, target: Target, queue: AnyQueue | None) -> bool:
        """Return True if a lease of this queue expired under the client, and clear one such mark.

        An open clears all marks, unless another item of the queue is open: then each mark stands
        for a close that is still to come, and that close must not end another lease.
        """
        overdue = self.holder.overdue
        if queue is None or queue.reader not in overdue:
            return False
        if target.ending is not None:
            overdue.remove(queue.reader)
        elif oldest(self.holder, queue) is None:
            overdue[:] = [reader for reader in overdue if reader is not queue.reader]
        return True

    def _fetch_one(
        self, target: Target, queue: AnyQueue | None, lease: Lease | None, now_ms: int,
        to: Replies | JointReply,
    ) -> None:  # fmt: skip
        """Answer one key."""
        counters = self.broker.counters
        rests: Rests | None = None
        was_over = (
            bool(self.holder.overdue)
            and (target.opens or target.ending is not None)
            and "token" not in target.options
            and self._forgive(target, queue)
        )
        if target.ending is not None:
            if was_over:
                pass  # the item is back already, and the client made no mistake: nothing to count
            elif lease is None or queue is None:
                if not target.opens:  # a worker begins with close/open
                    _note_nothing_open(self._talk, target, queue)
            else:
                rests = _end_lease(target, lease, queue, now_ms)
            if not target.opens:
                _say(to, to.end, rests)
                return
        if target.peeks:
            counters.cmd_peek += 1
        else:
            counters.cmd_get += 1
        if queue is not None and self._hand_out(target, queue, now_ms, rests, to):
            counters.get_hits += 1
            return
        if (target.wait_ms and not self.at_end and target.name not in self.broker.aliases) or (
            queue is not None and _is_undecided(target, queue, now_ms)
        ):
            self._wait(PendingGet(target, rests), now_ms)
            return
        counters.get_misses += 1
        _say(to, to.end, rests)

    def _hand_out(
        self, target: Target, queue: AnyQueue, now_ms: int, rests: Rests | None,
        to: Replies | JointReply,
    ) -> bool:  # fmt: skip
        """Reply with the next item, leased, taken or peeked; return False if there is none."""
        reader = queue.reader
        if target.peeks:
            item = reader.first(now_ms, target.dead)
            if item is None:
                return False
            _say_peek(target, item, reader, to)
            return True
        lease = Leasing.next(reader, self.holder, now_ms, target.dead, target.lease_ms)
        if lease is None:
            return False
        stored = written = 0
        if not target.opens:
            written = reader.confirm(lease, now_ms)
            if queue.policy.confirms_synced:
                stored = written
        elif rests is not None:
            _, stored, written = rests
        _say_lease(target, lease, reader, stored, written, to)
        return True

    # -- waiting ----------------------------------------------------------------------------

    def _wait(self, pending: PendingGet, now_ms: int) -> None:
        target = pending.target
        want = Want.PEEK if target.peeks else Want.OPEN if target.opens else Want.TAKE
        self._pending = pending
        self.waiter = self.broker.wait(
            want, target.name, self.holder, target.dead, self._talk, now_ms + target.wait_ms,
            lease_ms=target.lease_ms,
        )

    def end_wait(self, waiter: Waiter) -> bool:
        """Answer a wait that is over; return False if it had ended before."""
        if waiter.want is Want.OBSERVE:
            return self._browser is not None and self._browser.waiter is waiter
        if self.waiter is not waiter or self._pending is None:
            return False
        pending = self._pending
        target, rests, replies = pending.target, pending.rests, self.replies
        self.waiter = self._pending = None
        reader, lease, item = waiter.owner, waiter.lease, waiter.item
        assert reader is None or isinstance(reader, Subscription)
        if reader is None or (lease is None and item is None):
            self._say_nothing_came(pending, waiter.refused)
        else:
            self.broker.counters.get_hits += 1
            if item is not None:
                _say_peek(target, item, reader, replies)
            elif lease is not None:
                # The close before the wait was of the same queue: its record comes first.
                written = waiter.done_lsn
                stored = written if reader.policy.confirms_synced else 0
                if rests is not None:
                    stored = max(stored, rests.stored)
                    written = max(written, rests.written)
                _say_lease(target, lease, reader, stored, written, replies)
        return True

    def stop_waiting(self) -> None:
        """End the wait; an item served in this turn is among the holder's leases."""
        waiter, self.waiter = self.waiter, None
        if waiter is not None:
            self.broker.give_up(waiter)
        if self._browser is not None:
            self._browser.stop_waiting()

    def hang_up(self, now_ms: int) -> None:
        """End the wait, and give back a lease by a token that the client never received."""
        waiter = self.waiter
        self.stop_waiting()
        lease = waiter.lease if waiter is not None else None
        if lease is not None and lease.by_token and lease in lease.holder.leases:
            assert isinstance(lease.owner, Subscription)
            lease.owner.nack(lease, now_ms, DEFERRED)

    def note_eof(self) -> None:
        """End the wait with nothing: the client sends no more."""
        self.at_end = True
        if self._browser is not None:
            self._browser.at_end = True
            if self._browser.stop_waiting():
                return
        self.end_early()

    def end_early(self) -> None:
        """End the wait with nothing, unless it has its item already."""
        if self.waiter is None or self.waiter.done:
            return
        pending = self._pending
        self.stop_waiting()
        if pending is not None:
            self._say_nothing_came(pending)

    def _say_nothing_came(self, pending: PendingGet, why: str = "") -> None:
        queue = self.broker.queues.get(pending.target.name)
        self.broker.counters.get_misses += 1
        try:
            if queue is not None and not pending.target.peeks and queue.log.failure is not None:
                queue.raise_failed()
            if why and pending.rests is None:
                raise ServerError(why)
            unread = _why_unread(pending.target, queue, self._talk.last_command_ms)
            if unread and pending.rests is None:
                raise Unread(unread)
            if unread:
                line = Unread(f"the item that was open is ended; {unread}").line() + b"\r\n"
                _say(self.replies, line, pending.rests)
                return
            _say(self.replies, self.replies.end, pending.rests)
        except Refused as refused:
            self._talk.refuse(refused)


def oldest(holder: Holder, queue: AnyQueue | None) -> Lease | None:
    """Return the item of that queue that this connection opened first; None: it has none open."""
    if queue is None:
        return None
    reader = queue.reader
    for lease in holder.leases:
        if lease.owner is reader:
            return lease
    return None


def _end_lease(target: Target, lease: Lease, queue: AnyQueue, now_ms: int) -> Rests:
    """End the lease as the request says; return what the reply rests on."""
    if target.ending is Ending.CONFIRM:
        return LeaseEnd.confirm(queue, lease, now_ms)
    if target.why is not None:
        return LeaseEnd.bury(queue, lease, target.why, now_ms)
    reason = ABORTED if target.ending is Ending.GIVE_BACK else DEFERRED
    return LeaseEnd.give_back(queue, lease, now_ms, reason, target.delay)


def _note_nothing_open(talk: Talk, target: Target, queue: AnyQueue | None) -> None:
    """Count a close, abort or defer with nothing open, and log it once a minute."""
    if queue is None or target.ending is None:
        return
    queue.reader.counters.closes_without_open += 1
    if queue.reader.may_complain(talk.last_command_ms):
        _log.warning(
            "queue %s: %s by %s with nothing open on that connection (a pooled client uses "
            "another connection for open and close)",
            target.name.decode("ascii"), target.ending.value,
            with_user(talk.holder.name, talk.user),
        )  # fmt: skip


def _say(to: Replies | JointReply, data: bytes, rests: Rests | None) -> None:
    """Reply after the record of the lease that the request ended, if it ended one."""
    if rests is None:
        to.say(data)
    else:
        log, stored, written = rests  # a call with a star is slow when it is compiled
        to.hold(data, log, stored, written)


def _say_lease(
    target: Target, lease: Lease, reader: Subscription, stored: int, written: int,
    to: Replies | JointReply,
) -> None:  # fmt: skip
    """Reply with a leased item, after these records of its log as well."""
    item, opens, numbered = lease.item, target.opens, target.numbered
    number = (lease.token if opens else item.marker) if numbered else 0
    log, own_stored, own_written = Leasing.rests(reader, lease, shows_token=numbered and opens)
    stored = max(stored, own_stored)
    written = max(written, own_written)
    if target.full:
        data = full_value(target.raw, item, to.end, number, LEASED, lease.attempts)
    else:
        data = value(target.raw, item, to.end, number)
    to.value_bytes += len(data)
    to.hold(data, log, stored, written)
    if opens:
        reader.ready_items.said(lease)


def _say_peek(
    target: Target, item: Item, reader: Subscription, to: Replies | JointReply
) -> None:
    """Reply with an item that stays where it is."""
    if target.full:
        state = reader.state_of(item.id)
        data = full_value(target.raw, item, to.end, item.marker, *state)
    else:
        data = value(target.raw, item, to.end, item.marker if target.numbered else 0)
    to.value_bytes += len(data)
    to.hold(data, reader.log, item.lsn)


def _why_unread(target: Target, queue: AnyQueue | None, now_ms: int) -> str:
    """Return why the next item cannot be read for the moment; "" if it can, or there is none."""
    if queue is None or not queue.reader.unread:
        return ""
    is_busy = queue.reader.is_busy(now_ms, target.dead, not target.peeks)
    return queue.reader.unread if is_busy else ""


def _retry_unread(observe: Callable[[], Iterator[bytes]]) -> Iterator[bytes]:
    """Browse one key of several. The items of the other keys are already in the reply, so a
    shortage is not an error here: it is tried again until it is over."""
    while True:
        try:
            yield from observe()
        except Unread:
            continue  # each attempt takes its time
        return


def _is_undecided(target: Target, queue: AnyQueue, now_ms: int) -> bool:
    """True if it is not known yet whether there is an item: the front is being read, or the record
    that ended a lease has taken the room for the next one."""
    if target.lease_ms and not (queue.log.no_room or queue.log.has_lease_room()):
        return True
    return queue.reader.is_busy(now_ms, target.dead, not target.peeks)
