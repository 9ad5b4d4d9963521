"""Every fault of a journal, each with its file and offset.

One rule: the five ends of a log have five names. *End* is no error at all (`segment.scan` just
stops); *torn* lies after the last known sync and is cut; *corrupt*, *truncated* and *foreign* are
damage, and damage is named and set aside, never guessed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

OF_QUEUE: Final = "queue "  # begins `path` where no file is known to have the damage
ITEM_MAX: Final = (1 << 53) - 1  # item ids and other numbers that users see stay below
DamageKind = Literal["torn", "corrupt", "truncated", "foreign"]


class JournalError(Exception):
    """A journal cannot do the request; the text names the file."""


class JournalFailed(JournalError):
    """A write or a sync failed: this journal writes nothing more until a restart."""


class DirectoryLocked(JournalError):
    """Another process owns this directory."""


class Unreachable(OSError):
    """This process cannot have the data now. That says nothing of the data: none of it is lost."""


class NewerFormat(JournalError):
    """A newer version of kestrelpy has written the file."""


@dataclass(frozen=True, slots=True)
class Damage:
    """One stretch of bytes that does not parse.

    `offset` and `end` are bytes in `path` (half open). `lsn_first`..`lsn_last` are the records that
    may have been there and `id_first`..`id_last` the items that may have been put there. A last
    below its first means an empty range: no record is missing, or no item was put there. (A confirm
    may be lost all the same: its item comes back.)
    """

    kind: DamageKind
    path: str
    offset: int
    end: int
    reason: str
    lsn_first: int
    lsn_last: int
    id_first: int = 1
    id_last: int = 0

    def sentence(self) -> str:
        """Return a sentence with the fault, its place, and its possible cost."""
        at = f" at byte {self.offset} to {self.end}" if self.end else ""  # 0: the place is unknown
        where = f"{self.path}: {self.kind}{at} ({self.reason})"
        if self.kind == "foreign":
            return f"{where}: left alone"
        if self.kind == "torn":
            where += ": behind the last known sync; cut and kept aside"
        if self.id_last >= ITEM_MAX:
            return f"{where}: may have held items from {self.id_first} on"
        if self.id_last >= self.id_first:
            return f"{where}: may have held items {self.id_first} to {self.id_last}"
        if self.lsn_last < self.lsn_first:
            return f"{where}: no record is missing"
        return f"{where}: held no new item; a confirm lost there lets its item come back"
