"""A fetch that waits, and how what was fetched, or not, is said.

One rule: what it ended before it waited is said with what it gets, and not before that is true.
"""

from __future__ import annotations

from kestrelpy.core.item import Item
from kestrelpy.core.kept import state_of
from kestrelpy.core.log import Log
from kestrelpy.core.reader import Reader
from kestrelpy.protocol.commands import Target
from kestrelpy.protocol.shape import full_value, value


class Waiting:
    """A fetch that waits, and the record of the close before it, if there was one."""

    __slots__ = ("awaited", "numbered", "stored", "target", "written")

    def __init__(
        self, target: Target, numbered: bool, awaited: Log | None, stored: int, written: int
    ) -> None:
        self.target = target
        self.numbered = numbered
        self.awaited = awaited
        self.stored = stored
        self.written = written


def shown(target: Target, numbered: bool, item: Item, reader: Reader, end: bytes) -> bytes:
    """What a peek answers."""
    if target.full:
        return full_value(target.raw, item, end, item.marker, *state_of(reader, item.id))
    return value(target.raw, item, end, item.marker if numbered else 0)
