"""`kestrelpy fleet import` and `export`: a data directory moved into an engine, and out of one.

One rule: before anything serves the moved files, they are compared byte by byte, and their journals
are verified.
"""

from __future__ import annotations

import errno
import os
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from journal.engine import (
    Commits,
    EngineFiles,
    Layout,
    Member,
    is_address,
    slice_name,
)
from journal.errors import JournalError
from journal.files import Disk
from journal.format import journal_folders
from kestrelpy.cli.errors import CommandError
from kestrelpy.cli.fleet.fleet import EngineAt, engine_at
from kestrelpy.cli.journals.journal import watch
from kestrelpy.cli.journals.place import tools_of
from kestrelpy.cli.screen import size
from kestrelpy.fleet import (
    SLICE,
    ImportingEngine,
    Moved,
    MoveIn,
    MoveOut,
    SliceNotEmpty,
    SliceOwned,
    claim_unowned,
    remove_import,
    slice_of_folder,
    why_other_layout,
    why_resliced,
)
from kestrelpy.server import NAME as SERVER_ID

_BEATS: Final = 4  # in `takeover`, as those of a daemon
_CACHE_BYTES: Final = 1 << 30
_PATIENCE_SECONDS: Final = 30.0
_CALL_SECONDS: Final = 10.0  # longer than an attempt takes
Words = tuple[str | None, str | None]  # of a command line, in either order


def engine_alone(words: Words, config: Path | None, is_single: bool) -> EngineAt:
    """Return the engine of a command line that names no folder."""
    named = [each for each in words if each is not None]
    if len(named) > 1 or not all(map(is_address, named)):
        raise CommandError("--give-up takes the engine alone, and no DIR: that stays as it is")
    return engine_at(named[0] if named else None, config, is_single, may_be_slice=True)


def sorted_out(words: Words, config: Path | None, is_single: bool) -> tuple[
    str, EngineAt
]:  # fmt: skip
    """Return the folder and the engine of a command line, which may come in either order."""
    addresses = [each for each in words if each is not None and is_address(each)]
    folders = [each for each in words if each is not None and not is_address(each)]
    if len(folders) != 1:
        raise CommandError(
            "say one folder, DIR, and one engine, like postgresql://user@host/database or s3://bucket/prefix"
        )
    address = addresses[0] if addresses else None
    return folders[0], engine_at(address, config, is_single, may_be_slice=True)


def move_in(folder: str, at: EngineAt) -> None:
    """Move a data directory into an engine; raise CommandError."""
    folder, disk, place = os.path.abspath(folder), Disk(), slice_name(at.address, at.slice or SLICE)
    with _sentences(at.name), ExitStack() as closing:
        if SERVER_ID not in disk.names(folder) and not journal_folders(disk, folder):
            raise JournalError(f"{folder}: no data directory of kestrelpy")
        closing.callback(disk.lock(os.path.join(folder, "lock")).close)
        if why := why_resliced(Path(folder)):
            raise JournalError(why)
        _refuse_other_slices(at, folder)
        engine, commits = _claimed(at, "fleet import", closing, may_resume=True)
        cache = closing.enter_context(tempfile.TemporaryDirectory(prefix="kestrelpy-"))

        def copy(commits: Commits) -> EngineFiles:
            files = EngineFiles(engine, place, os.path.join(cache, "read"), _CACHE_BYTES, Disk())
            files.take_over(commits)
            return files

        try:
            moved = MoveIn(engine, commits, disk, folder, watch("import")).run(copy, place)
        except SliceNotEmpty:
            raise CommandError(f"{place}: it has queues already; nothing was moved") from None
    _say(moved, folder, place)


