"""Transfers on request: ready items to another queue, and dead letters.

    move jobs later 100               ──▶ 100      the next ready items, in their order
    redrive jobs all                  ──▶ 7        dead letters, to the end of their own queue
    redrive jobs 3,5,8 elsewhere      ──▶ 2        or to another: those of them that are dead

The reply is the number of items that arrived; it leaves when they are on disk on both sides. If the
first item is refused, the reply is the reason.

One rule: an item that is refused, or cannot be read, stays in its queue.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final

from kestrelpy.core import AnyQueue, TransferRequest
from kestrelpy.errors import ClientError, Refused
from kestrelpy.operations import MOVED_MAX, Moving, QueueAdmin, check_name, parent_of
from kestrelpy.protocol.parse import Plain
from kestrelpy.protocol.ports import Talk
from kestrelpy.protocol.steps import Steps

_ALL: Final = b"all"


def move(talk: Talk, command: Plain, now_ms: int) -> Steps:
    """`move <queue> <target> <count>`; raise Refused, and nothing has changed."""
    if len(command.words) != 3:
        raise ClientError("move needs two queues and a count: move <queue> <target> <count>")
    name, target, word = command.words
    count = int(word) if word.isdigit() and len(word) <= len(str(MOVED_MAX)) else 0
    if not 0 < count <= MOVED_MAX:
        raise ClientError(f"bad count: a whole number from 1 to {MOVED_MAX} is allowed")
    if name == target:
        raise ClientError("move needs two queues, and these are one")
    queue = _source(talk, command, name, target)
    if queue is None:
        return None
    request = Moving(talk.broker, talk.host).move(queue, target, count, talk)
    return _await(talk, command, request)


def redrive(talk: Talk, command: Plain, now_ms: int) -> Steps:
    """`redrive <queue> <id>[,<id>...]|all [<target>]`; raise Refused, and nothing has changed."""
    if len(command.words) not in (2, 3):
        raise ClientError(
            "redrive needs a queue and its dead: redrive <queue> <id>[,<id>...]|all [<target>]"
        )
    name, which, *rest = command.words
    target = rest[0] if rest else name
    queue = _source(talk, command, name, target)
    if queue is None:
        return None
    if which == _ALL:
        ids = deque(queue.reader.dead.deaths)
    else:
        words = which.split(b",")
        if not all(word.isdigit() and len(word) < 17 for word in words):
            raise ClientError("bad items: numbers with commas between them, or all")
        ids = deque(dict.fromkeys(map(int, words)))
    if target == name:
        return _redrive_each(talk, command, queue, ids)
    request = Moving(talk.broker, talk.host).redrive(queue, target, ids, talk)
    return _await(talk, command, request)


def _redrive_each(
    talk: Talk, command: Plain, queue: AnyQueue, ids: deque[int]
) -> Iterator[bytes]:
    """Put dead letters back to their own queue, in slices, and reply."""
    admin = QueueAdmin(talk.broker, talk.host)
    try:
        count, rests = yield from admin.redrive(queue, ids, talk.last_command_ms)
    except Refused as refused:
        talk.refuse(refused, command.noreply)
        return
    talk.host.actions.note(
        talk.who, "redrive", talk.last_command_ms, queue.name, count, "", (rests,)
    )
    if not command.noreply:
        talk.replies.hold(b"%d\r\n" % count, *rests)


def _source(talk: Talk, command: Plain, name: bytes, target: bytes) -> AnyQueue | None:
    """Return the source queue; None after the reply that there is none."""
    for each in (name, target):
        check_name(each.partition(b"/")[0])
        if b"/" in each:
            raise ClientError(f"{command.verb.decode('ascii')} takes queues without options")
    moving = Moving(talk.broker, talk.host)
    queue = moving.source(name, target, is_child=bool(parent_of(target)))
    if queue is None and not command.noreply:
        talk.replies.say(b"NOT_FOUND\r\n")
    return queue


def _await(talk: Talk, command: Plain, request: TransferRequest) -> Iterator[bytes]:
    talk.await_transfer(request)
    return _answer(talk, command, request)


def _answer(talk: Talk, command: Plain, request: TransferRequest) -> Iterator[bytes]:
    """Reply with the result; the request is over."""
    try:
        moved = Moving.outcome(request)
    except Refused as refused:
        talk.refuse(refused, command.noreply)
    else:
        talk.host.actions.note(
            talk.who, command.verb.decode("ascii"), talk.last_command_ms,
            request.source.name, moved, f"to {request.target.decode('ascii')}",
        )  # fmt: skip
        if not command.noreply:
            talk.replies.say(b"%d\r\n" % moved)
    yield b""
