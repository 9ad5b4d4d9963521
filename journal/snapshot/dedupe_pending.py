"""Ids and versions that no file has yet: what the next snapshot writes as a chunk.

    put ──▶ Fresh ──take──▶ Batch ──▶ a chunk, beside the snapshot
              ▲               │
              └──give_back────┘  it could not be written

One rule: what was taken is on disk, in the batch, or back here; it is never in none of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from journal.sets.hash_table import ID

Epoch = tuple[bytes, int]  # a scope and which of its epochs


@dataclass(slots=True)
class Batch:
    """Entries in the order in which they came: of ids in no scope, of keys, and of each scope those
    of its newest epoch.
    """

    ids: bytearray = field(default_factory=bytearray)
    scoped: dict[bytes, tuple[int, bytearray]] = field(default_factory=dict)
    keys: bytearray = field(default_factory=bytearray)

    @property
    def is_empty(self) -> bool:
        """Is there nothing to write?"""
        return not (self.ids or self.scoped or self.keys)


class Fresh:
    """What came since the last batch was taken. A queue in memory keeps nothing here."""

    __slots__ = ("_batch", "keeps")

    def __init__(self) -> None:
        self._batch = Batch()
        self.keeps = True

    def add_id(self, entry: bytes) -> None:
        """An id in no scope."""
        if self.keeps:
            self._batch.ids += entry

    def add_scoped(self, scope: bytes, epoch: int, entry: bytes) -> None:
        """An id of this epoch."""
        if self.keeps:
            _add(self._batch.scoped, scope, epoch, entry)

    def add_key(self, entry: bytes) -> None:
        """A key that was written under; the last entry of a key counts."""
        if self.keeps:
            self._batch.keys += entry

    def forget(self, scope: bytes) -> None:
        """Nothing of this scope is wanted any more."""
        self._batch.scoped.pop(scope, None)

    def keep_nothing(self) -> None:
        """There is no disk to write it to."""
        self.keeps = False
        self._batch = Batch()

    def take(self) -> Batch:
        """All of it, to be written."""
        batch, self._batch = self._batch, Batch()
        return batch

    def give_back(self, batch: Batch) -> None:
        """It was not written: it stands before what came since."""
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
    """More ids of this epoch; what is there of another one is forgotten."""
    there = scoped.get(scope)
    if there is None or there[0] != epoch:
        scoped[scope] = (epoch, bytearray(entries))
    else:
        there[1].extend(entries)
