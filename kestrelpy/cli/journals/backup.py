"""`kestrelpy backup`: every queue's journal as of one moment, in a folder of its own.

    DEST/
      jobs.1763712000/     a queue's journal; closed files share their bytes with the source
      backup.json          written last: without it the backup is not finished

`kestrelpy journal` reads a backup, and `kestrelpy restore` restores it.

One rule: when it reports success, everything is on disk; when it fails, it leaves nothing.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial

import kestrelpy
from journal.errors import Damage, JournalError
from journal.files import Files
from journal.format import folder_name, journal_folders, parse_folder_name
from journal.recovery import lost_items_text, runs
from journal.sets import IdSet
from journal.tools import check_journal, copy_journals
from kestrelpy.cli.errors import NOTHING, CommandError
from kestrelpy.cli.journals.journal import watch
from kestrelpy.cli.journals.manifest import MANIFEST, BackedUp, encode
from kestrelpy.cli.journals.place import plain_folder, to_read
from kestrelpy.cli.screen import counted
from kestrelpy.server import NAME as SERVER_ID
from kestrelpy.server import note_backup, read_server_id


def backup(destination: str, data_dir: str | None, as_json: bool) -> None:
    """Make a backup and report its contents; raise CommandError."""
    plain_folder(destination, "DEST")
    try:
        with to_read(data_dir) as (files, source):
            left_out = _left_out(files, source)  # first: nothing may fail after the backup
            made, damages, unreadable = back_up(files, source, destination, watch("backup"))
    except JournalError as error:
        raise CommandError(str(error)) from None
    except OSError as error:
        where = error.filename2 or error.filename or destination
        raise CommandError(f"{where}: {error.strerror or error}; nothing of it is left") from None
    if as_json:
        facts: dict[str, object] = {
            "backup": destination, "queues": [asdict(each) for each in made]
        }  # fmt: skip
        facts["damages"] = [each.sentence() for each in damages]
        facts["unreadable"] = {queue: runs(items) for queue, items in unreadable.items()}
        facts["left_out"] = left_out
        print(json.dumps(facts))
    else:
        print(f"backup of {source} in {destination}: {summary(made)}")
    lines = [
        f"the source is damaged, and so is the backup: {each.sentence()}" for each in damages
    ]
    lines += [f"queue {queue}: {lost_items_text(items)}" for queue, items in unreadable.items()]
    lines += [
        f"not in the backup: {'items' if items is None else counted(items, 'item')} of children "
        f"of an earlier queue, in {folder}"
        for folder, items in left_out.items()
    ]
    if lines:
        raise CommandError("\n".join(lines), NOTHING)


def back_up(
    files: Files, source: str, destination: str, progress: Callable[[int, int], None]
) -> tuple[list[BackedUp], list[Damage], dict[str, IdSet]]:
    """Copy every journal; return the contents of the backup, the damage of the source, and by queue
    the items that cannot be read.

    Raise JournalError or OSError after removing everything it had made.
    """
    if _is_inside(destination, source):
        raise JournalError(f"{destination}: lies in the data directory itself")
    there = files.names(destination)
    if there:
        is_rest = MANIFEST not in there and any(parse_folder_name(name)[1] for name in there)
        what = "; if that is a backup that was cut short, remove it first" if is_rest else ""
        raise JournalError(f"{destination}: is not empty; a backup needs a folder of its own{what}")
    if SERVER_ID not in files.names(source) and not journal_folders(files, source):
        raise JournalError(f"{source}: no data directory of kestrelpy")
    made: list[BackedUp] = []
    damages: list[Damage] = []
    unreadable: dict[str, IdSet] = {}
    total = sum(_bytes_in(files, folder) for folder in _listed(files, source))
    done = 0

    def more(size: int) -> None:
        nonlocal done
        done += size
        progress(min(done, total - 1), total)

    try:
        copies = copy_journals(files, partial(_listed, files, source), destination, more)
        for name, copied in sorted(copies.items()):
            generation = parse_folder_name(name)[1]
            queue = copied.name.decode("utf-8", "backslashreplace")
            own = folder_name(copied.name, generation)
            if own != name and own not in files.names(destination):
                # An operator named the folder by hand; a restore takes only a queue's own.
                files.rename(os.path.join(destination, name), os.path.join(destination, own))
            else:
                own = name
            made.append(BackedUp(own, queue, generation, copied.items, copied.bytes, copied.lsn))
            damages += copied.damages
            if copied.unreadable:
                unreadable[queue] = copied.unreadable
        files.make_folder(destination)
        data = _manifest(files, source, made)
        files.create(os.path.join(destination, MANIFEST), data, len(data)).close()
        with suppress(OSError):  # a source that cannot be written to is backed up as well
            note_backup(files, source, time.time_ns() // 1_000_000)
    except BaseException:
        _remove_all(files, destination)
        raise
    finally:
        progress(total, total)
    return made, damages, unreadable


def _remove_all(files: Files, destination: str) -> None:
    """Remove what a backup that failed has made, in a folder that was empty."""
    with suppress(OSError):  # first: no restore takes what is there without it
        files.remove(os.path.join(destination, MANIFEST))
    with suppress(OSError):
        for name in files.names(destination):
            with suppress(OSError):
                files.remove_folder(os.path.join(destination, name))


def summary(made: list[BackedUp]) -> str:
    """Return the size of a backup in words."""
    return (
        f"{counted(len(made), 'queue')}, {counted(sum(each.items for each in made), 'item')}, "
        f"{counted(sum(each.bytes for each in made), 'byte')}"
    )


def _manifest(files: Files, source: str, made: list[BackedUp]) -> bytes:
    server = read_server_id(files, source)
    return encode(kestrelpy.__version__, f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}", server, made)


def _left_out(files: Files, source: str) -> dict[str, int | None]:
    """Return how many items the older generations have, by folder; None: it cannot be told.

    KNOWN FLAW: before format 7 a deleted queue with children kept its files when a queue of its
    name was made again. Those children are not in the backup, which says so.
    """
    every = journal_folders(files, source)
    older = sorted({*every} - {*_newest(every)})
    found: dict[str, int | None] = {}
    for folder in older:
        if not parse_folder_name(os.path.basename(folder))[1]:
            continue
        with suppress(JournalError, OSError):  # deleted meanwhile
            items = check_journal(files, folder).items
            if items is None or items:
                found[os.path.basename(folder)] = items
    return found


def _listed(files: Files, source: str) -> list[str]:
    return _newest(journal_folders(files, source))


def _newest(folders: list[str]) -> list[str]:
    """Return only the newest generation of each queue."""
    newest: dict[bytes, tuple[int, str]] = {}
    for folder in folders:
        name, generation = parse_folder_name(os.path.basename(folder))
        if generation:
            newest[name] = max(newest.get(name, (0, "")), (generation, folder))
    return sorted(folder for _, folder in newest.values())


def _bytes_in(files: Files, folder: str) -> int:
    size = 0
    for name in files.names(folder):
        with suppress(OSError):
            size += files.size(os.path.join(folder, name))
    return size


def _is_inside(path: str, folder: str) -> bool:
    path, folder = os.path.realpath(path), os.path.realpath(folder)
    return os.path.commonpath([path, folder]) == folder
