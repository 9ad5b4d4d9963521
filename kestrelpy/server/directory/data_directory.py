"""The data directory: its lock, the folder of each queue, and recovery.

    data/
      lock                     held while a daemon runs
      server-id                made once
      tokens                   the lease tokens and generations of deleted queues
      running-clock            the last time that is known of the running clock (`beat`)
      jobs.1763712000/         the queue `jobs`, made at that second: its generation
        0000000001.segment
        set-aside/             copies of what was cut or damaged

One rule: a queue's name is never used raw as a file name, and two generations of one name never
share a folder.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from journal.errors import ITEM_MAX, Damage, JournalError
from journal.files import Files, Lock, is_shortage
from journal.format import TOKENS_SKIPPED, Checkpoint, folder_name, parse_folder_name
from journal.patience import patient_files, pause
from journal.recovery import (
    BodyCheck,
    Recovery,
    lost_items,
    lost_items_text,
    recovered_journal,
    set_aside,
)
from journal.sets import IdSet
from journal.store import Chunks, LogStore, Sizes, read_chunks
from kestrelpy.core import AnyQueue, Broker, JournalLog, Queue, Replay, on_disk
from kestrelpy.durations import format_duration_ms
from kestrelpy.server.directory.beat import Beat
from kestrelpy.server.directory.removed import Removed
from kestrelpy.server.directory.server_id import take_server_id
from kestrelpy.server.directory.token_file import TokenFile

REMOVED_SUFFIX: Final = "~removed"
_SYNC_PROBES: Final = 3
# So many bytes of segments that a start would not read are checked before the first answer, in all
# queues together: it takes some tenths of a second. The rest is checked while the daemon serves. Of
# an engine all is: there each byte comes over the network.
_CHECKED_FIRST_BYTES: Final = 64 << 20
# A smaller step back than the first is the jitter of a clock, and not reported.
_STEPS_MS: Final = (1000, 60_000, 3_600_000, 86_400_000)
_DUE_FIRST: Final = 64  # items of a queue, due meanwhile, that are released before the first answer


@dataclass(slots=True)
class RecoveredDirectory:
    """The result of recovery, for the daemon's first lines and its log.

    `unchecked` are the checks of bodies that would take long: the daemon does them while it serves.
    """

    queues: int = 0
    items: int = 0
    damages: list[Damage] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    unchecked: list[tuple[Queue, BodyCheck]] = field(default_factory=list)


class DataDirectory:
    """One data directory, owned from `lock` to `unlock`."""

    def __init__(
        self, files: Files, path: str, sizes: Sizes, pause: Callable[[], None] = pause
    ) -> None:
        """A blocking call that a shortage stops is tried again after a `pause`."""
        self.files = files
        self.patient = patient_files(files, pause)
        self.path = path
        self.sizes = sizes
        self.server_id = ""
        self.reserve_bytes = 0  # of the disk, left free by a new segment
        self._damaged_id = ""  # a sentence on the damaged file of the id
        self.tokens = TokenFile(self.patient, path)
        self.beat = Beat(self.patient, path)
        self._lock: Lock | None = None
        self._bytes_to_check = _CHECKED_FIRST_BYTES if files.is_local else 0
        self._tombstones: list[Queue] = []  # the broker's deleted queues whose folders stay

    def lock(self) -> None:
        """Lock the directory; raise DirectoryLocked or OSError. Blocks."""
        self.patient.make_folder(self.path)
        self._lock = self.patient.lock(os.path.join(self.path, "lock"))
        self.server_id, self._damaged_id = take_server_id(self.patient, self.path)

    def measure_sync(self) -> float:
        """Return how many milliseconds one small write and sync take here; 0: the disk is full."""
        path = os.path.join(self.path, "sync-probe")
        try:
            handle = self.patient.create(path, b"", 4096)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            return 0.0  # a full disk can be drained
        took = []
        for _ in range(_SYNC_PROBES):
            handle.write(0, b"probe")
            began = time.perf_counter()
            handle.sync()
            took.append((time.perf_counter() - began) * 1000)
        handle.close()
        self.patient.remove(path)
        return min(took)

    def check(self) -> str:
        """Return a sentence if the lock file was gone and is there again, else "". Blocks.

        Raise FolderChanged if the directory is not the one that was locked.
        """
        return self._lock.check() if self._lock is not None else ""

    def why_no_queue(self) -> str:
        """Return why the first segment of a new queue cannot be made, or "". Blocks.

        Its first put would wait for the segment: it cannot be taken back.
        """
        if why := self.files.why_no_file(self.path):
            return f"no new queue is made: {why}"
        if self.files.free(self.path) - self.sizes.segment_min >= self.reserve_bytes:
            return ""
        rest = f" beside min_disk_free ({self.reserve_bytes} bytes)" if self.reserve_bytes else ""
        return f"disk full: no room for a new queue{rest}"

    def unlock(self) -> None:
        """Release the lock."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def new_log(self, queue: Queue, dirty: list[JournalLog]) -> JournalLog:
        """Return a journal for a new queue; nothing is on disk until its first segment is
        prepared."""
        store = LogStore.new(
            self.files, self.folder(queue), os.urandom(16), self.sizes, queue.checkpoint
        )
        return JournalLog(store, dirty, queue.policy.sync_ms, queue.state)

    def folder(self, queue: Queue) -> str:
        """Return the folder of a queue."""
        return os.path.join(self.path, folder_name(queue.name, queue.generation))

    def recover(
        self, broker: Broker, dirty: list[JournalLog], now_ms: int, unix_ms: int
    ) -> RecoveredDirectory:
        """Fill the broker from the disk; raise JournalError or OSError. Blocks.

        The records retained from after the last known sync are on disk again when this returns.
        """
        found = RecoveredDirectory()
        self._tombstones = broker.tombstones
        damaged = (self._damaged_id, self.tokens.read(unix_ms), self.beat.begin(broker, now_ms))
        found.notes += [each for each in damaged if each]
        generations = dict[bytes, list[tuple[int, str]]]()  # of each queue, by generation
        for name in self.patient.names(self.path):
            if name.endswith(REMOVED_SUFFIX):
                self.patient.remove_folder(os.path.join(self.path, name))
                continue
            queue_name, generation = parse_folder_name(name)
            if generation:
                generations.setdefault(queue_name, []).append((generation, name))
        for each in generations.values():
            each.sort()
            # After a crash a later generation may have no record: then it replaces no earlier one.
            while len(each) > 1 and not self._was_written(broker, each[-1][1], now_ms):
                self.remove(os.path.join(self.path, each.pop()[1]))
        newest = {queue_name: each[-1] for queue_name, each in generations.items()}
        earlier = [name for each in generations.values() for _, name in each[:-1]]
        for name in sorted(earlier, key=lambda each: parse_folder_name(each)[1]):
            queue = self._save_tokens(broker, name, now_ms)
            queue.catch_up()
            is_needed = queue.origins or any(child.live for child in queue.children.values())
            broker.end(queue)
            if not is_needed:
                self.remove(os.path.join(self.path, name))
                found.notes.append(f"{name}: an earlier generation, removed")
            else:
                # It stays for its children, whose names take precedence over a later queue's, or
                # until the transfers into it are on disk at their sources.
                again = broker.fresh(*parse_folder_name(name), now_ms)
                self._recover_one(broker, dirty, again, name, now_ms, unix_ms, found)
                if not again.is_tombstone:  # the crash kept its deletion from the disk
                    broker.delete(again.name, now_ms)
        for queue_name, (generation, name) in sorted(newest.items()):
            queue = broker.fresh(queue_name, generation, now_ms)
            self._recover_one(broker, dirty, queue, name, now_ms, unix_ms, found)
        for queue in (*broker.logged, *broker.deleted):  # their files still exist
            broker.moves.in_flight.finish_all(queue, now_ms)
        found.queues = sum(queue.child is None for queue in broker.queues.values())
        found.notes += _clock_note(broker)
        for queue in broker.logged:
            # One that has expired shows when it is read.
            queue.due.release_due(queue.readers, now_ms, _DUE_FIRST)
        for named in broker.queues.values():
            self._read_first(named, unix_ms)
            found.items += len(named.reader.live)
        known = (queue.reader.tokens_below for queue in broker.logged)
        self.tokens.rise_above(max(known, default=1))
        broker.tokens.on_disk = max(broker.tokens.on_disk, self.tokens.below)
        broker.generation_deleted = max(broker.generation_deleted, self.tokens.generation)
        return found

    def _was_written(self, broker: Broker, folder: str, now_ms: int) -> bool:
        """True if it holds a record that may have been acknowledged."""
        queue = broker.fresh(*parse_folder_name(folder), now_ms)
        try:
            recovery, replay, *_ = _replayed(self.patient, os.path.join(self.path, folder), queue)
            replay.close()
        except JournalError:
            return True
        finally:
            broker.end(queue)
        is_damaged = any(damage.kind != "torn" for damage in recovery.damages)
        return recovery.lsn_next > 1 or recovery.snapshot is not None or is_damaged

    def _save_tokens(self, broker: Broker, folder: str, now_ms: int) -> Queue:
        """Save the tokens that this deleted queue may have issued; return the queue."""
        queue = broker.fresh(*parse_folder_name(folder), now_ms)
        path = os.path.join(self.path, folder)
        try:
            _replayed(self.patient, path, queue)[1].close()
        except JournalError:
            queue.reader._apply_tokens(queue.reader.tokens_below + TOKENS_SKIPPED)
        self.tokens.save(queue.reader.tokens_below)
        return queue

    def _recover_one(
        self,
        broker: Broker,
        dirty: list[JournalLog],
        queue: Queue,
        folder: str,
        now_ms: int,
        unix_ms: int,
        found: RecoveredDirectory,
    ) -> None:
        path = os.path.join(self.path, folder)
        try:
            recovery, replay, chunks, checkpoint = _replayed(self.patient, path, queue)
        except JournalError as error:
            raise JournalError(f"{path}: {error}") from error
        if not any(n.endswith((".segment", ".snapshot")) for n in recovery.names):
            # Created and never written: no record was ever acknowledged here.
            self.patient.remove_folder(path)
            return
        if checkpoint is not None:
            queue.name = queue.reader.name = checkpoint.name or queue.name
        queue.set_policy(broker.policy_of(queue.name, queue.declared), now_ms)
        # No client has seen a torn record; other lost items leave their numbers unused.
        given = [d.id_last for d in recovery.damages if d.kind != "torn" and d.id_last < ITEM_MAX]
        lost = lost_items(Recovery(self.patient, path), recovery.damages)
        for_good = lost_items(Recovery(self.patient, path), recovery.lost_for_good())
        replay.finish(checkpoint, recovery.lsn_next - 1, max(given, default=0), for_good)
        kept = queue.needed_now()
        bodies = recovery.bodies(kept)
        unreadable = IdSet.union([IdSet(), *lost.values()])
        is_checked = bodies.bytes <= self._bytes_to_check
        if is_checked:
            self._bytes_to_check -= bodies.bytes
            bodies.run(self.patient, recovery.damages)
            recovery.damages += bodies.damages
            unreadable = IdSet.union([unreadable, bodies.unreadable])
        if any(d.kind in ("corrupt", "truncated") for d in recovery.damages):
            replay.skip_tokens()
        store = recovered_journal(recovery, self.sizes, queue.checkpoint, unix_ms)
        journal = store.writer
        journal.files = self.files  # the loop opens it, and the loop must not block
        journal.abandon()  # ten thousand queues need no descriptor until they are written
        self._remember(queue, store, recovery, chunks, unix_ms)
        journal.adopt(kept, max(reader.live_bytes for reader in queue.readers))
        journal.commit.begin_with(queue.last_number)
        if not queue.policy.durable:
            found.notes.append(
                f"queue {queue.name.decode('ascii', 'replace')}: durable = false, but it has a "
                "journal on disk and keeps it; delete the queue to have it in memory"
            )
        target = JournalLog(store, dirty, queue.policy.sync_ms, queue.state)
        for draft in queue.standing(unix_ms):
            target.stand(draft, 1)
        queue.attach(target, replay.readable(journal.segments) if queue.policy.retains else None)
        replay.close()
        broker.adopt(queue, now_ms)
        _note_unreadable(queue, store, unreadable, lost, found)
        if not is_checked:
            found.unchecked.append((queue, bodies))
        found.damages += recovery.damages + chunks.damages

    def _remember(
        self, queue: Queue, store: LogStore, recovery: Recovery, chunks: Chunks, unix_ms: int
    ) -> None:
        """Adopt these files of remembered ids and versions, and remove the obsolete ones."""
        snapshot = recovery.snapshot
        items = snapshot.checkpoint.next_item if snapshot is not None else queue.next_number
        lost = chunks.losses(items - 1, unix_ms)
        store.maintenance.chunks, store.maintenance.lost_chunks = chunks.used, lost
        for chunk in lost:
            if chunk.keys:
                queue.dedupe.versions.lose(chunk.item_lost, chunk.keys_ms)
        set_aside(self.patient, recovery.folder, chunks.damages)
        for path in chunks.obsolete:
            self.patient.remove(path)

    def _read_first(self, queue: AnyQueue, unix_ms: int) -> None:
        """Read the first items, or note that they have expired, before the first request."""
        reader, target = queue.reader, on_disk(queue.log)
        backlog = reader.read_ahead
        if target is None or backlog is None:
            return
        wanted = reader.ready_line.begin_fetch()
        reader.ready_line.fetched(target.store.some(wanted).run(self.patient).records.values())
        reader.ready.disk_refs.put_back()  # the others are read again, and reported
        made = backlog.next_read(reader.ready.frontier) if reader.ready.beyond else None
        if made is not None:
            life, read = made
            try:
                backlog.arrived(life, *read.run(self.patient))
            except OSError as error:
                backlog.failed(life, error)
        reader.ready_line.refill(unix_ms)
        if reader.ready.count:
            reader.schedule_read()

    def remove_queue(self, queue: Queue) -> None:
        """Remove one queue's folder; raise OSError. Blocks."""
        removed = Removed()
        self.remove_queues([queue], removed)
        if (error := removed.errors.get(queue)) is not None:
            raise error

    def remove_queues(self, queues: list[Queue], removed: Removed) -> None:
        """Remove the folders of these queues, each after those of its earlier generations.

        `removed` gets the result for each. Raise OSError if none could be removed. Blocks.

        Otherwise an earlier queue would come back with the next start. The tokens are saved.
        """
        below = max(queue.reader.tokens_below for queue in queues)
        self.tokens.save(below, max(queue.generation for queue in queues))
        found = dict[bytes, list[tuple[int, str]]]()
        for folder in self.patient.names(self.path):
            name, made = parse_folder_name(folder)
            if made:
                found.setdefault(name, []).append((made, folder))
        # The later of two queues of one name has the folders of both: if one of these stays, it has
        # an error as well.
        waiting = [(queue, folders) for queue in queues if (folders := self._folders(queue, found))]
        while waiting:  # an earlier generation goes before a later one
            self._mark_removed([(queue, folders.pop(0)) for queue, folders in waiting], removed)
            waiting = [
                (queue, folders) for queue, folders in waiting
                if folders and queue not in removed.errors
            ]  # fmt: skip
        for folder in removed.folders:
            self.patient.remove_folder(folder)

    def _folders(self, queue: Queue, found: dict[bytes, list[tuple[int, str]]]) -> list[str]:
        """Return those of the folders `found` that are of a queue and of its earlier generations,
        in order."""
        name, generation = queue.name, queue.generation
        stay = {other.generation for other in [*self._tombstones] if other.name == name}
        parsed, _ = parse_folder_name(folder_name(name, generation))
        return [
            os.path.join(self.path, folder) for made, folder in sorted(found.get(parsed, ()))
            if made <= generation and made not in stay and folder == folder_name(name, made)
        ]  # fmt: skip

    def _mark_removed(self, folders: list[tuple[Queue, str]], removed: Removed) -> None:
        """Give these folders the names that a start removes; one sync makes all of them sure.

        Raise OSError if the sync failed or a shortage stopped one.
        """
        once = dict.fromkeys(folder for _, folder in folders)
        names = [(folder, folder + REMOVED_SUFFIX) for folder in once]
        errors = self.patient.rename_all(names)
        removed.folders += [renamed for folder, renamed in names if folder not in errors]
        for queue, folder in folders:
            error = errors.get(folder)
            if error is not None and not is_shortage(error):
                removed.errors[queue] = error
        for error in errors.values():
            if is_shortage(error):
                raise error  # it passes: the caller tries again

    def remove(self, folder: str) -> None:
        """Remove a queue's folder; it is gone for good on return. Blocks."""
        if os.path.basename(folder) in self.patient.names(os.path.dirname(folder)):
            renamed = folder + REMOVED_SUFFIX
            self.patient.rename(folder, renamed)
            self.patient.remove_folder(renamed)


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


