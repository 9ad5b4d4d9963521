"""The verbs beside get and set: flush, stats, status, pause, retry, acknowledge and others.

One rule: a long reply leaves in slices, one per turn.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Final

from kestrelpy.access import with_user
from kestrelpy.core import AnyQueue, Broker
from kestrelpy.errors import ClientError, Refused
from kestrelpy.operations import MODES, QueueAdmin, Rests, check_name, readable
from kestrelpy.protocol.log_limit import address_of
from kestrelpy.protocol.parse import Plain, parse_number, refuse_later
from kestrelpy.protocol.ports import Talk
from kestrelpy.protocol.replies import JointReply
from kestrelpy.protocol.stats import (
    dead_lines,
    delayed_lines,
    dump_lines,
    item_lines,
    marker_lines,
    one_queue_lines,
    open_lines,
    schedule_lines,
    stats_lines,
    token_lines,
)
from kestrelpy.protocol.verbs.declare import config_lines, setting_lines
from kestrelpy.protocol.verbs.move import move, redrive

log = logging.getLogger("kestrelpy.conversation")

def answer_plain(conversation: Talk, command: Plain, now_ms: int) -> None:
    """Execute one of them."""
    _VERBS[command.verb](conversation, command, now_ms)


def _flush(conversation: Talk, command: Plain, now_ms: int) -> None:
    name = _one_name(command)
    queue = conversation.broker.queues.get(name)
    count = queue.reader.ready.count + queue.reader.delays.count if queue is not None else 0
    rests = _admin(conversation).flush(name, now_ms)
    _note(conversation, "flush", now_ms, name, count, rests)
    _say_done(conversation, command, rests, b"END\r\n", b"END\r\n")


def _flush_all(conversation: Talk, command: Plain, now_ms: int) -> None:
    queues = _admin(conversation).all_to_flush()
    if command.words and command.words != [b"0"]:
        raise ClientError(
            f"flush_all takes no delay ({readable(b' '.join(command.words))}): it flushes at once; "
            "flush_all or flush_all 0 is allowed"
        )
    peer = conversation.holder.name
    end = conversation.host.log_limit.take(f"{address_of(peer)} flush_all", now_ms)
    if end is not None:
        by = with_user(peer, conversation.user)
        log.warning("flush_all by %s empties %d queues%s", by, len(queues), end)
    conversation.host.actions.note(
        conversation.who, "flush_all", now_ms, note=f"{len(queues)} queues"
    )
    conversation.stream = _flush_each(conversation, queues, command.noreply)


def _flush_each(
    conversation: Talk, queues: list[AnyQueue], noreply: bool
) -> Iterator[bytes]:
    done, admin = JointReply(), _admin(conversation)
    for queue in queues:
        if queue.deleted:
            continue
        try:
            admin.check_mode("removes")
        except Refused as refused:
            conversation.refuse(refused, noreply)
            return
        if queue.log.failure is None:
            done.hold(b"", queue.log, queue.flush(conversation.last_command_ms))
        else:  # failed since the check above: a wait for more becomes the error
            done.hold(b"", queue.log, queue.log.lsn_appended + 1)
        yield b""
    conversation.replies.hold(b"" if noreply else b"OK\r\n", done, 1)


def _flush_expired(conversation: Talk, command: Plain, now_ms: int) -> None:
    queues = _admin(conversation).to_sweep(_one_name(command))
    conversation.stream = _sweep_each(_admin(conversation), queues, command.noreply, now_ms)


def _flush_all_expired(conversation: Talk, command: Plain, now_ms: int) -> None:
    queues = _admin(conversation).to_sweep(None)
    conversation.stream = _sweep_each(_admin(conversation), queues, command.noreply, now_ms)


def _sweep_each(
    admin: QueueAdmin, queues: list[AnyQueue], noreply: bool, now_ms: int
) -> Iterator[bytes]:
    count = yield from admin.sweep(queues, now_ms)
    yield b"" if noreply else b"%d\r\n" % count


def _acknowledge(conversation: Talk, command: Plain, now_ms: int) -> None:
    """`acknowledge <queue>`: end the items that cannot be read."""
    name = _one_name(command)
    queue = _admin(conversation).to_acknowledge(name)
    if queue is None:
        _say(conversation, command, b"NOT_FOUND\r\n")
    else:
        conversation.stream = _give_up(conversation, queue, command.noreply, now_ms)


def _give_up(
    conversation: Talk, queue: AnyQueue, noreply: bool, now_ms: int
) -> Iterator[bytes]:
    count, rests = yield from _admin(conversation).acknowledge(queue, now_ms)
    _note(conversation, "acknowledge", now_ms, queue.name, count, rests)
    if not noreply:
        conversation.replies.hold(b"%d\r\n" % count, *rests)


def _stats(conversation: Talk, command: Plain, now_ms: int) -> None:
    broker: Broker = conversation.broker
    if not command.words:
        conversation.stream = stats_lines(broker, conversation.host, now_ms)
        return
    if command.words[0] == b"markers":
        conversation.stream = marker_lines(broker)
        return
    if command.words[0] == b"schedules":
        conversation.stream = schedule_lines(conversation.host.timetable)
        return
    name, slash, option = command.words[0].partition(b"/")
    check_name(name)
    if not slash:
        conversation.stream = one_queue_lines(broker.queues.get(name), now_ms)
    else:
        _look(conversation, broker.queues.get(name), option, now_ms)


def _look(conversation: Talk, queue: AnyQueue | None, option: bytes, now_ms: int) -> None:
    """`stats <queue>/<option>`."""
    word, _, value = option.partition(b"=")
    if option == b"open":
        conversation.stream = open_lines(queue, now_ms)
    elif option == b"dead":
        conversation.stream = dead_lines(queue)
    elif option == b"delayed":
        conversation.stream = delayed_lines(queue)
    elif option == b"settings":
        conversation.stream = setting_lines(queue, conversation.host)
    elif word == b"item":
        conversation.stream = item_lines(conversation, queue, value)
    elif word == b"token":
        conversation.stream = token_lines(conversation, queue, value)
    else:
        refuse_later(readable(word))
        raise ClientError(
            "unknown option of stats, known are open, dead, delayed, settings, item=<n> and "
            "token=<n>"
        )


def _pause(conversation: Talk, command: Plain, now_ms: int) -> None:
    is_paused = command.verb == b"pause"
    name = _one_name(command)
    rests = _admin(conversation).pause(name, is_paused, now_ms)
    _note(conversation, readable(command.verb), now_ms, name, None, rests)
    _say_done(conversation, command, rests, b"OK\r\n", b"NOT_FOUND\r\n")


def _retry(conversation: Talk, command: Plain, now_ms: int) -> None:
    """`retry <queue> <item>`: make a delayed item available now."""
    if len(command.words) != 2:
        raise ClientError("retry needs a queue and an item: retry <queue> <number>")
    name, number = command.words
    check_name(name)
    item = parse_number("item", readable(number))
    rests = _admin(conversation).retry(name, item, now_ms)
    _note(conversation, "retry", now_ms, name, 1, rests, f"item {item}")
    _say_done(conversation, command, rests, b"OK\r\n", b"NOT_FOUND\r\n")


def _dump_stats(conversation: Talk, command: Plain, now_ms: int) -> None:
    for name in command.words:
        check_name(name)
    conversation.stream = dump_lines(conversation.broker, command.words, now_ms)


def _dump_config(conversation: Talk, command: Plain, now_ms: int) -> None:
    for name in command.words:
        check_name(name)
    conversation.stream = config_lines(conversation.broker, command.words, conversation.host)


def _status(conversation: Talk, command: Plain, now_ms: int) -> None:
    host = conversation.host
    if not command.words:
        _say(conversation, command, host.mode.upper().encode() + b"\r\n")
        return
    mode = readable(command.words[0].lower())
    if mode not in MODES:
        raise ClientError(f"unknown status {mode}, known are {' '.join(MODES)}")
    host.set_mode(mode)
    host.actions.note(conversation.who, "mode", now_ms, note=mode)
    _say(conversation, command, b"END\r\n")


def _reload(conversation: Talk, command: Plain, now_ms: int) -> None:
    gate = conversation.host.reload(conversation.who)
    if not command.noreply:
        conversation.replies.hold(b"Reloaded config.\r\n", gate, 1)


def _version(conversation: Talk, command: Plain, now_ms: int) -> None:
    _say(conversation, command, f"VERSION {conversation.host.version}\r\n".encode())


def _meta_noop(conversation: Talk, command: Plain, now_ms: int) -> None:
    conversation.replies.say(b"MN\r\n")


def _verbosity(conversation: Talk, command: Plain, now_ms: int) -> None:
    _say(conversation, command, b"OK\r\n")


def _shutdown(conversation: Talk, command: Plain, now_ms: int) -> None:
    if not conversation.host.allow_shutdown:
        raise ClientError("shutdown is not allowed on this server (allow_shutdown)")
    conversation.closing = True
    conversation.host.actions.note(conversation.who, "drain", now_ms)
    by = with_user(conversation.holder.name, conversation.user)
    conversation.host.shutdown(f"shutdown by {by}")


def _quit(conversation: Talk, command: Plain, now_ms: int) -> None:
    conversation.closing = True


def _one_name(command: Plain) -> bytes:
    if len(command.words) != 1:
        verb = command.verb.decode("ascii")
        raise ClientError(f"{verb} needs a queue: {verb} <queue>")
    check_name(command.words[0].partition(b"/")[0])
    if b"/" in command.words[0]:
        raise ClientError(f"{command.verb.decode('ascii')} takes a queue without options")
    return command.words[0]


def _admin(conversation: Talk) -> QueueAdmin:
    return QueueAdmin(conversation.broker, conversation.host)


def _note(
    conversation: Talk, what: str, now_ms: int, name: bytes, count: int | None,
    rests: Rests | None, note: str = "",
) -> None:  # fmt: skip
    """Note an action on a queue; None: there was nothing to do it to."""
    if rests is not None:
        conversation.host.actions.note(conversation.who, what, now_ms, name, count, note, (rests,))


def _say_done(
    conversation: Talk, command: Plain, rests: Rests | None, done: bytes, nothing: bytes
) -> None:
    """Reply `done` when it is true, or `nothing` if nothing was there to do it to."""
    if command.noreply:
        return
    if rests is None:
        conversation.replies.say(nothing)
    else:
        conversation.replies.hold(done, *rests)


def _say(conversation: Talk, command: Plain, data: bytes) -> None:
    if not command.noreply:
        conversation.replies.say(data)


_VERBS: Final[dict[bytes, Callable[[Talk, Plain, int], None]]] = {
    b"flush": _flush,
    b"flush_all": _flush_all,
    b"flush_expired": _flush_expired,
    b"flush_all_expired": _flush_all_expired,
    b"stats": _stats,
    b"pause": _pause,
    b"resume": _pause,
    b"retry": _retry,
    b"acknowledge": _acknowledge,
    b"move": move,
    b"redrive": redrive,
    b"dump_stats": _dump_stats,
    b"dump_config": _dump_config,
    b"status": _status,
    b"reload": _reload,
    b"version": _version,
    b"mn": _meta_noop,
    b"verbosity": _verbosity,
    b"shutdown": _shutdown,
    b"quit": _quit,
}
