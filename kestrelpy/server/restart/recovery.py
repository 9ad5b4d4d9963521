"""Recovery: a broker is filled from the data directory.

    names ──▶ generations of each queue ──▶ earlier ones: saved, removed or kept as tombstones
                                       └──▶ the newest one: adopted ──▶ first items read

One rule: each folder is replayed once, and an earlier generation is removed only when all of its
files could be read and its tokens are saved.
"""

from __future__ import annotations

import os
from typing import Final, NamedTuple

from journal.files import is_shortage
from journal.format import parse_folder_name
from kestrelpy.core import AnyQueue, Broker, JournalLog, on_disk
from kestrelpy.durations import format_duration_ms
from kestrelpy.server.directory import REMOVED_SUFFIX, DataDirectory
from kestrelpy.server.restart.adoption import Adoption, RecoveredDirectory
from kestrelpy.server.restart.replayed import Replayed

# A smaller step back than the first is the jitter of a clock, and not reported.
_STEPS_MS: Final = (1000, 60_000, 3_600_000, 86_400_000)
_DUE_FIRST: Final = 64  # items of a queue, due meanwhile, that are released before the first answer


def recover(
    directory: DataDirectory, broker: Broker, dirty: list[JournalLog], now_ms: int, unix_ms: int
) -> RecoveredDirectory:
    """Fill the broker from the locked directory; raise JournalError or OSError. Blocks.

    The records retained from after the last known sync are on disk again when this returns.
    """
    return _Recovery(directory, broker, dirty, now_ms, unix_ms).run()


class _Folder(NamedTuple):
    """A queue's folder: folders are in order by generation."""

    generation: int
    name: str


