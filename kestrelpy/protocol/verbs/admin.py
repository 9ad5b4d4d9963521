"""The verbs other than get and set: flush, stats, status, pause, retry, acknowledge and others.

One rule: a long reply leaves in slices, one per turn.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Final
from urllib.parse import unquote

from kestrelpy.access import Need, with_user
from kestrelpy.core import AnyQueue, Broker
from kestrelpy.errors import ClientError, Refused
from kestrelpy.operations import MODES, QueueAdmin, Rests, check_name, readable
from kestrelpy.protocol import rights
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
from kestrelpy.protocol.steps import Steps
from kestrelpy.protocol.verbs.declare import config_lines, setting_lines
from kestrelpy.protocol.verbs.move import move, redrive

log = logging.getLogger("kestrelpy.conversation")

NO_LOGIN: Final = "/"  # in place of a user: quoted names have none
_WIRES: Final = (b"memcache", b"text")  # those that clients of a router may speak


def answer_plain(talk: Talk, command: Plain, now_ms: int) -> Steps:
    """Execute one of them."""
    execute, _ = _VERBS[command.verb]
    return execute(talk, command, now_ms)


def right_of_plain(command: Plain, aliases: rights.Aliases) -> list[Need]:
    """Return what one of them needs; an unknown one needs everything."""
    _, right = _VERBS.get(command.verb, (None, rights.everything))
    return right(command, aliases)


def _flush(talk: Talk, command: Plain, now_ms: int) -> None:
    name = _one_name(command)
    queue = talk.broker.queues.get(name)
    count = queue.reader.ready.count + queue.reader.delays.count if queue is not None else 0
    rests = _admin(talk).flush(name, now_ms)
    _note(talk, "flush", now_ms, name, count, rests)
    talk.replies.say_done(command.noreply, b"END\r\n", rests, b"END\r\n")


def _flush_all(talk: Talk, command: Plain, now_ms: int) -> Iterator[bytes]:
    queues = _admin(talk).all_to_flush()
    if command.words and command.words != [b"0"]:
        raise ClientError(
            f"flush_all takes no delay ({readable(b' '.join(command.words))}): it flushes at once; "
            "flush_all or flush_all 0 is allowed"
        )
    peer = talk.holder.name
    end = talk.host.log_limit.take(f"{address_of(peer)} flush_all", now_ms)
    if end is not None:
        by = with_user(peer, talk.user)
        log.warning("flush_all by %s empties %d queues%s", by, len(queues), end)
    talk.host.actions.note(
        talk.who, "flush_all", now_ms, note=f"{len(queues)} queues"
    )
    return _flush_each(talk, queues, command.noreply)


def _flush_each(
    talk: Talk, queues: list[AnyQueue], noreply: bool
) -> Iterator[bytes]:
    done, admin = JointReply(), _admin(talk)
    for queue in queues:
        if queue.deleted:
            continue
        try:
            admin.check_mode("removes")
        except Refused as refused:
            talk.refuse(refused, noreply)
            return
        if queue.log.failure is None:
            done.hold(b"", queue.log, queue.flush(talk.last_command_ms))
        else:  # failed since the check above: a wait for more becomes the error
            done.hold(b"", queue.log, queue.log.lsn_appended + 1)
        yield b""
    talk.replies.hold(b"" if noreply else b"OK\r\n", done, 1)


def _flush_expired(talk: Talk, command: Plain, now_ms: int) -> Iterator[bytes]:
    queues = _admin(talk).to_sweep(_one_name(command))
    return _sweep_each(_admin(talk), queues, command.noreply, now_ms)


def _flush_all_expired(talk: Talk, command: Plain, now_ms: int) -> Iterator[bytes]:
    queues = _admin(talk).to_sweep(None)
    return _sweep_each(_admin(talk), queues, command.noreply, now_ms)


def _sweep_each(
    admin: QueueAdmin, queues: list[AnyQueue], noreply: bool, now_ms: int
) -> Iterator[bytes]:
    count = yield from admin.sweep(queues, now_ms)
    yield b"" if noreply else b"%d\r\n" % count


def _acknowledge(talk: Talk, command: Plain, now_ms: int) -> Steps:
    """`acknowledge <queue>`: end the items that cannot be read."""
    name = _one_name(command)
    queue = _admin(talk).to_acknowledge(name)
    if queue is None:
        _say(talk, command, b"NOT_FOUND\r\n")
        return None
    return _give_up(talk, queue, command.noreply, now_ms)


def _give_up(
    talk: Talk, queue: AnyQueue, noreply: bool, now_ms: int
) -> Iterator[bytes]:
    count, rests = yield from _admin(talk).acknowledge(queue, now_ms)
    _note(talk, "acknowledge", now_ms, queue.name, count, rests)
    if not noreply:
        talk.replies.hold(b"%d\r\n" % count, *rests)


def _stats(talk: Talk, command: Plain, now_ms: int) -> Iterator[bytes]:
    broker: Broker = talk.broker
    if not command.words:
        return stats_lines(broker, talk.host, now_ms)
    if command.words[0] == b"markers":
        return marker_lines(broker)
    if command.words[0] == b"schedules":
        return schedule_lines(talk.host.timetable)
    name, slash, option = command.words[0].partition(b"/")
    check_name(name)
    if not slash:
        return one_queue_lines(broker.queues.get(name), now_ms)
    return _look(talk, broker.queues.get(name), option, now_ms)


def _look(
    talk: Talk, queue: AnyQueue | None, option: bytes, now_ms: int
) -> Iterator[bytes]:
    """`stats <queue>/<option>`."""
    word, _, value = option.partition(b"=")
    if option == b"open":
        return open_lines(queue, now_ms)
    if option == b"dead":
        return dead_lines(queue)
    if option == b"delayed":
        return delayed_lines(queue)
    if option == b"settings":
        return setting_lines(queue, talk.host)
    if word == b"item":
        return item_lines(talk, queue, value)
    if word == b"token":
        return token_lines(talk, queue, value)
    refuse_later(readable(word))
    raise ClientError(
        "unknown option of stats, known are open, dead, delayed, settings, item=<n> and "
        "token=<n>"
    )


def _pause(talk: Talk, command: Plain, now_ms: int) -> None:
    is_paused = command.verb == b"pause"
    name = _one_name(command)
    rests = _admin(talk).pause(name, is_paused, now_ms)
    _note(talk, readable(command.verb), now_ms, name, None, rests)
    talk.replies.say_done(command.noreply, b"OK\r\n", rests)


def _retry(talk: Talk, command: Plain, now_ms: int) -> None:
    """`retry <queue> <item>`: make a delayed item available now."""
    if len(command.words) != 2:
        raise ClientError("retry needs a queue and an item: retry <queue> <number>")
    name, number = command.words
    check_name(name)
    item = parse_number("item", readable(number))
    rests = _admin(talk).retry(name, item, now_ms)
    _note(talk, "retry", now_ms, name, 1, rests, f"item {item}")
    talk.replies.say_done(command.noreply, b"OK\r\n", rests)


def _dump_stats(talk: Talk, command: Plain, now_ms: int) -> Iterator[bytes]:
    for name in command.words:
        check_name(name)
    return dump_lines(talk.broker, command.words, now_ms)


def _dump_config(talk: Talk, command: Plain, now_ms: int) -> Iterator[bytes]:
    for name in command.words:
        check_name(name)
    return config_lines(talk.broker, command.words, talk.host)


def _status(talk: Talk, command: Plain, now_ms: int) -> None:
    host = talk.host
    if not command.words:
        _say(talk, command, host.mode.upper().encode() + b"\r\n")
        return
    mode = readable(command.words[0].lower())
    if mode not in MODES:
        raise ClientError(f"unknown status {mode}, known are {' '.join(MODES)}")
    host.set_mode(mode)
    host.actions.note(talk.who, "mode", now_ms, note=mode)
    _say(talk, command, b"END\r\n")


def _reload(talk: Talk, command: Plain, now_ms: int) -> None:
    """`reload`; of a router also `reload check`, which changes nothing."""
    is_check = talk.is_routed and command.words == [b"check"]
    gate = talk.host.check_reload() if is_check else talk.host.reload(talk.who)
    if not command.noreply:
        talk.replies.hold(b"Reloaded config.\r\n", gate, 1)


def _version(talk: Talk, command: Plain, now_ms: int) -> None:
    _say(talk, command, f"VERSION {talk.host.version}\r\n".encode())


def _meta_noop(talk: Talk, command: Plain, now_ms: int) -> None:
    talk.replies.say(b"MN\r\n")


def _verbosity(talk: Talk, command: Plain, now_ms: int) -> None:
    _say(talk, command, b"OK\r\n")


def _shutdown(talk: Talk, command: Plain, now_ms: int) -> None:
    if not talk.host.server_settings.allow_shutdown:
        raise ClientError("shutdown is not allowed on this server (allow_shutdown)")
    talk.closing = True
    talk.host.actions.note(talk.who, "drain", now_ms)
    by = with_user(talk.holder.name, talk.user)
    talk.host.shutdown(f"shutdown by {by}")


def _client(talk: Talk, command: Plain, now_ms: int) -> None:
    """`client <wire> <peer> [<user>|/]`: a router says for whom it speaks here, and how; / needs no
    login. There is no reply to it."""
    if not talk.is_routed or len(command.words) < 2 or command.words[0] not in _WIRES:
        talk.replies.count_error(True)
        _say(talk, command, b"ERROR\r\n")
        return
    wire_name, peer, user = [*map(readable, command.words), ""][:3]
    talk.introduce(wire_name, unquote(peer), None if user == NO_LOGIN else unquote(user))


def _mail(talk: Talk, command: Plain, now_ms: int) -> None:
    """`mail`: only slices say it, over the socket of their router, where it is another command."""
    talk.replies.count_error(True)
    _say(talk, command, b"ERROR\r\n")


def _unwait(talk: Talk, command: Plain, now_ms: int) -> None:
    """`unwait`: a router ends a wait by it; one that is over has been answered."""
    if not talk.is_routed:
        talk.replies.count_error(True)
        _say(talk, command, b"ERROR\r\n")


def _quit(talk: Talk, command: Plain, now_ms: int) -> None:
    talk.closing = True


def _one_name(command: Plain) -> bytes:
    if len(command.words) != 1:
        verb = command.verb.decode("ascii")
        raise ClientError(f"{verb} needs a queue: {verb} <queue>")
    check_name(command.words[0].partition(b"/")[0])
    if b"/" in command.words[0]:
        raise ClientError(f"{command.verb.decode('ascii')} takes a queue without options")
    return command.words[0]


def _admin(talk: Talk) -> QueueAdmin:
    return QueueAdmin(talk.broker, talk.host)


def _note(
    talk: Talk, what: str, now_ms: int, name: bytes, count: int | None,
    rests: Rests | None, note: str = "",
) -> None:  # fmt: skip
    """Note an action on a queue; None: there was nothing to do it to."""
    if rests is not None:
        talk.host.actions.note(talk.who, what, now_ms, name, count, note, (rests,))


def _say(talk: Talk, command: Plain, data: bytes) -> None:
    if not command.noreply:
        talk.replies.say(data)


_VERBS: Final[dict[bytes, tuple[Callable[[Talk, Plain, int], Steps], rights.Right]]] = {
    b"flush": (_flush, rights.one_queue),
    b"flush_all": (_flush_all, rights.everything),
    b"flush_expired": (_flush_expired, rights.one_queue),
    b"flush_all_expired": (_flush_all_expired, rights.everything),
    b"stats": (_stats, rights.stats),
    b"pause": (_pause, rights.one_queue),
    b"resume": (_pause, rights.one_queue),
    b"retry": (_retry, rights.one_queue),
    b"acknowledge": (_acknowledge, rights.one_queue),
    b"move": (move, rights.everything),
    b"redrive": (redrive, rights.everything),
    b"dump_stats": (_dump_stats, rights.read_all),
    b"dump_config": (_dump_config, rights.read_all),
    b"status": (_status, rights.everything),
    b"reload": (_reload, rights.everything),
    b"version": (_version, rights.nothing),
    b"mn": (_meta_noop, rights.nothing),
    b"verbosity": (_verbosity, rights.nothing),
    b"shutdown": (_shutdown, rights.everything),
    b"quit": (_quit, rights.nothing),
    b"client": (_client, rights.nothing),
    b"mail": (_mail, rights.nothing),
    b"unwait": (_unwait, rights.nothing),
}
