"""The pieces that hold what each queue has at its end.

    a folder   ──state_of──▶  State      which items are there, by a replay of ids and numbers
    the same   ──plan_events─▶ pieces    where their bodies are
                                └─ each with its part of the state (`Held`); those without are left

One rule: the state is that of one folder at one moment, and only its own files say where the items
are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from journal.errors import JournalError
from journal.files import Disk, Files
from journal.recovery.recovery import Recovery
from journal.tools.view import RESTARTS_MAX, live_files
from kestrelpy.spark.files.copies import by_journal
from kestrelpy.spark.files.discovery import Problem, look
from kestrelpy.spark.files.plan import History, Journal
from kestrelpy.spark.files.plan_events import plan_events
from kestrelpy.spark.files.queue_state import State


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