def _refuse_other_slices(at: EngineAt, folder: str) -> None:
    """Raise CommandError unless the address names the slice of the engine that the folder is."""
    number, slices = slice_of_folder(Path(folder))
    named = at.slice or SLICE
    if number != named:
        raise CommandError(
            f"{folder} is slice {number} of {slices}, and {slice_name(at.address, named)} is "
            "another one: name the slice of the same number; nothing was moved"
        )
    layout = Layout(slices, at.groups if slices > 1 else "")
    engine: ImportingEngine = tools_of(at.address).open_engine(at.address, at.is_single)
    try:
        found = engine.agree(layout)
    finally:
        engine.close()
    if found.slices != slices:
        raise CommandError(
            f"{folder} is slice {number} of {slices}, and {at.name} has {found.slices}; nothing "
            "was moved"
        )
    if why := why_other_layout(found, layout):
        raise CommandError(f"{at.name}: {why}; nothing was moved")


def give_up(at: EngineAt) -> None:
    """Remove what an import has brought that ended halfway, and let members claim the slice; raise
    CommandError."""
    number = at.slice or SLICE
    place = slice_name(at.address, number)
    with _sentences(at.name), ExitStack() as closing:
        owner = tools_of(at.address).look(at.address).owners.get(number)
        if owner is None or not owner.is_importing:
            raise CommandError(f"{place}: no data directory is being moved in; nothing was done")
        engine, commits = _claimed(at, "fleet import --give-up", closing, may_resume=True)
        if not engine.owners()[number].is_importing:  # it has ended just now
            commits.close()
            engine.release(commits.claim)
            raise CommandError(f"{place}: the import has ended; nothing was done")
        removed = remove_import(engine, commits)
    print(f"{place}: removed {_counted(removed, 'file')}; it is empty, and any member may claim it")


def move_out(folder: str, at: EngineAt) -> None:
    """Move a slice of an engine into a folder; raise CommandError."""
    folder, disk, place = os.path.abspath(folder), Disk(), slice_name(at.address, at.slice or SLICE)
    with _sentences(at.name), ExitStack() as closing:
        if disk.names(folder):
            raise JournalError(f"{folder}: is not empty; an export needs a folder of its own")
        engine, commits = _claimed(at, "fleet export", closing)
        moved = MoveOut(engine, commits, disk, folder, place, watch("export")).run()
        commits.close()
        engine.release(commits.claim)
    _say(moved, place, folder)


def _say(moved: Moved, source: str, target: str) -> None:
    print(
        f"moved {source} to {target}: {_counted(moved.queues, 'queue')}, "
        f"{_counted(moved.files, 'file')}, {size(moved.bytes)}, compared and verified"
    )
    print(f"{source} is as it was: let no daemon serve it any more")


def _claimed(
    at: EngineAt, what: str, closing: ExitStack, may_resume: bool = False
) -> tuple[ImportingEngine, Commits]:
    """Claim the slice for this command; raise OSError or SliceOwned."""
    engine: ImportingEngine = tools_of(at.address).open_engine(at.address, at.is_single)
    closing.callback(engine.close)
    member = Member(f"{what} on {socket.gethostname()}")
    number = at.slice or SLICE
    claim = claim_unowned(engine, member, at.takeover_s, number, may_resume=may_resume)
    commits = Commits(engine, claim, at.takeover_s / _BEATS, pause=_Patience())
    closing.callback(commits.close)
    return engine, commits


class _Patience:
    """Waits between two attempts while the engine is away, but not for ever."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began_s = self._last_s = float("-inf")

    def __call__(self, seconds: float) -> None:
        now_s = self._clock()
        if now_s - self._last_s > _CALL_SECONDS:
            self._began_s = now_s  # it has answered since
        self._last_s = now_s
        if now_s - self._began_s > _PATIENCE_SECONDS:
            raise OSError(
                errno.ENOTCONN,
                f"it has not answered for {_PATIENCE_SECONDS:.0f} s; run the command again, and it "
                "goes on where it ended",
            )
        time.sleep(seconds)


@contextmanager
def _sentences(name: str) -> Iterator[None]:
    """Raise what goes wrong inside as CommandError."""
    try:
        yield
    except SliceOwned as error:
        raise CommandError(f"{name}: {error}") from None
    except JournalError as error:
        raise CommandError(str(error)) from None
    except OSError as error:
        raise CommandError(f"{error.filename or name}: {error.strerror or error}") from None


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
