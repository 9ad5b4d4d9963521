"""Single items removed on request: `operations.Removal` in the words of this wire.

    delete q/item=7       it waits ──▶ gone: DELETED        leased, dead, gone ──▶ NOT_FOUND
    delete q/id=4711      the same for the item stored under this id
    delete q/dead/item=7  a dead letter that is not leased ──▶ gone: DELETED

One rule: while an item is read, the client's next request waits.
"""

from __future__ import annotations

from collections.abc import Iterator

from kestrelpy.errors import Refused
from kestrelpy.operations import Removal, Rests
from kestrelpy.protocol.parse import Remove, Withdraw
from kestrelpy.protocol.ports import Talk


def remove(
    talk: Talk, command: Remove, now_ms: int, *, is_noted: bool = True
) -> Iterator[bytes] | None:
    """Remove an item and reply; return the rest of the work if the item has to be read first.

    `is_noted`: it is an action of a person.
    """
    queue = Removal.check(talk.broker, talk.host, command.name)
    if queue is None:
        _say(talk, command.noreply, None)
        return None
    removal = Removal(queue, talk.browser(), lambda: talk.last_command_ms, talk.host)
    if command.dead:
        _done(talk, command, "purge", removal.purge(command.item), is_noted)
        return None
    if removal.is_logged(command.item):
        return _read_and_cancel(talk, removal, command, is_noted)
    _done(talk, command, "remove", removal.cancel(command.item), is_noted)
    return None


def withdraw(talk: Talk, command: Withdraw, now_ms: int) -> Iterator[bytes] | None:
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
    _say(talk, command.noreply, rests)


def _say(talk: Talk, noreply: bool, rests: Rests | None) -> None:
    if noreply:
        return
    if rests is None:
        talk.replies.say(b"NOT_FOUND\r\n")
    else:
        talk.replies.hold(b"DELETED\r\n", *rests)
