"""What a journal's queue holds at its end: which items are there, their attempts, which are dead.

    snapshot  ──restore──▶  state  ◀──see── the records behind it, as a start of the daemon does
                              │
                              └─ cut for each piece: `Held`, bytes that travel to who reads it

It is the replay of `kestrelpy.core.replay` without a queue: ids and numbers, no bodies, no clock.
So an item whose expiry has passed is there until the daemon has noticed, as on disk.

One rule: the state is that of one folder at one moment, and only its own files say where the items
are.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from journal.errors import ITEM_MAX, Damage, JournalError, NewerFormat
from journal.files import Disk, Files
from journal.ids import IdCounts, IdSet
from journal.reader import RESTARTS_MAX, live_files
from journal.record import Kind, Record, Tag, decode_meta
from journal.recovery import Recovery
from journal.sentence import flush_spared
from journal.snapshot import DeadEntry, Snapshot
from kestrelpy.spark.copies import by_journal
from kestrelpy.spark.history import History, Journal, plan_events
from kestrelpy.spark.pieces import Held, Piece
from kestrelpy.spark.places import Problem, look

_PAIR: Final = struct.Struct("<QQ")
_ENDS: Final = frozenset(
    {Kind.DONE, Kind.EXPIRED, Kind.DISCARDED, Kind.MOVED, Kind.CANCELLED}
)
# Of who holds what, and of the queue itself: no item comes or goes with them.
_NO_CHANGE: Final = frozenset(
    {Kind.TOKENS, Kind.LEASED, Kind.RENEWED, Kind.DECLARED, Kind.PAUSED, Kind.SETTLED}
)


@dataclass(slots=True)
class State:
    """Of one queue. `dead` by item; dead items are in `live`, too."""

    live: IdSet = field(default_factory=IdSet)
    attempts: IdCounts = field(default_factory=IdCounts)
    dead: dict[int, DeadEntry] = field(default_factory=dict)
    lsn_next: int = 1
    damages: list[Damage] = field(default_factory=list)
    snapshot_lsn: int = 0

    def restore(self, snapshot: Snapshot) -> None:
        """Begin with this instead of nothing."""
        self.live, self.attempts = snapshot.live.copy(), snapshot.attempts.copy()
        self.dead = {entry.item: entry for entry in snapshot.dead}
        self.snapshot_lsn, self.lsn_next = snapshot.lsn, snapshot.lsn + 1

    def see(self, record: Record) -> None:
        """One record, in order; raises NewerFormat where its effect is not known."""
        kind, item, self.lsn_next = record.kind, record.item, record.lsn + 1
        if kind == Kind.PUT:
            self.live.add(item)
        elif kind in _ENDS:
            self.live.discard(item)
            self.attempts.set(item, 0)
            self.dead.pop(item, None)
        elif kind == Kind.RETURNED:
            if record.small and item in self.live and item not in self.dead:
                self.attempts.set(item, record.small)
        elif kind == Kind.DEAD:
            if item in self.live:
                self.attempts.set(item, 0)
                self.dead[item] = _dead(record, len(self.dead))
        elif kind == Kind.REDRIVEN:
            self.dead.pop(item, None)
        elif kind == Kind.FLUSHED:
            self._flush(record)
        elif kind not in _NO_CHANGE:
            raise NewerFormat(
                f"segment {record.segment}, byte {record.offset}: records of kind {kind} are not "
                f"known to this version of kestrelpy"
            )

    def _flush(self, record: Record) -> None:
        stay = {i for i in (*flush_spared(record), *self.dead) if i in self.live}
        kept = IdCounts()
        for item in stay:
            kept.set(item, self.attempts.get(item))
        self.attempts = kept
        self.live.keep_only([i for i in stay if i <= record.item], record.item)

    def held(self, pieces: Sequence[Piece]) -> list[Held]:
        """Each piece's part, by the range of items put there."""
        counted = list(self.attempts.items())
        dead = sorted((e.item, e.attempts) for e in self.dead.values())
        made = []
        for piece in pieces:
            first, last = piece.item_first, piece.item_last
            if not (first or piece.records):  # no footer says it
                first, last = 1, ITEM_MAX
            part = self.live.between(first, last)
            ranges, pages = part.encode()
            made.append(
                Held(ranges, pages, _pairs(counted, first, last), _pairs(dead, first, last),
                     part.count)
            )  # fmt: skip
        return made


def _pairs(pairs: list[tuple[int, int]], first: int, last: int) -> bytes:
    low, high = bisect_left(pairs, (first, 0)), bisect_right(pairs, (last, 1 << 62))
    return b"".join(_PAIR.pack(*pair) for pair in pairs[low:high])


def _dead(record: Record, order: int) -> DeadEntry:
    try:
        meta = decode_meta(record.meta)
    except ValueError:
        meta = {}
    reason, size = meta.get(Tag.REASON), meta.get(Tag.BYTES)
    return DeadEntry(
        record.item, order, record.small, reason if isinstance(reason, bytes) else b"",
        record.time_ms, size if isinstance(size, int) else 0,
    )  # fmt: skip


def state_of(files: Files, folder: str) -> State:
    """The state of the journal in `folder`, which a daemon may be writing.

    Raises JournalError where it cannot be told.
    """
    disk = live_files(files)
    for _ in range(RESTARTS_MAX):
        state, recovery = State(), Recovery(disk, folder)
        try:
            begun = False
            for record in recovery.records():
                if not begun and recovery.snapshot is not None:
                    state.restore(recovery.snapshot)
                begun = True
                state.see(record)
        except FileNotFoundError:
            continue  # a daemon was done with it
        except OSError as error:
            where = error.filename or folder
            raise JournalError(f"{where}: {error.strerror or error}") from error
        if not begun and recovery.snapshot is not None:
            state.restore(recovery.snapshot)
        state.damages = [d for d in recovery.damages if d.kind not in ("torn", "foreign")]
        return state
    raise JournalError(
        f"{folder}: its segments were removed {RESTARTS_MAX} times while they were read"
    )


def plan_items(paths: Sequence[str], files: Files | None = None) -> History:
    """The pieces that hold what each queue under these paths has at its end.

    Of several copies of a journal the one that goes on farthest counts; an archive alone holds no
    state. Raises JournalError where no journal is.
    """
    disk = files if files is not None else Disk()
    looked, problems = look(live_files(disk), paths)
    journals: list[Journal] = []
    for group in by_journal(looked, problems):
        folders = [each.place.folder for each in group if not each.place.is_archive]
        if not folders:
            place = group[0].place
            problems.append(
                Problem(
                    f"{place.folder}: an archive of {place.stem} holds what has left the queue, "
                    f"not what is there; not read. Say mode=events, or name the data directory."
                )
            )
            continue
        try:
            journals.append(_farthest(disk, folders))
        except JournalError as error:
            problems.append(Problem(f"{error}; not read"))
    return History(journals, problems)


def _farthest(files: Files, folders: list[str]) -> Journal:
    states = [(state_of(files, folder), folder) for folder in folders]
    state, folder = max(states, key=lambda each: each[0].lsn_next)
    # After the state: where an item is now that was there then, if it still is.
    journal = plan_events([folder], files).journals[0]
    held = zip(journal.pieces, state.held(journal.pieces), strict=True)
    journal.pieces = [replace(piece, held=part) for piece, part in held if part.count]
    journal.damages = state.damages
    journal.state = state
    return journal
