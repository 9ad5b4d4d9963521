"""The replies about single items and dead letters: `stats q/item=7`, `stats q/token=9`,
`stats q/dead`.

One rule: an item is shown when it is stored, not before.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kestrelpy.core import AnyQueue
from kestrelpy.operations import (
    Inspection,
    check_assigned,
    death_facts,
    readable,
)
from kestrelpy.protocol.parse import parse_number
from kestrelpy.protocol.ports import Talk
from kestrelpy.protocol.stats.stats import lines, words

_PER_SLICE: Final = 200
_END: Final = b"END\r\n"


def item_lines(talk: Talk, queue: AnyQueue | None, value: bytes) -> Iterator[bytes]:
    """`stats <queue>/item=<n>`; raise ClientError for a number that is not assigned yet."""
    id_ = _number("item", value)
    if queue is None:
        return iter((_END,))
    if lsn := check_assigned(queue, id_):
        talk.replies.hold(b"", queue.log, lsn)
    return _item_lines(talk, queue, id_)


def token_lines(talk: Talk, queue: AnyQueue | None, value: bytes) -> Iterator[bytes]:
    """`stats <queue>/token=<n>`: the item leased by a token that a client has seen."""
    token = _number("token", value)
    if queue is None:
        return iter((_END,))
    lease = queue.reader.by_token.find(token, talk.last_command_ms)
    if lease is None:
        return iter((lines("", [("token", token), ("state", "gone")]) + _END,))
    return _item_lines(talk, queue, lease.item.id)


def _number(name: str, value: bytes) -> int:
    return parse_number(name, readable(value) if value else None)


def _item_lines(talk: Talk, queue: AnyQueue, id_: int) -> Iterator[bytes]:
    inspection = Inspection(queue, id_, talk.host.mode, talk.browser())
    stored, ahead = yield from inspection.read()
    facts = inspection.facts(stored, ahead, talk.last_command_ms)
    yield lines("", words(facts)) + _END


def dead_lines(queue: AnyQueue | None) -> Iterator[bytes]:
    """`stats <queue>/dead`: all dead letters, oldest first, a line for each fact."""
    deaths = list(queue.reader.dead.deaths.values()) if queue is not None else []
    for start in range(0, len(deaths), _PER_SLICE):
        assert queue is not None
        name, reader = queue.name.decode("ascii"), queue.reader
        yield b"".join(
            lines(f"queue_{name}_dead_{death.item}_", words(death_facts(reader, death)))
            for death in deaths[start : start + _PER_SLICE]
        )
    yield _END
