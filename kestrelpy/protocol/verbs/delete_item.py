"""Single items removed on request: a waiting item is cancelled, a dead letter purged.

    delete q/item=7       it waits ──▶ gone: DELETED        leased, dead, gone ──▶ NOT_FOUND
    delete q/id=4711      the same for the item stored under this id: the id itself stays
                          remembered, so that a repeated set does not bring the item back
    delete q/dead/item=7  a dead letter that is not leased ──▶ gone: DELETED

One rule: the record of a removal holds the item's size, so an item that only the log has is read
first; its state is checked again after the read.
"""

from __future__ import annotations

from collections.abc import Iterator

from journal.store import Put
from kestrelpy.core import NO_KEY, Admin, Browse, Queue, Waiting
from kestrelpy.errors import Refused, ServerError
from kestrelpy.protocol.parse import Remove, Withdraw
from kestrelpy.protocol.ports import Talk


def remove(talk: Talk, command: Remove, now_ms: int) -> Iterator[bytes] | None:
    """Remove an item and reply; return the rest of the work if the item has to be read first."""
    if talk.host.mode != "up":
        raise ServerError(f"{talk.host.mode}: this server removes nothing now")
    queue = talk.broker.queues.get(command.name)
    if queue is None:
        _say(talk, command.noreply, None, None)
        return None
    if queue.log.failure is not None:
        queue.raise_failed()
    if command.dead:
        _say(talk, command.noreply, queue, Admin(queue).purge(command.item, now_ms))
        return None
    if Admin(queue).waiting(command.item, now_ms) is Waiting.LOGGED:
        return _read_and_cancel(talk, queue, command.item, command.noreply)
    _cancel(talk, queue, command.item, command.noreply, None)
    return None


def withdraw(talk: Talk, command: Withdraw, now_ms: int) -> Iterator[bytes] | None:
    """Remove the item that was stored under an id; the id stays remembered."""
    queue = talk.broker.queues.get(command.name)
    item = 0
    if queue is not None:
        unix_ms = now_ms + queue.clock.offset_ms
        item = queue.dedupe.ids.item_of(command.id, queue.policy, unix_ms)
    return remove(talk, Remove(command.name, item, False, command.noreply), now_ms)


def _read_and_cancel(talk: Talk, queue: Queue, id_: int, noreply: bool) -> Iterator[bytes]:
    if id_ > queue.log.item_stored:
        talk.replies.hold(b"", queue.log, queue.log.lsn_appended)
        yield b""
    try:
        put = yield from talk.browser().find(queue, id_)
        if queue.log.failure is not None:
            queue.raise_failed()
        unix_ms = talk.last_command_ms + queue.clock.offset_ms
        if put is not None and Browse(queue).has_expired(id_, put[4], unix_ms):
            _say(talk, noreply, None, None)  # it is removed when a consumer reaches it
        elif put is None and Admin(queue).waiting(id_, talk.last_command_ms) is Waiting.LOGGED:
            _raise_unreadable(queue, id_)
        else:
            _cancel(talk, queue, id_, noreply, put)
    except Refused as refused:
        talk.refuse(refused, noreply)


def _cancel(talk: Talk, queue: Queue, id_: int, noreply: bool, put: Put | None) -> None:
    where = Admin(queue).waiting(id_, talk.last_command_ms)
    if where is Waiting.LOST:
        _raise_unreadable(queue, id_)
    is_here = where in (Waiting.HERE, Waiting.LOGGED, Waiting.DELAYED) and not queue.deleted
    size, key = (len(put[5]), put[6]) if put is not None else (0, NO_KEY)
    lsn = Admin(queue).cancel(id_, size, talk.last_command_ms, key) if is_here else None
    _say(talk, noreply, queue, lsn)


def _raise_unreadable(queue: Queue, id_: int) -> None:
    name = queue.name.decode("ascii")
    raise ServerError(f"item {id_} of {name} cannot be read, so it stays: see the log")


def _say(talk: Talk, noreply: bool, queue: Queue | None, lsn: int | None) -> None:
    if noreply:
        return
    if queue is None or lsn is None:
        talk.replies.say(b"NOT_FOUND\r\n")
    else:
        talk.replies.hold(b"DELETED\r\n", queue.log, lsn)