class _Recovery:
    def __init__(
        self, directory: DataDirectory, broker: Broker, dirty: list[JournalLog],
        now_ms: int, unix_ms: int,
    ) -> None:  # fmt: skip
        self._directory, self._broker = directory, broker
        self._now_ms, self._unix_ms = now_ms, unix_ms
        self._adoption = Adoption(directory, broker, dirty)
        self._ready = dict[str, Replayed]()  # folders that were replayed to see what they hold

    def run(self) -> RecoveredDirectory:
        """Recover every queue; return what was found."""
        directory, broker, found = self._directory, self._broker, self._adoption.found
        found.notes += directory.begin(broker, self._now_ms, self._unix_ms)
        generations = self._generations()
        for each in generations.values():
            self._drop_unwritten(each)
        earlier = [folder for each in generations.values() for folder in each[:-1]]
        for folder in sorted(earlier):
            self._recover_earlier(folder.name)
        for _, folders in sorted(generations.items()):
            self._adopt(self._replayed(folders[-1].name))
        for queue in (*broker.logged, *broker.deleted):  # their files still exist
            broker.moves.in_flight.finish_all(queue, self._now_ms)
            broker.moves.remote.find_all(queue, self._now_ms)
        found.queues = sum(queue.child is None for queue in broker.queues.values())
        found.notes += _clock_note(broker)
        for queue in broker.logged:
            # One that has expired shows when it is read.
            queue.due.release_due(queue.readers, self._now_ms, _DUE_FIRST)
        for named in broker.queues.values():
            self._read_first(named)
            found.items += len(named.reader.live)
        known = (queue.reader.tokens_below for queue in broker.logged)
        directory.tokens.rise_above(max(known, default=1))
        broker.tokens.on_disk = max(broker.tokens.on_disk, directory.tokens.below)
        broker.generation_deleted = max(broker.generation_deleted, directory.tokens.generation)
        return found

    def _generations(self) -> dict[bytes, list[_Folder]]:
        """Return the folders of each queue, by generation; remove those that a deletion left."""
        files, path = self._directory.patient, self._directory.path
        found = dict[bytes, list[_Folder]]()
        for name in files.names(path):
            if name.endswith(REMOVED_SUFFIX):
                files.remove_folder(os.path.join(path, name))
                continue
            queue_name, generation = parse_folder_name(name)
            if generation:
                found.setdefault(queue_name, []).append(_Folder(generation, name))
        for folders in found.values():
            folders.sort()
        return found

    def _drop_unwritten(self, folders: list[_Folder]) -> None:
        """Remove later generations without a record: after a crash, they replace no earlier one."""
        while len(folders) > 1:
            name = folders[-1].name
            replayed = self._replayed(name)
            replayed.raise_error()  # before an earlier generation is removed
            if replayed.was_written():
                self._ready[name] = replayed
                return
            self._end(replayed)
            folders.pop()

    def _recover_earlier(self, name: str) -> None:
        """Save the tokens of a deleted queue; remove it, unless something of it may still be
        needed."""
        directory, broker, found = self._directory, self._broker, self._adoption.found
        replayed = self._replayed(name)
        replayed.raise_error()  # items of its children may be in the records that were not read
        directory.tokens.save(replayed.tokens_below())
        if replayed.is_unread() and not replayed.has_items():
            self._pass(replayed)
            if replayed.queue.is_tombstone:  # else its own items would come back
                directory.unread.add(name)
            found.damages += replayed.damages()
            found.notes.append(f"{name}: an earlier generation, not removed: it cannot be read")
            return
        if not replayed.is_needed():
            self._end(replayed)
            found.damages += replayed.damages()
            found.notes.append(f"{name}: an earlier generation, removed")
            return
        # It stays for its children, whose names take precedence over a later queue's, or until the
        # transfers into it are on disk at their sources.
        queue = replayed.queue
        self._adopt(replayed)
        if not queue.is_tombstone:  # the crash kept its deletion from the disk
            broker.delete(queue.name, self._now_ms)

    def _replayed(self, name: str) -> Replayed:
        """Return the replay of this folder, which is done now if it was not before."""
        if (replayed := self._ready.pop(name, None)) is not None:
            return replayed
        queue = self._broker.fresh(*parse_folder_name(name), self._now_ms)
        directory = self._directory
        return Replayed(directory.patient, os.path.join(directory.path, name), queue)

    def _adopt(self, replayed: Replayed) -> None:
        self._adoption.adopt(replayed, self._now_ms, self._unix_ms)

    def _end(self, replayed: Replayed) -> None:
        """Remove a folder that nothing needs."""
        self._pass(replayed)
        self._directory.remove(replayed.path)

    def _pass(self, replayed: Replayed) -> None:
        """Leave a folder as it is, out of service."""
        replayed.replay.close()
        self._broker.end(replayed.queue)

    def _read_first(self, queue: AnyQueue) -> None:
        """Read the first items, or note that they have expired, before the first request."""
        reader, target = queue.reader, on_disk(queue.log)
        backlog = reader.read_ahead
        if target is None or backlog is None:
            return
        files = self._directory.patient
        wanted = reader.ready_items.begin_fetch()
        reader.ready_items.fetched(target.store.some(wanted).run(files).records.values())
        reader.ready.disk_refs.put_back()  # the others are read again, and reported
        made = backlog.next_read(reader.ready.frontier) if reader.ready.beyond else None
        if made is not None:
            life, read = made
            try:
                backlog.arrived(life, *read.run(files))
            except OSError as error:
                backlog.failed(life, error)
        reader.ready_items.refill(self._unix_ms)
        if reader.ready.count:
            reader.schedule_read()


def _clock_note(broker: Broker) -> list[str]:
    """Return a sentence if the wall clock was set back, and a delay or a lease still runs."""
    clock = broker.clock
    broker.step_clock(clock.offset_ms)  # a log may have said more of the running clock
    behind_ms = clock.running_ms - clock.offset_ms
    if behind_ms < _STEPS_MS[0] or not clock.last_ms:
        return []
    unit = max(each for each in _STEPS_MS if each <= behind_ms)
    step = format_duration_ms(behind_ms // unit * unit)
    return [
        f"the clock was set back by at least {step}: delays and leases go on with what was left of "
        "them, dates wait for the clock"
    ]


def why_not_opened(error: Exception, path: str) -> str:
    """Return why the daemon cannot start, as one sentence."""
    if not isinstance(error, OSError):
        return str(error)
    if not is_shortage(error):
        return f"{path}: {error.strerror}"
    return (
        f"{error.filename or path}: {error.strerror}, and no start without it: raise the limit of "
        "open files (ulimit -n), or give the process more memory"
    )
