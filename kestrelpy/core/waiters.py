"""Consumers waiting, served strictly in the order they came.

One rule: nobody is served before an earlier waiter for the same items (ready or dead ones) of the
same reader; who gave up or hung up is passed over.
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kestrelpy.core.item import Item
    from kestrelpy.core.leases import Holder, Lease
    from kestrelpy.core.timers import Entry


class Want(Enum):
    """What a waiter will do with the item."""

    OPEN = "open"
    TAKE = "take"
    PEEK = "peek"


class Waiter:
    """One waiting request. `done` once it was answered, gave up or hung up.

    `lease` or `item` is the answer, `owner` the reader it came from; neither: there was none in
    time. `done_lsn` is the record that ended the delivery of a plain get. `conversation` is the
    shell's own, the core hands it back.
    """

    __slots__ = (
        "conversation", "dead", "done", "done_lsn", "holder", "item", "lease", "line", "name",
        "owner", "timer", "want",
    )  # fmt: skip

    def __init__(
        self, want: Want, name: bytes, holder: Holder, dead: bool, conversation: object
    ) -> None:
        self.want = want
        self.name = name
        self.holder = holder
        self.dead = dead
        self.conversation = conversation
        self.done = False
        self.lease: Lease | None = None
        self.item: Item | None = None
        self.done_lsn = 0
        self.owner: object | None = None
        self.line: Waiters | None = None
        self.timer: Entry[Any] | None = None


class Waiters:
    """One reader's waiting consumers: a line for what is ready, and one for the dead."""

    __slots__ = ("_lines", "count")

    def __init__(self) -> None:
        self._lines: tuple[deque[Waiter], deque[Waiter]] = (deque(), deque())
        self.count = 0

    def __bool__(self) -> bool:
        return self.count > 0

    def add(self, waiter: Waiter) -> None:
        """To the end of its line."""
        self._lines[waiter.dead].append(waiter)
        self.count += 1

    def first(self, dead: bool = False) -> Waiter | None:
        """Whose turn it is; None: nobody waits for such items."""
        line = self._lines[dead]
        while line and line[0].done:
            line.popleft()
        return line[0] if line else None

    def finish(self, waiter: Waiter) -> None:
        """Answered, timed out or gone: it waits no more."""
        if waiter.done:
            return
        waiter.done = True
        self.count -= 1
        line = self._lines[waiter.dead]
        if line and line[0] is waiter:
            line.popleft()
        elif len(line) > 64 and self.count * 2 < len(line):
            waiting = [w for w in line if not w.done]
            line.clear()
            line.extend(waiting)

    def take_all(self) -> list[Waiter]:
        """Everybody, each line in order; both are empty afterwards."""
        everybody = [w for line in self._lines for w in line if not w.done]
        for line in self._lines:
            line.clear()
        self.count = 0
        return everybody
