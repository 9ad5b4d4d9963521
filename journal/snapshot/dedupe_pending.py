"""Ids and versions that no file has yet: the next snapshot writes them as a chunk.

    put ──▶ Fresh ──take──▶ PendingEntries ──▶ a chunk, which the next snapshot lists
              ▲               │
              └──give_back────┘  it could not be written

One rule: taken entries are on disk, in the batch, or given back: none is ever lost.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from journal.sets import ID

Epoch = tuple[bytes, int]  # a scope and which of its epochs


@dataclass(slots=True)
class PendingEntries:
    """Entries in the order in which they came: of ids in no scope, of keys, and of each scope those
    of its newest epoch.
    """

    ids: bytearray = field(default_factory=bytearray)
    scoped: dict[bytes, tuple[int, bytearray]] = field(default_factory=dict)
    keys: bytearray = field(default_factory=bytearray)

    @property
    def is_empty(self) -> bool:
        """True if there is nothing to write."""
        return not (self.ids or self.scoped or self.keys)


class Fresh:
    """Entries since the last batch was taken. A queue in memory keeps none here."""

    __slots__ = ("_batch", "keeps")

    def __init__(self) -> None:
        self._batch = PendingEntries()
        self.keeps = True

    def add_id(self, entry: bytes) -> None:
        """Add an id in no scope."""
        if self.keeps:
            self._batch.ids += entry

    def add_scoped(self, scope: bytes, epoch: int, entry: bytes) -> None:
        """Add an id of this epoch."""
        if self.keeps:
            _add(self._batch.scoped, scope, epoch, entry)

    def add_key(self, entry: bytes) -> None:
        """Add a written key; its last entry counts."""
        if self.keeps:
            self._batch.keys += entry

    def forget(self, scope: bytes) -> None:
        """Drop all ids of this scope."""
        self._batch.scoped.pop(scope, None)

    def store_nothing(self) -> None:
        """Keep no entries: there is no disk for them."""
        self.keeps = False
        self._batch = PendingEntries()

    def take(self) -> PendingEntries:
        """Return all entries, to be written."""
        batch, self._batch = self._batch, PendingEntries()
        return batch

    def give_back(self, batch: PendingEntries) -> None:
        """Take back a batch that was not written; it comes before the entries since."""
        since, self._batch = self._batch, batch
        batch.ids += since.ids
        batch.keys += since.keys
        for scope, (epoch, entries) in since.scoped.items():
            _add(batch.scoped, scope, epoch, entries)

    @property
    def ids(self) -> int:
        """How many ids in no scope are not on disk as a chunk."""
        return len(self._batch.ids) // ID.size


def _add(
    scoped: dict[bytes, tuple[int, bytearray]], scope: bytes, epoch: int, entries: bytes | bytearray
) -> None:
    """Add ids of this epoch; those of another one are dropped."""
    there = scoped.get(scope)
    if there is None or there[0] != epoch:
        scoped[scope] = (epoch, bytearray(entries))
    else:
        there[1].extend(entries)
