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
from kestrelpy.protocol import rights
from kestrelpy.protocol.log_limit import address_of
from kestrelpy.protocol.parse import Command, Confirm, Fetch, Monitor, Plain, Target
from kestrelpy.protocol.ports import Talk
from kestrelpy.protocol.replies import JointReply
from kestrelpy.protocol.steps import Steps, begin
from kestrelpy.protocol.text.form import ItemForm, PutForm, TextForm
from kestrelpy.protocol.verbs import VERBS, Verbs, answer_plain, confirm, monitor, row

log = logging.getLogger("kestrelpy.conversation")

_NEXT: Final = frozenset({"close", "open", "t"})
_PEEK: Final = frozenset({"peek", "t"})
_NO_REPLY: Final = TextForm(b"")


class PutBegin(Command):
    """The replies to the next commands become one."""

    __slots__ = ()


class PutEnd(Command):
    """The reply to a put; it leaves when every stored item is on disk."""

    __slots__ = ("form",)

    def __init__(self, form: PutForm) -> None:
        super().__init__()
        self.form = form


class Next(Command):
    """`get` and `peek`: confirm what is open in this queue, then fetch or show the next item."""

    __slots__ = ("name", "peeks", "wait_ms")

    def __init__(self, name: bytes, wait_ms: int, peeks: bool) -> None:
        super().__init__()
        self.name = name
        self.wait_ms = wait_ms
        self.peeks = peeks


class OpenBatch(Command):
    """`monitor`: open items one after the other."""

    __slots__ = ("name", "wait_ms")

    def __init__(self, name: bytes, wait_ms: int) -> None:
        super().__init__()
        self.name = name
        self.wait_ms = wait_ms


class Shutdown(Command):
    """`shutdown`: memcache's has no reply, and this one has."""

    __slots__ = ()


def begin_put(talk: Talk, command: PutBegin, now_ms: int) -> None:
    """Collect the replies to the items of a put."""
    talk.replies.joint = JointReply()


def end_put(talk: Talk, command: PutEnd, now_ms: int) -> None:
    """Reply to the put as a whole."""
    replies = talk.replies
    joint, replies.joint, replies.form = replies.joint, None, None
    assert joint is not None
    replies.hold(command.form.total(), joint, 1)


def fetch_next(talk: Talk, command: Next, now_ms: int) -> Steps:
    """Confirm what is open, then fetch or show the next item; raise Refused."""
    return begin(_fetch_next(talk, command, now_ms))


def _fetch_next(talk: Talk, command: Next, now_ms: int) -> Iterator[bytes]:
    name, peeks = command.name, command.peeks
    if talk.host.mode != "quiescent":  # then the fetch is refused, and nothing is confirmed
        # A get closes the last of them itself.
        _confirm_oldest(talk, name, len(open_leases(talk, name)) - (not peeks), now_ms)
    form = talk.replies.form = ItemForm(name, talk.host.server_settings.max_open_reads)
    target = Target(name, name, _PEEK if peeks else _NEXT, {"t": command.wait_ms})
    yield from talk.fetch_to_end(Fetch([target]), now_ms)
    if form.is_unfit and not peeks:
        give_back_newest(talk)


def _confirm_oldest(talk: Talk, name: bytes, count: int, now_ms: int) -> None:
    if count <= 0:
        return
    talk.replies.form = _NO_REPLY
    confirm(talk, Confirm(name, count, False), now_ms)
    queue = talk.broker.queues[name]
    talk.replies.rest_on(queue.log, queue.log.lsn_appended)


def open_batch(talk: Talk, command: OpenBatch, now_ms: int) -> Steps:
    """Open items one after the other; raise Refused."""
    return begin(_open_batch(talk, command, now_ms))


def _open_batch(talk: Talk, command: OpenBatch, now_ms: int) -> Iterator[bytes]:
    form = talk.replies.form = ItemForm(command.name, talk.host.server_settings.max_open_reads)
    for piece in monitor(talk, Monitor(command.name, command.wait_ms, 0), now_ms):
        if form.is_unfit:  # the error was the end of the batch
            give_back_newest(talk)
            return
        yield piece


def shut_down(talk: Talk, command: Shutdown, now_ms: int) -> None:
    """Shut the server down, and say so; raise Refused."""
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


# The verbs of the memcache wire, and those of the commands above. A server with users has no text
# port: it has no login.
TEXT_VERBS: Final[Verbs] = {
    **VERBS,
    **dict([
        row(PutBegin, begin_put, rights.everything),
        row(PutEnd, end_put, rights.everything),
        row(Next, fetch_next, rights.everything),
        row(OpenBatch, open_batch, rights.everything),
        row(Shutdown, shut_down, rights.everything),
    ]),
}  # fmt: skip
