"""A get that waits, and its reply.

One rule: the close before a wait is answered together with the item, and only when it is true.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kestrelpy.core import AnyQueue, Item, Log, Subscription
from kestrelpy.errors import Unread
from kestrelpy.protocol.parse import Target
from kestrelpy.protocol.verbs.value_line import full_value, value


class PendingGet:
    """A get that waits, and the record of the close before it, if there was one."""

    __slots__ = ("awaited", "numbered", "stored", "target", "written")

    def __init__(
        self, target: Target, numbered: bool, awaited: Log | None, stored: int, written: int
    ) -> None:
        self.target = target
        self.numbered = numbered
        self.awaited = awaited
        self.stored = stored
        self.written = written


def peek_reply(
    target: Target, numbered: bool, item: Item, reader: Subscription, end: bytes
) -> bytes:
    """Return the reply to a peek."""
    if target.full:
        return full_value(target.raw, item, end, item.marker, *reader.state_of(item.id))
    return value(target.raw, item, end, item.marker if numbered else 0)


def why_unread(target: Target, queue: AnyQueue | None, now_ms: int) -> str:
    """Return why the next item cannot be read for the moment; "" if it can, or there is none."""
    if queue is None or not queue.reader.unread:
        return ""
    is_busy = queue.reader.is_busy(now_ms, target.dead, not target.peeks)
    return queue.reader.unread if is_busy else ""


def retry_unread(observe: Callable[[], Iterator[bytes]]) -> Iterator[bytes]:
    """Browse one key of several. The items of the other keys are already in the reply, so a
    shortage is not an error here: it is tried again until it is over."""
    while True:
        try:
            yield from observe()
        except Unread:
            continue  # each attempt takes its time
        return
