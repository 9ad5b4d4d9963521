"""Group commit as a value: the records appended, written, being synced, durable, or failed for
good.

    append        write          begin_sync      finish_sync
      |             |                |               |
      v             v                v               v
    lsn_appended >= lsn_written >= lsn_in_flight >= lsn_durable

One rule: a sync makes durable only the records written before it *began*; and after one failure no
record ever becomes durable again.
"""

from __future__ import annotations

from dataclasses import dataclass

from journal.errors import JournalFailed
from journal.files import Handle


@dataclass(slots=True)
class SyncJob:
    """The files of one sync, in order. `run` blocks and belongs on a thread; `close` is its end."""

    handles: list[Handle]
    sealed: list[Handle]

    def run(self) -> None:
        """Sync every file written since the last sync. Raises OSError, and then never again."""
        try:
            for handle in self.handles:
                handle.sync()
        finally:
            self.close()

    def close(self) -> None:
        """Close the files that are not written to any more."""
        for handle in self.sealed:
            handle.close()


class GroupCommit:
    """The four positions of one journal, as log sequence numbers, and the last item put by each."""

    __slots__ = (
        "failure", "item_durable", "item_in_flight", "item_written", "lsn_appended", "lsn_durable",
        "lsn_in_flight", "lsn_written",
    )  # fmt: skip

    def __init__(self, lsn_last: int) -> None:
        self.lsn_appended = lsn_last
        self.lsn_written = lsn_last
        self.lsn_in_flight = 0  # 0: no sync is in flight
        self.lsn_durable = lsn_last
        self.item_written = self.item_in_flight = self.item_durable = 0
        self.failure: JournalFailed | None = None

    @property
    def has_failed(self) -> bool:
        """True if no record becomes durable any more."""
        return self.failure is not None

    def begin_with(self, item_last: int) -> None:
        """Set the last item of the log that was found at the start, which is durable."""
        self.item_written = self.item_in_flight = self.item_durable = item_last

    def begin_sync(self) -> bool:
        """Begin a sync if there is something to sync and none is in flight. Return True if one
        began.
        """
        if self.failure or self.lsn_in_flight or self.lsn_written == self.lsn_durable:
            return False
        self.lsn_in_flight = self.lsn_written
        self.item_in_flight = self.item_written
        return True

    def finish_sync(self) -> None:
        """End the sync in flight. It succeeded unless a failure is known."""
        if not self.failure:
            self.lsn_durable = self.lsn_in_flight
            self.item_durable = self.item_in_flight
        self.lsn_in_flight = 0

    def end(self, item_last: int) -> None:
        """Note that no record up to the put of this item has to be on disk any longer: all items
        have ended, and the files are gone for good."""
        self.lsn_written = self.lsn_durable = self.lsn_appended
        self.item_written = self.item_durable = item_last

    def fail(self, failure: JournalFailed) -> None:
        """Note that a write or a sync failed. The first failure stays the reason.

        A sync in flight still has to finish: its thread has the files.
        """
        self.failure = self.failure or failure
