"""The dead line: items whose attempts are used up, with what is known about why.

What is known about them stays in memory, and the bodies of the first few; the others are read
back from the log when somebody asks for them.

One rule: a dead item stays until somebody confirms it from the dead line; nothing expires here.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Final

from journal.format.subscription_state import DeadEntry
from journal.sets.id_set import IdSet
from kestrelpy.core.item import Item
from kestrelpy.core.trash import Trash

# Bodies of dead items kept in memory: enough that looking at a few needs no disk.
KEPT_BYTES_MAX: Final = 1 << 20
# Entries of deaths that are over stay in the line while one before them stands there; so many may,
# and as many as there are dead.
PASSED_ENTRIES_MAX: Final = 1024


class DeadLetters:
    """Dead items in the order in which they died; `count` of them are there to be lent.

    `ids` are those of `deaths`.
    """

    __slots__ = (
        "_away", "_hidden", "_items", "_kept_bytes", "_line", "_order", "bytes", "count", "deaths",
        "ids", "wanted",
    )  # fmt: skip

    def __init__(self) -> None:
        self.deaths: dict[int, DeadEntry] = {}
        self.ids = IdSet()
        self.count = 0
        self.bytes = 0  # of all their bodies, lent ones included
        self._line: list[tuple[int, int]] = []  # a heap of orders, with ids
        self._items: dict[int, Item] = {}
        self._kept_bytes = 0
        self._order = 0
        self._hidden: set[int] = set()
        # Taken from behind the front: is their entry in the line still there?
        self._away: dict[int, bool] = {}
        self.wanted = 0  # beside the first one, this one's body is to be read back

    def __len__(self) -> int:
        return len(self.deaths)

    def add(
        self, id_: int, attempts: int, reason: bytes, died_ms: int, body_bytes: int, order: int = 0
    ) -> None:
        """To the end of the dead line, or to its place there."""
        self._order = order = order or self._order + 1
        self.deaths[id_] = DeadEntry(id_, order, attempts, reason, died_ms, body_bytes)
        self.ids.add(id_)
        self.count += 1
        self.bytes += body_bytes
        heappush(self._line, (order, id_))
        if len(self._line) > 2 * len(self.deaths) + PASSED_ENTRIES_MAX:
            self._line = [entry for entry in self._line if self._is_its(*entry)]
            heapify(self._line)

    def store(self, item: Item, always: bool) -> None:
        """If its body is here, it stays if there is room for it."""
        if item.is_whole and item.id not in self._items and (
            always or self._kept_bytes + item.size <= KEPT_BYTES_MAX or not self._items
        ):
            self._items[item.id] = item
            self._kept_bytes += item.size

    def take_in(self, item: Item) -> None:
        """The body of the first has been read back: others make room for it if need be."""
        if item.id == self.wanted:
            self.wanted = 0
        if self._kept_bytes + item.size > KEPT_BYTES_MAX:
            self._items.clear()
            self._kept_bytes = 0
        self.store(item, True)

    @property
    def missing(self) -> int:
        """The first item's id, if its body is not in memory; else 0."""
        id_ = self._first()
        return id_ if id_ and id_ not in self._items else 0

    @property
    def sought(self) -> int:
        """Whose body is to be read back next: one that somebody wants, or the first; else 0."""
        wanted = self.wanted
        return wanted if wanted and wanted not in self._items else self.missing

    def pop(self) -> tuple[int, Item] | None:
        """The first with its order; None: there is none, or its body is missing."""
        item = self.first()
        if item is None:
            return None
        order, _ = heappop(self._line)
        self.count -= 1
        del self._items[item.id]
        self._kept_bytes -= item.size
        return order, item

    def first(self) -> Item | None:
        """What `pop` would return."""
        id_ = self._first()
        return self._items.get(id_) if id_ else None

    def at(self, id_: int) -> Item | None:
        """The dead item of this number, if its body is in memory and it is not lent."""
        return self._items.get(id_)

    def take(self, id_: int) -> Item | None:
        """Pop this one, wherever it stands; None: it is not to be had, or its body is missing."""
        item = self._items.pop(id_, None)
        if item is None:
            return None
        self.lease(id_)
        self._kept_bytes -= item.size
        return item

    def lease(self, id_: int) -> None:
        """Somebody has this one, wherever it stands; its body is not in memory."""
        self._away[id_] = True
        self.count -= 1

    def put_back(self, item: Item, always: bool) -> None:
        """It was popped and is back at its place; its body stays as in `keep`, or is read again."""
        if not self._away.pop(item.id, False):
            heappush(self._line, (self.deaths[item.id].order, item.id))
        self.count += 1
        self.store(item, always)

    def hide(self, id_: int) -> None:
        """Its body is not readable: it is not offered until the next start."""
        if id_ == self.wanted:
            self.wanted = 0
        self._line = [entry for entry in self._line if entry[1] != id_]
        heapify(self._line)
        self._hidden.add(id_)
        self.count -= 1

    def is_hidden(self, id_: int) -> bool:
        """Was its body not readable?"""
        return id_ in self._hidden

    def forget(self, id_: int, is_lent: bool) -> None:
        """It is dead no more: confirmed while it was lent, or gone while it was not."""
        death = self.deaths.pop(id_)
        self.ids.discard(id_)
        self._away.pop(id_, None)
        if id_ == self.wanted:
            self.wanted = 0
        self.bytes -= death.body_bytes
        if not self.deaths:
            self._line.clear()
        if id_ in self._hidden:
            self._hidden.remove(id_)
        elif not is_lent:
            self.count -= 1
            item = self._items.pop(id_, None)
            if item is not None:
                self._kept_bytes -= item.size

    def drop(self, trash: Trash) -> None:
        """The queue is deleted: nobody asks for them here."""
        trash.take(self.deaths, self._line, self._items, self._hidden, self._away)

    def _first(self) -> int:
        line = self._line
        while line:
            order, id_ = line[0]
            is_its = self._is_its(order, id_)
            if is_its and id_ not in self._away:
                return id_
            heappop(line)
            if is_its:
                self._away[id_] = False
        return 0

    def _is_its(self, order: int, id_: int) -> bool:
        """Is this entry of an item that is dead, and not of an earlier death?"""
        death = self.deaths.get(id_)
        return death is not None and death.order == order
