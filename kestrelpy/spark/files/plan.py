"""A plan: what is read of each journal, piece by piece, and what is known to be missing.

    History ──▶ Journal ──▶ Piece, Piece, ...       by lsn
       │           └──────▶ holes, damages, torn    lsns and bytes that are not there
       └──────▶ problems                            files that are not read

One rule: a plan is data. `plan_events` and `plan_items` make it, and nothing here reads a file.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from journal.errors import Damage
from kestrelpy.spark.files.split import Piece, Range

if TYPE_CHECKING:
    from kestrelpy.spark.files.discovery import Problem
    from kestrelpy.spark.files.queue_state import State
    from kestrelpy.spark.files.readers import Naming


@dataclass(slots=True)
class Journal:
    """One journal: what is kept of it, as pieces by lsn.

    `holes` are lsns that are not there because they were reclaimed, `damages` what else is not
    there, `torn` where the log ends though bytes follow. `lsn_first` is where its history begins
    (0: nothing is kept), `lsn_next` one behind the last record. `state`: when items are planned.
    """

    identity: bytes
    server: str | None
    queue: str
    generation: int
    folders: list[str]
    pieces: list[Piece] = field(default_factory=list)
    holes: list[Range] = field(default_factory=list)
    damages: list[Damage] = field(default_factory=list)
    torn: list[Damage] = field(default_factory=list)
    lsn_synced: int = 0
    state: State | None = None

    @property
    def namings(self) -> tuple[Naming, ...]:
        """The readers that it names."""
        return self.pieces[0].namings if self.pieces else ()

    @property
    def lsn_first(self) -> int:
        return min((p.lsn_first for p in self.pieces), default=0)

    @property
    def lsn_next(self) -> int:
        return max((p.lsn_last for p in self.pieces), default=0) + 1


@dataclass(slots=True)
class History:
    """Everything under some paths; `problems` are files that are not read."""

    journals: list[Journal]
    problems: list[Problem]

    @property
    def pieces(self) -> list[Piece]:
        return [piece for journal in self.journals for piece in journal.pieces]

    @property
    def damages(self) -> list[Damage]:
        return [damage for journal in self.journals for damage in journal.damages]
