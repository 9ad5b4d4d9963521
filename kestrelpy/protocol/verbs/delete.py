"""`delete`: a queue, the item of a lease, a single item.

    delete q              the queue is gone: DELETED        there is none ──▶ NOT_FOUND
    delete q/token=17     the lease is confirmed: DELETED   it is over ──▶ NOT_FOUND
    delete q/item=7       it waits ──▶ gone: DELETED        leased, dead, gone ──▶ NOT_FOUND
    delete q/id=4711      the same for the item stored under this id
    delete q/dead/item=7  a dead letter that is not leased ──▶ gone: DELETED

One rule: while an item is read, the client's next request waits.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kestrelpy.errors import Refused
from kestrelpy.operations import LeaseEnd, QueueAdmin, Removal, Rests
from kestrelpy.protocol.parse import Delete, Remove, Withdraw
from kestrelpy.protocol.ports import Talk
from kestrelpy.protocol.steps import Steps

_DELETED: Final = b"DELETED\r\n"


def delete(talk: Talk, command: Delete, now_ms: int) -> None:
    """Delete a queue, or confirm the lease that the token names; raise Refused."""
    if command.token:
        _confirm(talk, command, now_ms)
    else:
        _delete_queue(talk, command, now_ms)


def _confirm(talk: Talk, command: Delete, now_ms: int) -> None:
    ends = LeaseEnd(talk.broker)
    queue = ends.queue(command.name)
    lease = ends.named(queue, command.token, now_ms)
    rests = None
    if queue is not None and lease is not None:
        rests = ends.confirm(queue, lease, now_ms)
    talk.replies.say_done(command.noreply, _DELETED, rests)


def _delete_queue(talk: Talk, command: Delete, now_ms: int) -> None:
    queue = talk.broker.queues.get(command.name)
    count = len(queue.reader.live) if queue is not None else 0
    rests = QueueAdmin(talk.broker, talk.host).delete(command.name, now_ms)
    if rests is None:
        talk.replies.say_done(command.noreply, _DELETED, None)
        return
    talk.host.actions.note(talk.who, "delete", now_ms, command.name, count, rests=rests)
    if not command.noreply:
        *others, last = rests
        for each in others:
            talk.replies.rest_on(each.log, each.stored)
        talk.replies.hold(_DELETED, *last)


def remove(
    talk: Talk, command: Remove, now_ms: int, *, is_noted: bool = True
) -> Steps:
    """Remove an item and reply; return the rest of the work if the item has to be read first.

    `is_noted`: it is an action of a person.
    """
    queue = Removal.check(talk.broker, talk.host, command.name)
    if queue is None:
        talk.replies.say_done(command.noreply, _DELETED, None)
        return None
    removal = Removal(queue, talk.browser(), lambda: talk.last_command_ms, talk.host)
    if command.dead:
        _done(talk, command, "purge", removal.purge(command.item), is_noted)
        return None
    if removal.is_logged(command.item):
        return _read_and_cancel(talk, removal, command, is_noted)
    _done(talk, command, "remove", removal.cancel(command.item), is_noted)
    return None


def withdraw(talk: Talk, command: Withdraw, now_ms: int) -> Steps:
    """Remove the item that was stored under an id; the id stays remembered."""
    queue = talk.broker.queues.get(command.name)
    item = 0
    if queue is not None:
        unix_ms = now_ms + queue.clock.offset_ms
        item = queue.dedupe.ids.item_of(command.id, queue.policy, unix_ms)
    command_of = Remove(command.name, item, False, command.noreply)
    return remove(talk, command_of, now_ms, is_noted=False)  # a producer does it, by itself


def _read_and_cancel(
    talk: Talk, removal: Removal, command: Remove, is_noted: bool
) -> Iterator[bytes]:
    if (unstored := removal.unstored(command.item)) is not None:
        talk.replies.hold(b"", *unstored)
        yield b""
    try:
        rests = yield from removal.read_and_cancel(command.item)
        _done(talk, command, "remove", rests, is_noted)
    except Refused as refused:
        talk.refuse(refused, command.noreply)


def _done(
    talk: Talk, command: Remove, what: str, rests: Rests | None, is_noted: bool
) -> None:
    """Note the removal, and reply."""
    if rests is not None and is_noted:
        talk.host.actions.note(
            talk.who, what, talk.last_command_ms, command.name, 1, f"item {command.item}", (rests,),
        )  # fmt: skip
    talk.replies.say_done(command.noreply, _DELETED, rests)
