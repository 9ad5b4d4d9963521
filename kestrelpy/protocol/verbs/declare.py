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

from kestrelpy.core import AnyQueue, Broker
from kestrelpy.errors import ClientError
from kestrelpy.operations import QueueAdmin
from kestrelpy.protocol.parse import Store
from kestrelpy.protocol.ports import Host, Talk

_STORED = b"STORED\r\n"
_NOT_STORED = b"NOT_STORED\r\n"
_UNESCAPED = "!$&'()*+,:;=@/"


def declare(talk: Talk, command: Store, now_ms: int) -> None:
    """Execute `set q/declare`; raise Refused, and nothing has changed."""
    admin, line = QueueAdmin(talk.broker, talk.host), command.line
    admin.check_mode("stores")
    if line.expiry:
        raise ClientError("a declaration does not expire: its expiry is 0")
    declared = admin.declare(line.target.name, command.body, now_ms, talk.user)
    if declared.is_new:
        talk.host.actions.note(
            talk.who, "declare", now_ms, line.target.name, rests=(declared.rests,)
        )
    if not command.noreply:
        talk.replies.hold(_STORED if declared.is_in_force else _NOT_STORED, *declared.rests)
    elif not declared.is_in_force:
        talk.broker.counters.refused_quietly += 1


def config_lines(broker: Broker, names: list[bytes], host: Host) -> Iterator[bytes]:
    """`dump_config`: the settings in force, in Kestrel's braces."""
    for name in names or sorted(broker.queues):
        queue = broker.queues.get(name)
        facts = host.settings(name, queue.declared) if queue is not None else []
        inside = "".join(f"  {key}={value}\r\n" for key, value, _ in facts)
        yield f"queue '{name.decode('ascii')}' {{\r\n{inside}}}\r\n".encode()
    yield b"END\r\n"


def setting_lines(queue: AnyQueue | None, host: Host) -> Iterator[bytes]:
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
