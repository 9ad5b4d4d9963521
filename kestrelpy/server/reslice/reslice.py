"""The queues of a stopped server are spread over another number of slices.

    data/slices-4/1 ... 4         as they are, until the new ones are whole
    data/reslice                  the note: no server starts beside it
    data/resliced/1 ... 8         the same files under other names: links
    data/slices-8/1 ... 8         `resliced` under its own name; slices-4 is gone before

    read, refused? ──▶ note ──▶ linked ──▶ the note says "whole" ──▶ old gone ──▶ named ──▶ no note
            killed here: the next run begins again ──┘ └── killed here: the next run goes on

With one slice the queues are in `data` itself: they are linked to there once more at the end.

One rule: until the note says that the new slices are whole the old ones are not touched, and from
then on no run looks at them again.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, NamedTuple

from journal.errors import JournalError
from journal.files import SUFFIX_NEW, Files
from journal.format import parse_folder_name
from kestrelpy.config import Config
from kestrelpy.durations import format_duration_ms
from kestrelpy.fleet import RESLICE_NOTE, files_below
from kestrelpy.placement import Placement
from kestrelpy.server import clock
from kestrelpy.server.directory import (
    REMOVED_SUFFIX,
    Beat,
    TokenFile,
    make_server_id,
    new_id,
    note_backup,
)
from kestrelpy.server.reslice.slice_state import (
    WORD_FILES,
    SliceState,
    names_of_others,
    read_slice,
)

STAGE: Final = "resliced"
_SLICES: Final = re.compile(r"slices-([1-9][0-9]*)")
# Slices whose running clocks differ by more had their clock set back one without the other.
_JITTER_MS: Final = 1000
Progress = Callable[[int, int], None]


class Resliced(NamedTuple):
    """What was done: `moved` of the `queues` are in a slice of another number now, and there are
    `slices`. `went_on`: an earlier run had begun it."""

    before: int
    slices: int
    queues: int
    moved: int
    went_on: bool


class _Note(NamedTuple):
    """The note of a run: from how many slices to how many, and the queues that it moves."""

    before: int
    slices: int
    queues: int
    moved: int
    is_whole: bool


def reslice(
    files: Files, data_dir: str, config: Config, placement: Placement, progress: Progress
) -> Resliced:
    """Let each queue of this data directory be in the slice that `placement` names, and return what
    was done; raise JournalError or OSError. No daemon may use the directory.

    A run that was killed goes on, to the number of slices that it had, and does nothing else.
    """
    note = _noted(files, data_dir)
    if note is not None and note.is_whole:
        _end(files, data_dir, note)
        return Resliced(note.before, note.slices, note.queues, note.moved, went_on=True)
    before = _slices_before(files, data_dir)
    now_ms, offset_ms = clock.now_ms(), clock.wall_clock_offset_ms()
    old = [
        read_slice(files, number, folder, config, now_ms, offset_ms)
        for number, folder in _slice_folders(files, data_dir, before)
    ]
    queues = {name for state in old for name in state.queues}
    _refuse_sliced(old, config, before)
    moved = sum(
        placement.slice_of(name) != state.number for state in old for name in state.queues
    )
    if before == placement.slices and not moved:
        _forget(files, data_dir)
        return Resliced(before, placement.slices, len(queues), 0, went_on=False)
    _refuse(files, old, before, offset_ms)
    if before > 1:  # what stands there is of a time before the slices
        files.remove_all([os.path.join(data_dir, each) for each in WORD_FILES])
    note = _Note(before, placement.slices, len(queues), moved, is_whole=False)
    _write(files, data_dir, note)
    _build(files, os.path.join(data_dir, STAGE), old, placement, progress)
    note = note._replace(is_whole=True)
    _write(files, data_dir, note)
    _end(files, data_dir, note)
    return Resliced(before, placement.slices, len(queues), moved, went_on=False)


def locked_folders(data_dir: Path) -> list[Path]:
    """Return the folders that a daemon of this data directory would lock."""
    return [data_dir, *sorted(each for each in data_dir.glob("slices-*/*") if each.is_dir())]


# -- before ---------------------------------------------------------------------------------------


def _slices_before(files: Files, data_dir: str) -> int:
    """Return in how many slices the queues are; raise JournalError."""
    names = files.names(data_dir)
    found = [match[1] for name in names if (match := _SLICES.fullmatch(name))]
    has_queues = any(parse_folder_name(name)[1] for name in names)
    if len(found) > 1 or (found and has_queues):
        raise JournalError(
            f"{data_dir}: its queues are in {' and in '.join(found)} slices"
            + (", and in none" if has_queues else "")
            + ": move away those that are not yours to keep"
        )
    if not found and not has_queues and WORD_FILES[0] not in names:
        raise JournalError(f"{data_dir}: no data directory of kestrelpy")
    return int(found[0]) if found else 1


def _slice_folders(files: Files, data_dir: str, slices: int) -> list[tuple[int, str]]:
    """Return the number and the data directory of each slice; with one slice the directory itself.
    """
    if slices == 1:
        return [(1, data_dir)]
    folder = os.path.join(data_dir, f"slices-{slices}")
    numbers = sorted(int(each) for each in files.names(folder) if each.isdecimal())
    if not numbers:
        raise JournalError(f"{folder}: it has no slice")
    return [(number, os.path.join(folder, str(number))) for number in numbers]


def _refuse(files: Files, old: list[SliceState], before: int, offset_ms: int) -> None:
    """Raise JournalError for what cannot be moved."""
    seen = dict[bytes, str]()
    for state in old:
        for name in state.queues:
            if name in seen:
                raise JournalError(
                    f"queue {name.decode('ascii', 'replace')} is in {seen[name]} and in "
                    f"{state.folder}: move one of them away"
                )
            seen[name] = state.folder
        others = names_of_others(files, state.folder) if before > 1 else []
        if others:
            raise JournalError(
                f"{os.path.join(state.folder, others[0])}: no file of kestrelpy, and the folder is "
                "removed at the end: move it away"
            )
    if half := sum(state.half_moved for state in old):
        items = "1 item is" if half == 1 else f"{half} items are"
        raise JournalError(
            f"{items} half moved to another queue: start the server once, with the slices that it "
            "has, and stop it"
        )
    ahead = [max(state.running_ms - offset_ms, 0) for state in old if state.queues]
    if ahead and max(ahead) - min(ahead) > _JITTER_MS:
        late = format_duration_ms(-(-max(ahead) // 1000) * 1000)
        raise JournalError(
            "the clock was set back, and the delays and leases of some slices are ahead of it: run "
            f"this again in {late}"
        )


def _refuse_sliced(old: list[SliceState], config: Config, before: int) -> None:
    """Raise JournalError for a queue that is in several slices: its items would be in the wrong
    ones."""
    for state in old if before > 1 else []:
        for name in state.queues:
            if config.queue(name).sliced:
                raise JournalError(
                    f"queue {name.decode('ascii', 'replace')} is sliced, and has a part in "
                    f"{state.folder}: start the server with the slices that it has, let workers "
                    "empty the queue, and delete it"
                )


# -- the new slices -------------------------------------------------------------------------------


def _build(
    files: Files, stage: str, old: list[SliceState], placement: Placement, progress: Progress
) -> None:
    """Make the new slices beside the old ones; all of it is on disk on return."""
    files.remove_folder(stage)
    total, done = sum(len(state.queues) for state in old) + 1, 0
    servers = {state.number: state.server for state in old}
    for number in range(1, placement.slices + 1):
        folder = os.path.join(stage, str(number))
        files.make_folder(folder)
        server = servers.get(number)
        _make_words(files, folder, new_id() if server is None else server.encode(), old)
        for state in old:
            for name, paths in state.queues.items():
                if placement.slice_of(name) != number:
                    continue
                for path in paths:
                    _link_all(files, path, os.path.join(folder, os.path.basename(path)))
                done += 1
                progress(done, total)
    progress(total, total)


def _make_words(files: Files, folder: str, server: bytes, old: list[SliceState]) -> None:
    """Make the files of a slice as a whole. Any of the old slices may have had its queues."""
    make_server_id(files, folder, server)
    tokens = TokenFile(files, folder)
    tokens.read(0)
    below, generation = max(each.tokens_below for each in old), max(e.generation for e in old)
    tokens.save(below, generation)
    if heard_ms := max(state.heard_ms for state in old):
        Beat(files, folder).save(heard_ms)
    backups = [state.backup_ms for state in old]
    if None not in backups:
        note_backup(files, folder, min(each for each in backups if each is not None))


def _link_all(files: Files, source: str, target: str) -> None:
    """Let each file below `source` have a name below `target` as well."""
    files.make_folder(target)
    for path, mode in files_below(files, source):
        whole = os.path.join(source, path)
        if path.endswith(SUFFIX_NEW):
            continue  # it was never finished
        if not stat.S_ISREG(mode):
            raise JournalError(f"{whole}: only plain files can be moved, no links")
        name = os.path.join(target, path)
        files.make_folder(os.path.dirname(name))
        files.link(whole, name)


# -- the end --------------------------------------------------------------------------------------


def _end(files: Files, data_dir: str, note: _Note) -> None:
    """Put the new slices, which are whole, in the place of the old ones."""
    stage = os.path.join(data_dir, STAGE)
    if STAGE in files.names(data_dir):
        _remove_old(files, data_dir, note.before)
        if note.slices > 1:
            files.rename(stage, os.path.join(data_dir, f"slices-{note.slices}"))
        else:
            one = os.path.join(stage, "1")
            if "1" in files.names(stage):  # else it is linked, and the stage is half removed
                _link_all(files, one, data_dir)
            _remove(files, [stage])
    files.remove(os.path.join(data_dir, RESLICE_NOTE))


def _remove_old(files: Files, data_dir: str, before: int) -> None:
    if before > 1:
        _remove(files, [os.path.join(data_dir, f"slices-{before}")])
        return
    names = files.names(data_dir)
    queues = [each for each in names if parse_folder_name(each.removesuffix(REMOVED_SUFFIX))[1]]
    _remove(files, (os.path.join(data_dir, each) for each in queues))
    files.remove_all([os.path.join(data_dir, each) for each in WORD_FILES])


def _remove(files: Files, folders: Iterable[str]) -> None:
    """Remove these folders; raise JournalError if one stays."""
    for folder in folders:
        files.remove_folder(folder)
        if os.path.basename(folder) in files.names(os.path.dirname(folder)):
            raise JournalError(f"{folder}: cannot be removed; remove it, and run the command again")


def _forget(files: Files, data_dir: str) -> None:
    """Remove what a run has left that was killed before its new slices were whole."""
    files.remove_folder(os.path.join(data_dir, STAGE))
    files.remove(os.path.join(data_dir, RESLICE_NOTE))


# -- the note -------------------------------------------------------------------------------------


def _noted(files: Files, data_dir: str) -> _Note | None:
    if RESLICE_NOTE not in files.names(data_dir):
        return None
    path = os.path.join(data_dir, RESLICE_NOTE)
    try:
        noted = json.loads(files.read(path))
        return _Note(**noted)
    except (ValueError, TypeError) as error:
        raise JournalError(f"{path}: it cannot be read: {error}") from None


def _write(files: Files, data_dir: str, note: _Note) -> None:
    data = json.dumps(note._asdict()).encode() + b"\n"
    files.create(os.path.join(data_dir, RESLICE_NOTE), data, len(data)).close()
