"""The dead letters: items whose attempts are used up, with the reason and time of each death.

The facts about every dead letter stay in memory, and so do the bodies of the first few. The other
bodies are read back from the log when a client asks for them.

One rule: a dead letter stays until a client or a transfer ends it; dead letters never expire.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Final

from journal.format import DeadEntry
from journal.sets import IdSet
from kestrelpy.core.item import Item
from kestrelpy.core.trash import Trash

# Bytes of dead letters' bodies in memory: enough to look at a few without the disk.
MEMORY_BYTES_MAX: Final = 1 << 20
# An entry of a death that is over stays in the line while another entry stands before it. There may
# be this many such entries, plus one for each dead letter.
PASSED_ENTRIES_MAX: Final = 1024
# Such entries at the front go with each dead letter that ends: more than one, to catch up.
PASSED_AT_ONCE: Final = 2


class DeadLetters:
    """Dead letters in the order of their deaths; `count` of them can be leased.

    `ids` are the ids of `deaths`, `unlogged` those whose death is in no record.
    """

    __slots__ = (
        "_away",
        "_held_bytes",
        "_hidden",
        "_items",
        "_latest_place",
        "_line",
        "bytes",
        "count",
        "deaths",
        "ids",
        "unlogged",
        "wanted",
    )  # fmt: skip

    def __init__(self) -> None:
        self.deaths: dict[int, DeadEntry] = {}
        self.ids = IdSet()
        self.count = 0
        self.bytes = 0  # of all bodies, those of leased dead letters included
        self._line: list[tuple[int, int]] = []  # a heap of orders, with ids
        self._items: dict[int, Item] = {}
        self._held_bytes = 0
        self._latest_place = 0
        self._hidden: set[int] = set()
        # Dead letters taken from after the front; True while their entry is still in the line.
        self._away: dict[int, bool] = {}
        self.unlogged: set[int] = set()
        self.wanted = 0  # a client waits for this one's body, besides the first one's

    def __len__(self) -> int:
        return len(self.deaths)

    def add(
        self, id_: int, attempts: int, reason: bytes, died_ms: int, body_bytes: int, place: int = 0
    ) -> None:
        """Add a dead letter at the end of the line, or at `place`."""
        self._latest_place = place = place or self._latest_place + 1
        self.deaths[id_] = DeadEntry(id_, place, attempts, reason, died_ms, body_bytes)
        self.ids.add(id_)
        self.count += 1
        self.bytes += body_bytes
        heappush(self._line, (place, id_))
        if len(self._line) > 2 * len(self.deaths) + PASSED_ENTRIES_MAX:
            self._line = [entry for entry in self._line if self._is_its(*entry)]
            heapify(self._line)

    def store(self, item: Item, always: bool) -> None:
        """Keep the item with its body in memory if there is room for it, or `always`."""
        if item.is_whole and item.id not in self._items and (
            always or self._held_bytes + item.size <= MEMORY_BYTES_MAX or not self._items
        ):
            self._items[item.id] = item
            self._held_bytes += item.size

    def take_in(self, item: Item) -> None:
        """Store an item that was read back; if there is no room for it, drop the other bodies."""
        if item.id == self.wanted:
            self.wanted = 0
        if self._held_bytes + item.size > MEMORY_BYTES_MAX:
            self._items.clear()
            self._held_bytes = 0
        self.store(item, True)

    @property
    def missing(self) -> int:
        """The id of the first dead letter if its body is not in memory; else 0."""
        id_ = self._first()
        return id_ if id_ and id_ not in self._items else 0

    @property
    def sought(self) -> int:
        """The id of the next body to read back: the wanted one, else the first; 0: none."""
        wanted = self.wanted
        return wanted if wanted and wanted not in self._items else self.missing

    def pop(self) -> tuple[int, Item] | None:
        """Remove and return the first item with its order; None: none, or its body is missing."""
        item = self.first()
        if item is None:
            return None
        order, _ = heappop(self._line)
        self.count -= 1
        del self._items[item.id]
        self._held_bytes -= item.size
        return order, item

    def first(self) -> Item | None:
        """Return the item that `pop` would return."""
        id_ = self._first()
        return self._items.get(id_) if id_ else None

    def at(self, id_: int) -> Item | None:
        """Return the dead letter of this id, if its body is in memory and it is not leased."""
        return self._items.get(id_)

    def take(self, id_: int) -> Item | None:
        """Remove and return this dead letter, at any place; None: no such item, or no body."""
        item = self._items.pop(id_, None)
        if item is None:
            return None
        self.lease(id_)
        self._held_bytes -= item.size
        return item

    def lease(self, id_: int) -> None:
        """Note that this dead letter is leased, at any place; its body is not in memory."""
        self._away[id_] = True
        self.count -= 1

    def put_back(self, item: Item, always: bool) -> None:
        """Return a popped item to its place; its body stays as in `store`, or is read again."""
        if not self._away.pop(item.id, False):
            heappush(self._line, (self.deaths[item.id].order, item.id))
        self.count += 1
        self.store(item, always)

    def hide(self, id_: int) -> None:
        """Offer an item whose body is not readable no more until the next start."""
        if id_ == self.wanted:
            self.wanted = 0
        self._line = [entry for entry in self._line if entry[1] != id_]
        heapify(self._line)
        self._hidden.add(id_)
        self.count -= 1

    def is_hidden(self, id_: int) -> bool:
        """True if the item's body was not readable."""
        return id_ in self._hidden

    def forget(self, id_: int, is_leased: bool) -> None:
        """Forget a dead letter: it was confirmed while leased, or is gone while it was not."""
        death = self.deaths.pop(id_)
        self.ids.discard(id_)
        self.unlogged.discard(id_)
        self._away.pop(id_, None)
        if id_ == self.wanted:
            self.wanted = 0
        self.bytes -= death.body_bytes
        if not self.deaths:
            self._line.clear()
        for _ in range(PASSED_AT_ONCE):  # else the next look at the front passes them all
            if self._line and not self._is_its(*self._line[0]):
                heappop(self._line)
        if id_ in self._hidden:
            self._hidden.remove(id_)
        elif not is_leased:
            self.count -= 1
            item = self._items.pop(id_, None)
            if item is not None:
                self._held_bytes -= item.size

    def drop(self, trash: Trash) -> None:
        """Hand everything to `trash`: the queue is deleted, and these structures are not used."""
        trash.take(
            self.deaths, self._line, self._items, self._hidden, self._away, self.unlogged
        )

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

    def _is_its(self, place: int, id_: int) -> bool:
        """True if the entry is that of an item's present death, not of an earlier one."""
        death = self.deaths.get(id_)
        return death is not None and death.order == place
