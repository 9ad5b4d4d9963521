"""`set q/declare`: a publisher declares the settings of its queue; and `stats q/settings`.

    body ──▶ host.declaration: the stored form ──▶ declared before?   STORED, nothing changes
                  │ invalid: CLIENT_ERROR             │ other settings: NOT_STORED
                  ▼                                   ▼ none
             nothing changed                       stored, in force, STORED when synced

One rule: the first declaration holds until the queue is deleted. A client that declares the same
settings again gets STORED; other settings get NOT_STORED and change nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

from kestrelpy.core import Broker, Log, Queue
from kestrelpy.errors import ClientError, ServerError
from kestrelpy.protocol.parse import Store
from kestrelpy.protocol.ports import Host, Talk

_STORED = b"STORED\r\n"
_NOT_STORED = b"NOT_STORED\r\n"
_UNESCAPED = "!$&'()*+,:;=@/"


def declare(talk: Talk, command: Store, now_ms: int) -> None:
    """Execute `set q/declare`; raise Refused, and nothing has changed."""
    if talk.host.mode != "up":
        raise ServerError(f"{talk.host.mode}: this server stores nothing now")
    line = command.line
    if line.expiry:
        raise ClientError("a declaration does not expire: its expiry is 0")
    name, broker = line.target.name, talk.broker
    if name in broker.aliases:
        raise ClientError(f"{name.decode('ascii')} is an alias: it has no settings of its own")
    declared = talk.host.declaration(name, command.body)
    queue = broker.queues.get(name)
    if queue is None:
        queue = broker.create(name, now_ms, declared)
        lsn = queue.declare(declared, queue.policy, now_ms)
    elif queue.log.failure is not None:
        queue.raise_failed()
    elif declared == queue.declared:
        lsn = queue.log.lsn_appended  # the first declaration may not be on disk yet
    elif queue.declared:
        _answer(talk, command, _NOT_STORED, queue.log, queue.log.lsn_appended)
        return
    else:
        lsn = _declare_later(broker, queue, declared, now_ms)
    _answer(talk, command, _STORED, queue.log, lsn)


def _declare_later(broker: Broker, queue: Queue, declared: bytes, now_ms: int) -> int:
    """Declare settings for an existing queue; return the record to wait for."""
    if queue.log.no_room:
        raise ServerError(queue.log.no_room)
    policy = broker.policy_of(queue.name, declared)
    if policy.keys != queue.policy.keys and queue.reader.live:
        raise ClientError(
            "key settings cannot change while the queue holds items: they can when it is empty"
        )
    if policy.durable != queue.policy.durable:
        there = "on disk" if queue.policy.durable else "in memory"
        raise ClientError(
            f"durable cannot change while the queue exists, and it is {there}: delete it first"
        )
    return queue.declare(declared, policy, now_ms)


def _answer(talk: Talk, command: Store, word: bytes, log: Log, lsn: int) -> None:
    if not command.noreply:
        talk.replies.hold(word, log, lsn)
    elif word == _NOT_STORED:
        talk.broker.counters.refused_quietly += 1


def config_lines(broker: Broker, names: list[bytes], host: Host) -> Iterator[bytes]:
    """`dump_config`: the settings in force, in Kestrel's braces."""
    for name in names or sorted(broker.queues):
        queue = broker.queues.get(name)
        facts = host.settings(name, queue.declared) if queue is not None else []
        inside = "".join(f"  {key}={value}\r\n" for key, value, _ in facts)
        yield f"queue '{name.decode('ascii')}' {{\r\n{inside}}}\r\n".encode()
    yield b"END\r\n"


def setting_lines(queue: Queue | None, host: Host) -> Iterator[bytes]:
    """`stats <queue>/settings`: the settings in force, each with its source."""
    if queue is not None:
        name = queue.name.decode("ascii")
        lines = [
            f"STAT queue_{name}_setting_{key} {quote(value, _UNESCAPED)}\r\n"
            f"STAT queue_{name}_source_{key} {source}\r\n"
            for key, value, source in host.settings(queue.name, queue.declared)
        ]
        yield "".join(lines).encode()
    yield b"END\r\n"
