"""Large answers wait while connections hold too much memory; small ones go on.

One rule: what waits has changed nothing: it is asked again when there is room.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from kestrelpy.core.broker import Broker
from kestrelpy.errors import Refused
from kestrelpy.protocol.parse.commands import Target
from kestrelpy.protocol.ports import Talk

# An answer with no more of items than that waits only when far too much is held.
SMALL_ANSWER_BYTES: Final = 64 << 10


def must_wait_for_room(talk: Talk, targets: list[Target], now_ms: int) -> bool:
    """Return whether there is no room for what these keys would be given now.

    How large an item is that is read by its marker or key is not known: there is room as for a
    small one.
    """
    size = sum(_next_bytes(talk.broker, target, now_ms) for target in targets)
    return not talk.host.room.reserve(talk, max(size, SMALL_ANSWER_BYTES))


def with_room(
    talk: Talk, fetch: Callable[[int], Iterator[bytes] | None]
) -> Iterator[bytes]:
    """Fetch when there is room; `fetch` is given the time, and returns the rest of its answer."""
    while talk.wants_bytes:
        yield b""
    try:
        stream = fetch(talk.last_command_ms)
    except Refused as refused:
        talk.refuse(refused)
        return
    if stream is not None:
        yield b""  # its first step is done
        yield from stream


def _next_bytes(broker: Broker, target: Target, now_ms: int) -> int:
    """Return how large the next item of this key is; 0: none is known, or it is not asked for.

    An observer reserves what it needs by itself.
    """
    queue = broker.queues.get(target.name)
    if queue is None or target.view is not None or target.key:
        return 0
    if not (target.takes or target.opens or target.peeks):
        return 0
    item = queue.reader.first(now_ms, target.dead)
    return item.size if item is not None else 0
