"""Plan a read of items: which items each queue has at its end, and the splits with their bodies.

    a folder         ──state_of────▶ State     which items are there, by a replay of ids and numbers
    the same folder  ──plan_events─▶ splits    where the bodies are
                                       └─ each with its part of the state (`PackedItems`);
                                          a split without items is left out

One rule: the state is that of one folder at one moment, and only its own files say where the items
are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from journal.errors import JournalError
from journal.files import Disk, Files
from journal.tools import RESTARTS_MAX, live_files
from kestrelpy.spark.files.discovery import Problem, by_journal, discover
from kestrelpy.spark.files.plan import History, PlannedJournal
from kestrelpy.spark.files.plan_events import plan_events
from kestrelpy.spark.files.queue_state import FilesState


def state_of(files: Files, folder: str) -> FilesState:
    """Return the state of the journal in `folder`; a daemon may be writing there.

    Raises JournalError if it cannot be read.
    """
    disk = live_files(files)
    for _ in range(RESTARTS_MAX):
        try:
            return FilesState.read(disk, folder)
        except FileNotFoundError:
            continue  # a daemon removed it meanwhile
        except OSError as error:
            where = error.filename or folder
            raise JournalError(f"{where}: {error.strerror or error}") from error
    raise JournalError(
        f"{folder}: its segments were removed {RESTARTS_MAX} times while they were read"
    )


def plan_items(paths: Sequence[str], files: Files | None = None) -> History:
    """Return the splits with the items that each queue under these paths has at its end.

    Of several copies of a journal the longest counts; an archive alone holds no state. Raises
    JournalError if there is no journal.
    """
    disk = files if files is not None else Disk()
    contents, problems = discover(live_files(disk), paths)
    journals: list[PlannedJournal] = []
    for group in by_journal(contents, problems):
        folders = [each.location.folder for each in group if not each.location.is_archive]
        if not folders:
            location = group[0].location
            problems.append(
                Problem(
                    f"{location.folder}: an archive of {location.stem} holds what has left the "
                    f"queue, not what is there; not read. Say mode=events, or name the data "
                    f"directory."
                )
            )
            continue
        try:
            journals.append(_farthest(disk, folders))
        except JournalError as error:
            problems.append(Problem(f"{error}; not read"))
    return History(journals, problems)


def _farthest(files: Files, folders: list[str]) -> PlannedJournal:
    states = [(state_of(files, folder), folder) for folder in folders]
    state, folder = max(states, key=lambda each: each[0].lsn_next)
    # After the state, so that the splits show where an item of the state is now.
    journal = plan_events([folder], files).journals[0]
    try:
        state.check_bodies(live_files(files), journal.splits)
    except OSError as error:
        raise JournalError(f"{error.filename or folder}: {error.strerror or error}") from error
    live_items = zip(journal.splits, state.live_items(journal.splits), strict=True)
    journal.splits = [replace(split, live_items=part) for split, part in live_items if part.count]
    journal.damages = state.damages
    journal.state = state
    return journal
