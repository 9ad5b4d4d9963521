"""The log of a queue in memory: every record is true at once, and none is kept.

One rule: the log behaves like a journal that is always written and synced.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from journal.format import Draft, LeaseEntry, Watermark
from journal.sets import IdSet
from journal.store import ReadAhead
from kestrelpy.core.item import Item

_ALWAYS: Final = (1 << 63) - 1


class MemoryLog:
    """The log of a queue in memory: every record is true at once, and none is kept."""

    __slots__ = (
        "archive_to",
        "failure",
        "is_short",
        "item_stored",
        "lsn_appended",
        "lsn_durable",
        "lsn_stored",
        "lsn_written",
        "no_room",
        "read_ahead",
        "sync_in_turn",
        "waiting_stored",
        "waiting_written",
    )  # fmt: skip

    def __init__(self) -> None:
        self.lsn_written = _ALWAYS
        self.lsn_stored = _ALWAYS
        self.lsn_durable = _ALWAYS
        self.item_stored = _ALWAYS
        self.lsn_appended = 0
        self.archive_to = ""
        self.sync_in_turn = False
        self.read_ahead: ReadAhead | None = None
        self.failure: Exception | None = None
        self.no_room = ""
        self.is_short = False
        self.waiting_stored: set[object] = set()
        self.waiting_written: set[object] = set()

    @property
    def identity(self) -> bytes:
        return b""

    @property
    def is_full(self) -> bool:
        return False

    def set_sync(self, sync_ms: int) -> None:
        """Has no effect in memory."""

    def put(self, item: Item, nominal: Watermark | None = None, reader: int = 0) -> int:
        return 0

    def nominal(self, nominal: Watermark, unix_ms: int) -> int:
        return 0

    def put_later(self, item: Item, due_ms: int, reader: int = 0) -> int:
        return 0

    def done(self, item: Item, attempts: int, began_ms: int, unix_ms: int) -> int:
        return 0

    def returned(
        self, item: Item, attempts: int, began_ms: int, unix_ms: int, reason: bytes,
        always: bool = False, due_ms: int = 0,
    ) -> int:  # fmt: skip
        return 0

    def released(self, id_: int, place: int, unix_ms: int) -> int:
        return 0

    def dead(self, item: Item, attempts: int, began_ms: int, unix_ms: int, reason: bytes) -> int:
        return 0

    def expired(self, item: Item, unix_ms: int) -> int:
        return 0

    def discarded(self, item: Item, unix_ms: int) -> int:
        return 0

    def cancelled(self, id_: int, body_bytes: int, unix_ms: int) -> int:
        return 0

    def paused(self, paused: bool, unix_ms: int, reader: int = 0) -> int:
        return 0

    def flushed(
        self, last_id: int, spared: list[int], stay: IdSet, live_bytes: int, unix_ms: int
    ) -> int:
        return 0

    def tokens(self, below: int, unix_ms: int) -> int:
        return 0

    def declared(self, settings: bytes, metadata: bytes, unix_ms: int) -> int:
        return 0

    def leased(self, entry: LeaseEntry) -> int:
        return 0

    def renewed(self, entry: LeaseEntry) -> int:
        return 0

    def write(self, draft: Draft) -> int:
        return 0

    def write_lazily(self, draft: Draft) -> int:
        return 0

    def write_recounted(self, draft: Draft, readable: Callable[[], IdSet]) -> int:
        return 0

    def wait_durable(self, lsn: int) -> None:
        """Has no effect in memory."""

    def attached(
        self, reserve: Callable[[], int], first_open: Callable[[], int],
        gone: Callable[[int, int], None],
    ) -> None:  # fmt: skip
        """Has no effect in memory."""

    def retain(self, ms: int | None, bytes_most: int) -> None:
        """Has no effect: done items of a queue in memory are not retained."""

    def is_over(self, unix_ms: int, is_changed: bool = False) -> bool:
        return False

    def retained_bytes(self) -> int:
        return 0

    def disk_bytes(self) -> int:
        return 0
