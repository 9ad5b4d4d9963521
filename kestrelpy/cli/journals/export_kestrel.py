"""`kestrelpy export-kestrel`: the queues of a data directory at rest, as journals of Kestrel 2.

    D/jobs.1763712000/     ──▶  DEST/jobs          each item an ADDX record, the head first
    its child jobs+audit   ──▶  DEST/jobs+audit    with a copy of its items, as Kestrel has it

Kestrel knows no delays, leases by token, dead letters, keys, ids and flags. Leased items are in
their place, delayed ones follow at the end, and dead letters stay here: the output counts them.

One rule: a file has its name only when it is whole and on disk. The data directory keeps all items.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from journal.errors import DirectoryLocked, JournalError
from journal.files import Disk, Files
from journal.format import ReaderState, said_of_put
from journal.store import QueueCopy, Sizes
from kestrelpy.cli.errors import NOTHING, CommandError
from kestrelpy.core import Broker, ClockOffset, Log, MemoryLog, Policy, Queue, on_disk
from kestrelpy.kestrel import KestrelItem, add_record
from kestrelpy.server import DataDirectory, recover

_READ_ITEMS: Final = 1000
_WRITE_BYTES: Final = 4 << 20
_REFUSED: Final = b".~/"


@dataclass(slots=True)
class Exported:
    """What became of one queue or child. `problems` name the items that are not in the file."""

    queue: str
    items: int = 0
    delayed: int = 0
    dead: int = 0
    problems: tuple[str, ...] = ()


def export_kestrel(destination: str, data_dir: str, queues: Sequence[str]) -> None:
    """Export, and print what became of each queue; raise CommandError."""
    files = Disk()
    try:
        made, damages = take_out(
            files, destination, data_dir, queues, time.time_ns() // 1_000_000
        )
    except DirectoryLocked as error:
        raise CommandError(f"{error}; stop it first, or export a restored backup") from None
    except JournalError as error:
        raise CommandError(str(error)) from None
    except OSError as error:
        where = error.filename2 or error.filename or destination
        raise CommandError(f"{where}: {error.strerror or error}") from None
    for each in made:
        delayed = f", {each.delayed} of them were delayed" if each.delayed else ""
        dead = f", {each.dead} dead letters stay here" if each.dead else ""
        print(f"{each.queue}: {each.items} items{delayed}{dead}")
    print(f"exported into {destination}: {len(made)} queues, {sum(e.items for e in made)} items")
    problems = [*damages, *(problem for each in made for problem in each.problems)]
    if problems:
        raise CommandError("\n".join(problems), NOTHING)


def take_out(
    files: Files, destination: str, data_dir: str, queues: Sequence[str], unix_ms: int
) -> tuple[list[Exported], list[str]]:
    """Write every queue into DEST; return them, and sentences on the damage of the data directory.

    Raise CommandError, JournalError or OSError. Blocks.
    """
    if files.names(destination):
        raise CommandError(f"{destination}: it is not empty; name a new directory")
    if not files.names(data_dir):
        raise CommandError(f"{data_dir}: there is no data directory here")
    directory = DataDirectory(files, data_dir, Sizes())
    directory.lock()
    try:
        broker = Broker(lambda name, declared: Policy(), _no_log, ClockOffset(0), 1 << 32)
        found = recover(directory, broker, [], unix_ms, unix_ms)
        missing = set(queues) - {os.fsdecode(name) for name in broker.queues}
        if missing:
            raise CommandError(f"{data_dir}: no queue {', '.join(sorted(missing))} here")
        files.make_folder(destination)
        made = list[Exported]()
        for queue in broker.logged:
            if not queue.is_tombstone:
                made += _export_family(files, destination, queue, set(queues))
        return sorted(made, key=lambda each: each.queue), [d.sentence() for d in found.damages]
    finally:
        directory.unlock()


def _no_log(queue: Queue) -> Log:
    return MemoryLog()


def _export_family(
    files: Files, destination: str, queue: Queue, wanted: set[str]
) -> Iterator[Exported]:
    state = queue.state()
    readers = [(queue.name, _own(state))]
    readers += [(queue.name + b"+" + each.name, each) for each in state.readers]
    for name, reader in readers:
        exported = Exported(os.fsdecode(name))
        if wanted and not wanted & {exported.queue, os.fsdecode(queue.name)}:
            continue
        if set(name) & set(_REFUSED):
            exported.problems = (
                f"{exported.queue}: not exported: Kestrel allows no . and no ~ in a name",
            )
        else:
            _export(files, destination, queue, reader, exported)
        yield exported


def _own(state: QueueCopy) -> ReaderState:
    """Return the queue's own subscription in the form of a child's."""
    return ReaderState(
        0, b"", 0, live=state.live, dead=state.dead, delayed=state.delayed, placed=state.placed
    )


def _delivery_ids(reader: ReaderState, exported: Exported) -> list[int]:
    """Return the ids of the items to export, in the order in which they would be delivered."""
    due = {entry.item: entry.due_ms for entry in reader.delayed if entry.due_ms}
    place = {entry.item: entry.place for entry in reader.placed if entry.place}
    dead = {entry.item for entry in reader.dead}
    ready = [id_ for id_ in reader.live if id_ not in dead and id_ not in due]
    ready.sort(key=lambda id_: place.get(id_, id_))
    delayed = sorted(due.keys() - dead, key=lambda id_: (due[id_], id_))
    exported.delayed, exported.dead = len(delayed), len(dead)
    return ready + delayed


def _export(
    files: Files, destination: str, queue: Queue, reader: ReaderState, exported: Exported
) -> None:
    log = on_disk(queue.log)
    assert log is not None, "a queue that was recovered has a journal"
    path = os.path.join(destination, exported.queue)
    handle, at, lost = files.create(f"{path}~~0", b"", 0), 0, list[int]()
    pending, size = list[bytes](), 0
    order = _delivery_ids(reader, exported)
    for begin in range(0, len(order), _READ_ITEMS):
        ids = order[begin : begin + _READ_ITEMS]
        records = log.store.some(ids).run(files).records
        for id_ in ids:
            record = records.get(id_)
            if record is None:
                lost.append(id_)
                continue
            item = KestrelItem(record.time_ms, said_of_put(record.meta).expires_ms, record.body)
            pending.append(add_record(item))
            size += len(pending[-1])
            exported.items += 1
        if size >= _WRITE_BYTES:
            handle.write(at, b"".join(pending))
            at, size = at + size, 0
            pending.clear()
    handle.write(at, b"".join(pending))
    handle.sync()
    handle.close()
    files.rename(f"{path}~~0", path)
    if lost:
        numbers = ", ".join(map(str, lost[:10]))
        exported.problems = (
            f"{exported.queue}: {len(lost)} items cannot be read and are not in the file: "
            f"{numbers}{', ...' if len(lost) > 10 else ''}",
        )
