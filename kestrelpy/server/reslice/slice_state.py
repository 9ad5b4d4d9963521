"""What one slice has on the disk, read as a start reads it.

    each folder ──replayed──▶ the name of its queue, the items that are half moved
    server-id, tokens, running-clock, last-backup ──▶ what belongs to the slice as a whole

One rule: only what a start would repair is written, and no journal is changed.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Final, NoReturn

from journal.errors import JournalError
from journal.files import Files
from journal.format import parse_folder_name
from kestrelpy.config import Config
from kestrelpy.core import AnyQueue, Broker, ChildQueue, ClockOffset, Queue
from kestrelpy.server.directory import (
    BACKUP_NAME,
    BEAT_NAME,
    NAME,
    REMOVED_SUFFIX,
    TOKENS_NAME,
    Beat,
    TokenFile,
    last_backup_ms,
    take_server_id,
)
from kestrelpy.server.policies import Policies
from kestrelpy.server.restart import Replayed

# The files beside the folders of the queues: of the slice as a whole.
WORD_FILES: Final = (NAME, TOKENS_NAME, BEAT_NAME, BACKUP_NAME)


@dataclass(slots=True)
class SliceState:
    """One slice. `queues` has the folders of each queue, by its name; `half_moved` counts items
    whose move to another queue is not over. `heard_ms` is the last time that is known of the
    running clock (0: none), `running_ms` the offset of that clock to the monotonic one."""

    number: int
    folder: str
    server: str
    tokens_below: int
    generation: int
    backup_ms: int | None
    heard_ms: int = 0
    running_ms: int = 0
    half_moved: int = 0
    queues: dict[bytes, list[str]] = field(default_factory=dict)


def read_slice(
    files: Files, number: int, folder: str, config: Config, now_ms: int, offset_ms: int
) -> SliceState:
    """Read the slice in this folder, which no daemon uses; raise JournalError or OSError.

    `now_ms` is the monotonic clock, and the wall clock with `offset_ms`.
    """
    server, _ = take_server_id(files, folder)
    tokens = TokenFile(files, folder)
    if damage := tokens.read(now_ms + offset_ms):
        raise JournalError(f"{damage}; start the server once and stop it")
    found = SliceState(
        number, folder, server, tokens.below, tokens.generation, last_backup_ms(files, folder)
    )
    clock = ClockOffset(offset_ms)
    found.heard_ms, _ = Beat(files, folder).read()
    clock.begin(found.heard_ms, now_ms)
    broker = Broker(Policies(config).of, _no_log, clock, config.server.max_queues)
    broker.server_id = server.encode()
    for name in files.names(folder):
        if parse_folder_name(name)[1]:
            _read_queue(files, os.path.join(folder, name), broker, found, now_ms)
    found.running_ms = clock.running_ms
    if clock.running_ms > offset_ms:  # the wall clock was set back
        found.heard_ms = max(found.heard_ms, now_ms + clock.running_ms)
    return found


def names_of_others(files: Files, folder: str) -> list[str]:
    """Return the names in the folder of a slice that no daemon has made."""
    known = (*WORD_FILES, "lock", "sync-probe")
    return [
        name for name in files.names(folder)
        if name not in known and name.removesuffix(".new") not in known
        and not parse_folder_name(name.removesuffix(REMOVED_SUFFIX))[1]
    ]  # fmt: skip


def _read_queue(files: Files, path: str, broker: Broker, found: SliceState, now_ms: int) -> None:
    """Read the folder of one generation of a queue."""
    queue = broker.fresh(*parse_folder_name(os.path.basename(path)), now_ms)
    replayed = Replayed(files, path, queue)
    try:
        replayed.raise_error()
        if damages := replayed.damages():
            raise JournalError(
                f"{damages[0].sentence()}; `kestrelpy journal repair` sets that aside"
            )
        if not any(n.endswith((".segment", ".snapshot")) for n in replayed.recovery.names):
            return  # it was made and never written
        found.half_moved += len(queue.origins)
        sources: list[AnyQueue] = [queue, *ChildQueue.all_of(queue)]
        for source in sources:
            entries = source.reader.leases.entries.values()
            found.half_moved += sum(bool(entry.target) for entry in entries)
        found.queues.setdefault(queue.name, []).append(path)
    finally:
        replayed.replay.close()
        broker.end(queue)


def _no_log(queue: Queue) -> NoReturn:
    raise AssertionError("nothing is stored")
