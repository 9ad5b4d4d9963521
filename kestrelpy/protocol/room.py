"""Large replies wait while connections hold too much memory; small ones go on.

One rule: a request that waits for memory has changed nothing; it is executed when there is room.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from kestrelpy.core import Broker
from kestrelpy.errors import NoRoomYet, Refused
from kestrelpy.protocol.parse import Target
from kestrelpy.protocol.ports import Talk
from kestrelpy.protocol.steps import Steps

# A reply with at most this many bytes of items waits only when far too much is held.
SMALL_ANSWER_BYTES: Final = 64 << 10


def must_wait_for_room(talk: Talk, targets: list[Target], now_ms: int) -> bool:
    """Return True if there is no room for the next items of these keys.

    The size of an item that is read by its marker or key is not known: it reserves the room of a
    small one.
    """
    size = sum(_next_bytes(talk.broker, target, now_ms) for target in targets)
    return not talk.host.room.reserve(talk, max(size, SMALL_ANSWER_BYTES))


def with_room(
    talk: Talk, fetch: Callable[[int], Steps]
) -> Iterator[bytes]:
    """Run `fetch` when there is room; it gets the time and returns the rest of its reply."""
    while True:
        while talk.wants_bytes:
            yield b""
        try:
            stream = fetch(talk.last_command_ms)
            break
        except NoRoomYet as none_yet:
            talk.await_room(none_yet.waiting)
        except Refused as refused:
            talk.refuse(refused)
            return
        yield b""
    if stream is not None:
        yield b""  # the first step of the stream is done
        yield from stream


def _next_bytes(broker: Broker, target: Target, now_ms: int) -> int:
    """Return the size of the key's next item; 0 if it is not known or not requested.

    A browser reserves room on its own.
    """
    queue = broker.queues.get(target.name)
    if queue is None or target.view is not None or target.key:
        return 0
    if not (target.takes or target.opens or target.peeks):
        return 0
    item = queue.reader.first(now_ms, target.dead)
    return item.size if item is not None else 0
