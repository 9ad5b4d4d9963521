"""The requests of the text protocol that take several commands of the memcache wire.

    put jobs: | a | b |    set jobs | a, set jobs | b     one reply: how many are stored
    get jobs 500           confirm all that is open but the oldest, get jobs/close/open/t=500
    peek jobs 500          confirm all that is open, get jobs/peek/t=500
    monitor jobs 500       monitor jobs, in milliseconds

One rule: an item that cannot be shown here is given back at once, and counts no attempt.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Final

from kestrelpy.core import DEFERRED, Lease, Subscription
from kestrelpy.protocol.log_limit import address_of
from kestrelpy.protocol.parse import Confirm, Fetch, Monitor, Plain, Target
from kestrelpy.protocol.ports import Talk
from kestrelpy.protocol.replies import JointReply
from kestrelpy.protocol.text.form import ItemForm, PutForm, TextForm
from kestrelpy.protocol.verbs import GetHandler, answer_plain, confirm, monitor

log = logging.getLogger("kestrelpy.conversation")

_NEXT: Final = frozenset({"close", "open", "t"})
_PEEK: Final = frozenset({"peek", "t"})
_NO_REPLY: Final = TextForm(b"")


class PutBegin:
    """The replies to the next commands become one."""

    __slots__ = ()
    noreply = False

    def run(self, talk: Talk, handler: GetHandler, now_ms: int) -> None:
        talk.replies.joint = JointReply()


class PutEnd:
    """The reply to a put; it leaves when every stored item is on disk."""

    __slots__ = ("_form",)
    noreply = False

    def __init__(self, form: PutForm) -> None:
        self._form = form

    def run(self, talk: Talk, handler: GetHandler, now_ms: int) -> None:
        replies = talk.replies
        joint, replies.joint, replies.form = replies.joint, None, None
        assert joint is not None
        replies.hold(self._form.total(), joint, 1)


class Next:
    """`get` and `peek`: confirm what is open in this queue, then fetch or show the next item."""

    __slots__ = ("_name", "_peeks", "_wait_ms")
    noreply = False

    def __init__(self, name: bytes, wait_ms: int, peeks: bool) -> None:
        self._name = name
        self._wait_ms = wait_ms
        self._peeks = peeks

    def run(self, talk: Talk, handler: GetHandler, now_ms: int) -> Iterator[bytes] | None:
        """Execute it; return what is left if it has to wait. Raise Refused."""
        stream = self._steps(talk, handler, now_ms)
        return stream if next(stream, None) is not None else None

    def _steps(self, talk: Talk, handler: GetHandler, now_ms: int) -> Iterator[bytes]:
        name, replies = self._name, talk.replies
        if talk.host.mode != "quiescent":  # then the fetch is refused, and nothing is confirmed
            # A get closes the last of them itself.
            self._confirm(talk, len(open_leases(talk, name)) - (not self._peeks), now_ms)
        form = replies.form = ItemForm(name, talk.host.max_open_reads)
        target = Target(name, name, _PEEK if self._peeks else _NEXT, self._wait_ms)
        rest = handler.fetch(Fetch([target], False), now_ms)
        if rest is not None:
            yield from rest
        while handler.waiter is not None:
            yield b""
        if form.is_unfit and not self._peeks:
            give_back_newest(talk)

    def _confirm(self, talk: Talk, count: int, now_ms: int) -> None:
        if count <= 0:
            return
        talk.replies.form = _NO_REPLY
        confirm(talk, Confirm(self._name, count, False), now_ms)
        queue = talk.broker.queues[self._name]
        talk.replies.rest_on(queue.log, queue.log.lsn_appended)


class OpenBatch:
    """`monitor`: open items one after the other."""

    __slots__ = ("_name", "_wait_ms")
    noreply = False

    def __init__(self, name: bytes, wait_ms: int) -> None:
        self._name = name
        self._wait_ms = wait_ms

    def run(self, talk: Talk, handler: GetHandler, now_ms: int) -> Iterator[bytes] | None:
        """Execute it; return what is left if it has to wait. Raise Refused."""
        stream = self._steps(talk, handler, now_ms)
        return stream if next(stream, None) is not None else None

    def _steps(self, talk: Talk, handler: GetHandler, now_ms: int) -> Iterator[bytes]:
        form = talk.replies.form = ItemForm(self._name, talk.host.max_open_reads)
        for piece in monitor(talk, handler, Monitor(self._name, self._wait_ms, 0), now_ms):
            if form.is_unfit:  # the error was the end of the batch
                give_back_newest(talk)
                return
            yield piece


class Shutdown:
    """`shutdown`: memcache's has no reply, and this one has."""

    __slots__ = ()
    noreply = False

    def run(self, talk: Talk, handler: GetHandler, now_ms: int) -> None:
        """Execute it; raise Refused."""
        answer_plain(talk, Plain(b"shutdown", []), now_ms)
        talk.replies.say(b"END\r\n")


def open_leases(talk: Talk, name: bytes) -> list[Lease]:
    """Return the items of this queue that the connection holds open, the oldest first."""
    queue = talk.broker.queues.get(name)
    return [
        lease for lease in talk.holder.leases if queue is not None and lease.owner is queue.reader
    ]


def give_back_newest(talk: Talk) -> None:
    """Give back the item that was opened last, and name it in the log."""
    lease = next(reversed(talk.holder.leases))
    owner = lease.owner
    assert isinstance(owner, Subscription)
    if owner.log.failure is not None:
        return  # the error left in its place, and the journal takes no record
    name, id_ = owner.name.decode("ascii"), lease.item.id
    owner.nack(lease, talk.last_command_ms, DEFERRED)
    key = f"{address_of(talk.holder.name)} {name} line end"
    end = talk.host.log_limit.take(key, talk.last_command_ms)
    if end is not None:
        log.warning(
            "queue %s: item %d has a line end in it, so the text port cannot hand it out to %s%s",
            name, id_, talk.holder.name, end,
        )  # fmt: skip
