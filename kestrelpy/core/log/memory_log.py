"""The log of a queue in memory: every record is true at once, and none is kept.

One rule: the log behaves like a journal that is always written and synced (`JournalLog`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from journal.format import RawDraft
from journal.sets import IdSet
from journal.store import NOTHING, DiskUse, ReadAhead

_ALWAYS: Final = (1 << 63) - 1


class Reserve(Protocol):
    """The records of one queue that must find room on the disk."""

    def count(self) -> int:
        """Return how many records must find room, besides the confirms of one subscription."""

    def workers(self) -> int:
        """Return how many children confirm the items."""

    def scattered(self) -> int:
        """Return how many items may leave later than those after them: each may keep a segment."""


class MemoryLog:
    """The log of a queue in memory: every record is true at once, and none is kept."""

    __slots__ = (
        "archive_to", "failure", "identity", "is_full", "is_short", "item_stored", "lsn_appended",
        "lsn_durable", "lsn_stored", "lsn_written", "no_room", "read_ahead", "sync_in_turn",
        "waiting_room", "waiting_stored", "waiting_written",
    )  # fmt: skip

    def __init__(self) -> None:
        self.lsn_written = self.lsn_stored = self.lsn_durable = self.item_stored = _ALWAYS
        self.lsn_appended = 0
        self.archive_to = ""
        self.sync_in_turn = False
        self.read_ahead: ReadAhead | None = None
        self.failure: Exception | None = None
        self.identity = b""
        self.no_room = ""
        self.is_short = self.is_full = False
        self.waiting_room: dict[object, None] = {}
        self.waiting_stored: set[object] = set()
        self.waiting_written: set[object] = set()

    def fail(self, failure: Exception) -> None:
        """Keep nothing any more."""
        self.failure = failure
        self.lsn_written = self.lsn_stored = self.lsn_durable = self.item_stored = -1

    @property
    def is_unread(self) -> bool:
        return False

    def another_read_ahead(self) -> ReadAhead | None:
        return None

    def set_sync(self, sync_ms: int) -> None:
        """Has no effect in memory."""

    def has_room(self, size: int, scatters: bool = False) -> bool:
        return True

    def end_waiting_room(self) -> list[object]:
        return []

    def may_remember(self) -> bool:
        return True

    def has_lease_room(self) -> bool:
        return True

    def run_bytes(self, count: int) -> int:
        return _ALWAYS

    def append(self, draft: RawDraft) -> int:
        return 0

    def append_run(self, drafts: list[RawDraft], body_bytes: int) -> int:
        return 0

    def append_lazily(self, draft: RawDraft) -> int:
        return 0

    def append_recounted(self, draft: RawDraft, needed: Callable[[], IdSet]) -> int:
        return 0

    def append_standing(self, draft: RawDraft) -> int:
        return 0

    def stand(self, draft: RawDraft, lsn: int) -> None:
        """Has no effect in memory."""

    def wait_durable(self, lsn: int) -> None:
        """Has no effect in memory."""

    def attached(
        self, reserve: Reserve, first_open: Callable[[], int],
        remembers: Callable[[], bool], gone: Callable[[int, int], None],
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

    def disk_use(self) -> DiskUse:
        return NOTHING
