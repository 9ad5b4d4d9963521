"""`kestrelpy restore`: restore the queues of a backup, each as a new generation.

    D/jobs.1763712000~removed/    a copy of the backup's journal while it is made; the next start
                                  removes it after a crash
    D/jobs.1763712000/            its name when it is whole and on disk
    D/server-id                   a new one: markers and tokens of the old server are invalid here

A new generation is higher than any in the backup and in D, so a start takes it rather than an older
one that a crash left there.

One rule: at every moment a queue in D is either the old one or the restored one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from journal.errors import JournalError
from journal.files import Disk, Files
from journal.format import parse_folder_name
from journal.recovery import LiveSet, Recovery, lost_items_text, recovered_journal
from journal.store import Sizes
from journal.tools import check_journal, copy_journal, opening_behind
from kestrelpy.cli.asking import asked
from kestrelpy.cli.errors import NOTHING, CommandError
from kestrelpy.cli.journals.backup import summary
from kestrelpy.cli.journals.journal import watch
from kestrelpy.cli.journals.manifest import NUMBER_MAX, BackedUp, check_contents, read_manifest
from kestrelpy.cli.journals.place import data_folder, plain_folder
from kestrelpy.server import make_server_id, new_id

_STAGED: Final = "~removed"  # a suffix of folders that a daemon removes when it starts


def restore(backup: str, data_dir: str | None, to_replace: bool, yes: bool) -> None:
    """Restore a backup and report its contents; raise CommandError."""
    plain_folder(backup, "BACKUP")
    folder, files = data_folder(data_dir), Disk()
    unix_ms = time.time_ns() // 1_000_000
    try:
        lost = replaced(files, backup, folder) if to_replace else []
        question = f"The items of {', '.join(lost)} will be lost. Replace them?"
        if lost and not yes and not asked(question):
            raise CommandError("nothing was changed", NOTHING)
        restored = put_back(files, backup, folder, to_replace, unix_ms, watch)
    except JournalError as error:
        raise CommandError(str(error)) from None
    except OSError as error:
        where = error.filename2 or error.filename or folder
        raise CommandError(f"{where}: {error.strerror or error}") from None
    print(f"restored into {folder}: {summary(restored)}")


def put_back(
    files: Files,
    backup: str,
    data_dir: str,
    to_replace: bool,
    unix_ms: int,
    watching: Callable[[str], Callable[[int, int], None]],
) -> list[BackedUp]:
    """Restore every queue of a backup; raise JournalError or OSError. Blocks."""
    queues = read_manifest(files, backup)
    for queue in queues:
        _check(files, backup, queue, watching(f"verify {queue.folder}"))
    files.make_folder(data_dir)
    lock = files.lock(os.path.join(data_dir, "lock"))
    try:
        older = _older(files, data_dir, queues)
        if older and not to_replace:
            raise JournalError(
                f"{older[0]}: there is a queue of this name; --replace puts the backup's there"
            )
        server = new_id()
        generation = _next_generation(files, data_dir, queues, unix_ms)
        staged = [_stage(files, backup, data_dir, queue, generation, server, unix_ms)
                  for queue in queues]  # fmt: skip
        make_server_id(files, data_dir, server)
        for path in staged:
            files.rename(path, path.removesuffix(_STAGED))
        for path in older:
            files.rename(path, path + _STAGED)
            files.remove_folder(path + _STAGED)
    finally:
        lock.close()
    return queues


def replaced(files: Files, backup: str, data_dir: str) -> list[str]:
    """Return the queues that are in both; raise JournalError."""
    queues = read_manifest(files, backup)
    return [os.path.basename(path) for path in _older(files, data_dir, queues)]


def _check(
    files: Files, backup: str, queue: BackedUp, progress: Callable[[int, int], None]
) -> None:
    folder = os.path.join(backup, queue.folder)
    if queue.folder not in files.names(backup) or not files.names(folder):
        raise JournalError(f"{folder}: it is in the backup's list, but does not exist")
    check_contents(files, folder)
    report = check_journal(files, folder, progress)
    if report.damages:
        lost = f"; {lost_items_text(report.unreadable)}" if report.unreadable else ""
        raise JournalError(
            f"the backup is damaged: {report.damages[0].sentence()} "
            f"(kestrelpy journal repair sets that aside){lost}"
        )
    if report.name != queue.queue.encode():
        inside = report.name.decode("ascii", "backslashreplace")
        raise JournalError(
            f"{folder}: this is the journal of a queue {inside}, not of {queue.queue}"
        )


def _older(files: Files, data_dir: str, queues: list[BackedUp]) -> list[str]:
    stems = {queue.folder.rpartition(".")[0] for queue in queues}
    return [
        os.path.join(data_dir, name)
        for name in files.names(data_dir)
        if parse_folder_name(name)[1] and name.rpartition(".")[0] in stems
    ]


def _next_generation(
    files: Files, data_dir: str, queues: list[BackedUp], unix_ms: int
) -> int:
    """Return a generation higher than all in the backup and in D, including folders being
    removed."""
    there = (name.removesuffix(_STAGED) for name in files.names(data_dir))
    known = [parse_folder_name(name)[1] for name in there]
    highest = max([unix_ms // 1000, *(q.generation + 1 for q in queues), *(g + 1 for g in known)])
    if highest > NUMBER_MAX:
        raise JournalError(f"{data_dir}: a generation is too high here: {NUMBER_MAX} is the last")
    return highest


def _stage(
    files: Files, backup: str, data_dir: str, queue: BackedUp, generation: int, server: bytes,
    unix_ms: int,
) -> str:  # fmt: skip
    """Copy one journal, which continues as the new generation; return its path. On disk on
    return."""
    source = os.path.join(backup, queue.folder)
    stem = queue.folder.rpartition(".")[0]
    path = os.path.join(data_dir, f"{stem}.{generation}{_STAGED}")
    copied = copy_journal(files, source, path)
    if copied is None:
        raise JournalError(f"{source}: no journal here")
    if copied.damages:
        raise JournalError(f"not restored: {copied.damages[0].sentence()}")
    recovery, live_set = Recovery(files, path), LiveSet()
    for _ in live_set.follow(recovery):
        pass
    name = parse_folder_name(queue.folder)[0]
    opening = opening_behind(recovery, live_set, name, generation)
    opening = replace(opening, generation=generation, server=server)
    recovery.torn = True  # continue in a fresh segment, which holds the new identity
    store = recovered_journal(recovery, Sizes(), lambda: opening, unix_ms)
    store.writer.close(unix_ms)
    return path
