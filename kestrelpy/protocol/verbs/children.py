"""Fan-out children on the wire: created by their first mention, advanced, and deleted.

    get orders+audit          created if it is new; the reply is held until its record is on disk
    delete orders+audit/upto=17    all of its items up to there are confirmed: DELETED
    delete orders+audit            the child is gone: DELETED

One rule: the first mention of a child is answered when it is certain that the child misses nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kestrelpy.core import AckUpTo, AnyQueue, ChildQueue, refuse_beyond
from kestrelpy.errors import Refused, ServerError
from kestrelpy.operations import QUIESCENT, Children, ended
from kestrelpy.protocol.parse import Target, Upto
from kestrelpy.protocol.ports import Talk
from kestrelpy.protocol.steps import Steps


def mention_child(talk: Talk, target: Target, now_ms: int) -> AnyQueue | None:
    """Create the child that the target names; None if it names none, or asks for no item.

    Raise Refused if a mention does not create it.
    """
    if not (target.parent and (target.takes or target.opens or target.peeks)):
        return None
    begin = target.begin
    return _made(talk, target.name, begin.after + 1 if begin is not None else None, now_ms)


def note_request(talk: Talk, queue: AnyQueue | None, now_ms: int) -> None:
    """Note a request for items of this child; its creation may not be answered yet."""
    if queue is not None and (child := queue.child) is not None:
        child.asked_ms = now_ms
        talk.replies.rest_on(child.log, child.named_lsn)


def begins_at_time(talk: Talk, target: Target) -> bool:
    """True for a child that begins at a time and does not exist yet."""
    begin, queues = target.begin, talk.broker.queues
    if begin is None or not begin.since_ms:
        return False
    return target.name not in queues and target.parent in queues


def mention_since(
    talk: Talk, target: Target, fetch: Callable[[int], Steps]
) -> Iterator[bytes]:
    """Create the child once the marker of that time is found, then fetch; while it has to wait it
    yields nothing."""
    begin, queue = target.begin, talk.broker.queues.get(target.parent)
    if begin is None or queue is None:
        return
    try:
        marker = yield from talk.browser().find_begin(queue, begin.since_ms)
        if target.name not in talk.broker.queues:
            _made(talk, target.name, marker, talk.last_command_ms)
        stream = fetch(talk.last_command_ms)
    except Refused as refused:
        talk.refuse(refused)
        return
    if stream is not None:
        yield b""
        yield from stream


def _made(talk: Talk, name: bytes, begin: int | None, now_ms: int) -> ChildQueue:
    child_queue = Children(talk.broker, talk.host).mention(name, begin, now_ms)
    talk.replies.rest_on(child_queue.log, child_queue.child.named_lsn)
    return child_queue


def ack_up_to(talk: Talk, command: Upto, now_ms: int) -> Steps:
    """Execute `delete q+cursor/upto=<marker>`."""
    target = command.target
    _check_mode(talk)
    queue = talk.broker.queues.get(target.name)
    if queue is None:
        if not target.parent:
            if not command.noreply:
                talk.replies.say(b"NOT_FOUND\r\n")
            return None
        queue = _new_cursor(talk, command, now_ms)
    note_request(talk, queue, now_ms)
    if command.noreply:
        talk.replies.rest_on_nothing()  # a later reply does not rest on it either
    upto = AckUpTo(queue, command.marker)
    upto.step(now_ms)
    if not upto.is_over:
        return _go_on(talk, command, queue, upto)
    _say_done(talk, command, queue, upto)
    return None


def _go_on(talk: Talk, command: Upto, queue: AnyQueue, upto: AckUpTo) -> Iterator[bytes]:
    """Advance a long way in steps, one per turn."""
    try:
        while not upto.is_over:
            yield b""
            if queue.deleted:
                break
            _check_mode(talk)
            upto.step(talk.last_command_ms)
        _say_done(talk, command, queue, upto)
    except Refused as refused:
        talk.refuse(refused, command.noreply)


def _check_mode(talk: Talk) -> None:
    if talk.host.mode == QUIESCENT:
        raise ServerError(f"{QUIESCENT}: this server confirms nothing now")


def _say_done(talk: Talk, command: Upto, queue: AnyQueue, upto: AckUpTo) -> None:
    if not command.noreply:
        talk.replies.hold(b"DELETED\r\n", *ended(queue, upto.lsn))


def _new_cursor(talk: Talk, command: Upto, now_ms: int) -> ChildQueue:
    """Create a cursor at its current position: the items after that are its own."""
    parent, name = talk.broker.queues.get(command.target.parent), command.target.name
    latest = parent.last_number if parent is not None else 0
    if command.marker > latest:
        refuse_beyond(name, command.marker, latest)
    return _made(talk, name, command.marker + 1, now_ms)
