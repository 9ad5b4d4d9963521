"""A plan: the splits of each journal, and the records that are known to be missing.

    History ──▶ Journal ──▶ Split, Split, ...          by lsn
       │           └──────▶ lsn_gaps, damages, torn    lsns and bytes that are not there
       └──────▶ problems                               files that are not read

One rule: a plan is data. `plan_events` and `plan_items` make it, and nothing here reads a file.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from journal.errors import Damage
from kestrelpy.spark.files.split import Range, Split

if TYPE_CHECKING:
    from kestrelpy.spark.files.discovery import Problem
    from kestrelpy.spark.files.queue_state import FilesState
    from kestrelpy.spark.files.readers import ReaderName


@dataclass(slots=True)
class PlannedJournal:
    """One journal, as splits by lsn.

    - `lsn_gaps`: lsns that are missing because their segments were reclaimed.
    - `damages`: other records that are missing.
    - `torn`: where the log ends though bytes follow.
    - `lsn_first`: where the history begins; 0: there is no record.
    - `lsn_next`: one after the last record.
    - `state`: only in a plan of items.
    """

    identity: bytes
    server: str | None
    queue: str
    generation: int
    folders: list[str]
    splits: list[Split] = field(default_factory=list)
    lsn_gaps: list[Range] = field(default_factory=list)
    damages: list[Damage] = field(default_factory=list)
    torn: list[Damage] = field(default_factory=list)
    lsn_synced: int = 0
    state: FilesState | None = None

    @property
    def reader_names(self) -> tuple[ReaderName, ...]:
        """The readers that the journal names."""
        return self.splits[0].reader_names if self.splits else ()

    @property
    def lsn_first(self) -> int:
        return min((p.lsn_first for p in self.splits), default=0)

    @property
    def whole_from(self) -> int:
        """The lsn from which on every record is there: compacted segments have the live puts."""
        compacted = (p.lsn_last + 1 for p in self.splits if p.is_compacted)
        gaps = (last + 1 for _, last in self.lsn_gaps)
        return max([self.lsn_first, *gaps, *compacted])

    @property
    def lsn_next(self) -> int:
        return max((p.lsn_last for p in self.splits), default=0) + 1


@dataclass(slots=True)
class History:
    """Everything under some paths; `problems` are files that are not read."""

    journals: list[PlannedJournal]
    problems: list[Problem]

    @property
    def splits(self) -> list[Split]:
        return [split for journal in self.journals for split in journal.splits]

    @property
    def damages(self) -> list[Damage]:
        return [damage for journal in self.journals for damage in journal.damages]
