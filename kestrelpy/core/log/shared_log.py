"""One log with several subscriptions: the records that each of them writes into it.

    0 (the queue's own) ──done 7──▶ 2 still needs the item: the segment list does not count an end
    2 (audit)           ──done 7──▶ no subscription needs it: the record ends the item

Each record carries the number of its subscription. A queue without children has its log to itself
and does not use this module.

One rule: the record that ends an item for the last subscription that needs it, and no other, ends
the item in the segment list. So a segment stays while any subscription may want to read it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from journal.format import Draft, Kind, Watermark, ended
from journal.sets import IdSet
from journal.store import ReadAhead
from kestrelpy.core.item import Item
from kestrelpy.core.log.log import JournalLog, Log
from kestrelpy.core.log.records import Records, packed

_DONE: Final = int(Kind.DONE)
_FLUSHED: Final = int(Kind.FLUSHED)


class Needs(Protocol):
    """The items that the subscriptions of one log need."""

    def is_needed(self, id_: int) -> bool:
        """True if any subscription still needs this item."""

    def needed_now(self) -> IdSet:
        """Return all items that any subscription needs, as a set that does not change later."""


class SharedLog(Records):
    """The log as one of several subscriptions sees it; `number` is the subscription's."""

    __slots__ = ("_needs", "_own_read_ahead", "base", "number")

    def __init__(self, base: Log, number: int, needs: Needs) -> None:
        self.base = base
        self.number = number
        self._needs = needs
        self._own_read_ahead: ReadAhead | None = None
        if number and isinstance(base, JournalLog):
            self._own_read_ahead = base.store.another_read_ahead()

    @property
    def archive_to(self) -> str:
        return self.base.archive_to

    @archive_to.setter
    def archive_to(self, directory: str) -> None:
        self.base.archive_to = directory

    @property
    def sync_in_turn(self) -> bool:
        return self.base.sync_in_turn

    @sync_in_turn.setter
    def sync_in_turn(self, is_on: bool) -> None:
        """Has no effect: the queue decides this."""

    @property
    def identity(self) -> bytes:
        return self.base.identity

    @property
    def lsn_written(self) -> int:
        return self.base.lsn_written

    @property
    def lsn_stored(self) -> int:
        return self.base.lsn_stored

    @property
    def lsn_appended(self) -> int:
        return self.base.lsn_appended

    @property
    def lsn_durable(self) -> int:
        return self.base.lsn_durable

    @property
    def item_stored(self) -> int:
        return self.base.item_stored

    @property
    def failure(self) -> Exception | None:
        return self.base.failure

    @property
    def no_room(self) -> str:
        return self.base.no_room

    @property
    def is_short(self) -> bool:
        return self.base.is_short

    @property
    def is_full(self) -> bool:
        return self.base.is_full

    @property
    def read_ahead(self) -> ReadAhead | None:
        return self._own_read_ahead if self.number else self.base.read_ahead

    @property
    def waiting_stored(self) -> set[object]:
        return self.base.waiting_stored

    @property
    def waiting_written(self) -> set[object]:
        return self.base.waiting_written

    def set_sync(self, sync_ms: int) -> None:
        """Has no effect: the queue decides this."""

    def write(self, draft: Draft) -> int:
        return self.base.write(self._as_own(draft))

    def write_lazily(self, draft: Draft) -> int:
        return self.base.write_lazily(self._as_own(draft))

    def _as_own(self, draft: Draft) -> Draft:
        put_lsn = draft.put_lsn
        if put_lsn and self._needs.is_needed(draft.item):
            put_lsn = 0
        return draft._replace(reader=self.number, put_lsn=put_lsn)

    def done(self, item: Item, attempts: int, began_ms: int, unix_ms: int) -> int:
        small, meta = ended(attempts + 1, item.size)
        put_lsn = 0 if self._needs.is_needed(item.id) else item.lsn
        return self.base.write(
            Draft(_DONE, item.id, began_ms, small, unix_ms, meta, b"", self.number, put_lsn)
        )

    def write_recounted(self, draft: Draft, readable: Callable[[], IdSet]) -> int:
        return self.base.write_recounted(draft._replace(reader=self.number), readable)

    def _without_room(self) -> int | None:
        return self.base.lsn_appended if self.base.is_full else None

    def put(self, item: Item, nominal: Watermark | None = None, reader: int = 0) -> int:
        return self.base.put(item, nominal, self.number)

    def put_later(self, item: Item, due_ms: int, reader: int = 0) -> int:
        return self.base.put_later(item, due_ms, self.number)

    def tokens(self, below: int, unix_ms: int) -> int:
        return self.base.tokens(below, unix_ms)  # one sequence of ranges for all

    def nominal(self, nominal: Watermark, unix_ms: int) -> int:
        return self.base.nominal(nominal, unix_ms)

    def flushed(
        self, last_id: int, spared: list[int], stay: IdSet, live_bytes: int, unix_ms: int
    ) -> int:
        body = packed(spared)
        draft = Draft(_FLUSHED, last_id, live_bytes, 0, unix_ms, b"", body, self.number, 0)
        return self.base.write_recounted(draft, self._needs.needed_now)

    def paused(self, paused: bool, unix_ms: int, reader: int = 0) -> int:
        return self.base.paused(paused, unix_ms, self.number)

    def declared(self, settings: bytes, metadata: bytes, unix_ms: int) -> int:
        return self.base.declared(settings, metadata, unix_ms)

    def wait_durable(self, lsn: int) -> None:
        self.base.wait_durable(lsn)

    def attached(
        self, reserve: Callable[[], int], first_open: Callable[[], int],
        gone: Callable[[int, int], None],
    ) -> None:  # fmt: skip
        """Has no effect: the queue has connected the log."""

    def retain(self, ms: int | None, bytes_most: int) -> None:
        """Has no effect: the queue decides this."""

    def is_over(self, unix_ms: int, is_changed: bool = False) -> bool:
        return False

    def retained_bytes(self) -> int:
        return self.base.retained_bytes()

    def disk_bytes(self) -> int:
        return self.base.disk_bytes()


def on_disk(log: Log) -> JournalLog | None:
    """Return the journal's log that `log` writes to in the end; None: the queue is in memory."""
    base = log.base if isinstance(log, SharedLog) else log
    return base if isinstance(base, JournalLog) else None