def _note_unreadable(
    queue: Queue, store: LogStore, unreadable: IdSet, lost: dict[int, IdSet],
    found: RecoveredDirectory,
) -> None:  # fmt: skip
    """Note the items with bodies that cannot be read, for the log and for the figures; `lost` are
    those with lost puts, by the number of the subscription."""
    if not unreadable:
        return
    store.note_unreadable(unreadable)
    queue.know_unreadable(unreadable)
    for reader in queue.readers:
        reader.know_unreadable(lost.get(reader.number, IdSet()))
    name = queue.name.decode("ascii", "replace")
    found.notes.append(f"queue {name}: {lost_items_text(unreadable)}")


def _replayed(
    files: Files, path: str, queue: Queue
) -> tuple[Recovery, Replay, Chunks, Checkpoint | None]:
    """Apply every record of this folder to a fresh queue; return that with the newest checkpoint.
    Raise JournalError or OSError."""
    recovery = Recovery(files, path)
    replay = Replay(queue)
    records = recovery.records()
    first = next(records, None)  # by now the first snapshot is known
    opening, checkpoint = recovery.checkpoint, None
    if opening is not None:  # a folder's name may be cut
        checkpoint = Checkpoint.from_record(opening)
        queue.name = checkpoint.name or queue.name
    snapshot = recovery.snapshot
    if snapshot is not None:
        replay.restore(snapshot)
    queue.know(recovery.identity)
    chunks = read_chunks(
        files, path, recovery.identity, snapshot.chunks if snapshot is not None else None,
        lambda frame: queue.dedupe.take_in(frame, snapshot is not None), recovery.names,
    )  # fmt: skip
    if first is not None:
        replay.run([first])
    replay.run(records)
    if recovery.checkpoint is not None:
        if recovery.checkpoint is not opening:
            checkpoint = Checkpoint.from_record(recovery.checkpoint)
        assert checkpoint is not None
        queue.reader._apply_tokens(checkpoint.tokens)
    return recovery, replay, chunks, checkpoint


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
