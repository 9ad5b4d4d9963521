"""The data directory: who owns it, which folder belongs to which queue, and what is in it.

    data/
      lock                     held while a daemon runs
      server-id                made once
      tokens                   which lease tokens and generations deleted queues may have had
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
from journal.files import Files, Handle
from journal.format.checkpoint import TOKENS_SKIPPED, Checkpoint
from journal.format.folder import folder_name, parse_folder_name
from journal.patience import patient_files, pause
from journal.recovery.recovery import Recovery
from journal.recovery.reopen import recovered_journal, set_aside
from journal.snapshot.dedupe_load import Chunks, read_chunks
from journal.store import Sizes, Store
from kestrelpy.core.broker import Broker
from kestrelpy.core.index.dedupe import take_in
from kestrelpy.core.log.log import JournalLog
from kestrelpy.core.log.shared_log import on_disk
from kestrelpy.core.queue.queue import Queue
from kestrelpy.core.replay.replay import Replay
from kestrelpy.server.server_id import take_server_id
from kestrelpy.server.token_file import TokenFile

REMOVED_SUFFIX: Final = "~removed"
_SYNC_PROBES: Final = 3


@dataclass(slots=True)
class Found:
    """What recovery found: for the daemon's first lines and its log."""

    queues: int = 0
    items: int = 0
    damages: list[Damage] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class DataDirectory:
    """One data directory, owned from `lock` to `unlock`."""

    def __init__(
        self, files: Files, path: str, sizes: Sizes, pause: Callable[[], None] = pause
    ) -> None:
        """What blocks is tried again after a `pause` where a shortage stops it."""
        self.files = files
        self.patient = patient_files(files, pause)
        self.path = path
        self.sizes = sizes
        self.server_id = ""
        self._damaged_id = ""  # a sentence on the file it is kept in
        self.tokens = TokenFile(self.patient, path)
        self._lock: Handle | None = None
        self._remnants: list[Queue] = []  # the broker's: their folders stay

    def lock(self) -> None:
        """Own it; raises DirectoryLocked or OSError. Blocks."""
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

    def unlock(self) -> None:
        """Somebody else may own it."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def new_log(self, queue: Queue, dirty: list[JournalLog]) -> JournalLog:
        """A journal for a new queue; nothing is on disk until its first segment is prepared."""
        store = Store.new(
            self.files, self.folder(queue), os.urandom(16), self.sizes, queue.checkpoint
        )
        return JournalLog(store, dirty, queue.policy.sync_ms, queue.state)

    def folder(self, queue: Queue) -> str:
        """Where a queue's files are."""
        return os.path.join(self.path, folder_name(queue.name, queue.generation))

    def recover(
        self, broker: Broker, dirty: list[JournalLog], now_ms: int, wall_ms: int
    ) -> Found:
        """Fill the broker from what is on disk; raises JournalError or OSError. Blocks.

        What is kept from behind the last known sync is on disk again when this returns.
        """
        found = Found()
        self._remnants = broker.remnants
        damaged = (self._damaged_id, self.tokens.read(wall_ms))
        found.notes += [each for each in damaged if each]
        lives = dict[bytes, list[tuple[int, str]]]()  # of each queue, by generation
        for name in self.patient.names(self.path):
            if name.endswith(REMOVED_SUFFIX):
                self.patient.remove_folder(os.path.join(self.path, name))
                continue
            queue_name, generation = parse_folder_name(name)
            if generation:
                lives.setdefault(queue_name, []).append((generation, name))
        for each in lives.values():
            each.sort()
            # A crash may leave a later one without a record: it makes no earlier one go.
            while len(each) > 1 and not self._was_written(broker, each[-1][1], now_ms):
                self.remove(os.path.join(self.path, each.pop()[1]))
        newest = {queue_name: each[-1] for queue_name, each in lives.items()}
        earlier = [name for each in lives.values() for _, name in each[:-1]]
        for name in sorted(earlier, key=lambda each: parse_folder_name(each)[1]):
            queue = self._keep_tokens(broker, name, now_ms)
            queue.catch_up()
            if not queue.origins and not any(child.live for child in queue.children.values()):
                self.remove(os.path.join(self.path, name))
                found.notes.append(f"{name}: an earlier generation, removed")
            else:
                # It stays for its children, who have their names before those of a later queue,
                # or until it is on disk that what was moved here is not where it came from.
                again = broker.fresh(*parse_folder_name(name), now_ms)
                self._recover_one(broker, dirty, again, name, now_ms, wall_ms, found)
                if not again.is_remnant:  # a crash kept that from the disk
                    broker.delete(again.name, now_ms)
        for queue_name, (generation, name) in sorted(newest.items()):
            queue = broker.fresh(queue_name, generation, now_ms)
            self._recover_one(broker, dirty, queue, name, now_ms, wall_ms, found)
        for queue in (*broker.logged, *broker.deleted):  # of these the files are there still
            broker.moves.passages.settle_all(queue, now_ms)
        found.queues = sum(not queue.is_child for queue in broker.queues.values())
        for queue in broker.queues.values():
            self._read_first(queue, wall_ms)
            found.items += len(queue.reader.live)
        known = (queue.reader.tokens_below for queue in broker.logged)
        self.tokens.rise_above(max(known, default=1))
        broker.tokens.on_disk = max(broker.tokens.on_disk, self.tokens.below)
        broker.generation_deleted = max(broker.generation_deleted, self.tokens.generation)
        return found

    def _was_written(self, broker: Broker, folder: str, now_ms: int) -> bool:
        """Is there anything that may have been acknowledged?"""
        queue = broker.fresh(*parse_folder_name(folder), now_ms)
        try:
            recovery, *_ = _replayed(self.patient, os.path.join(self.path, folder), queue)
        except JournalError:
            return True
        is_damaged = any(damage.kind != "torn" for damage in recovery.damages)
        return recovery.lsn_next > 1 or recovery.snapshot is not None or is_damaged

    def _keep_tokens(self, broker: Broker, folder: str, now_ms: int) -> Queue:
        """What this one may have issued is remembered beyond its end; what it was."""
        queue = broker.fresh(*parse_folder_name(folder), now_ms)
        queue.deleted = True
        path = os.path.join(self.path, folder)
        try:
            _replayed(self.patient, path, queue)
        except JournalError:
            queue.reader._apply_tokens(queue.reader.tokens_below + TOKENS_SKIPPED)
        self.tokens.keep(queue.reader.tokens_below)
        return queue

    def _recover_one(
        self,
        broker: Broker,
        dirty: list[JournalLog],
        queue: Queue,
        folder: str,
        now_ms: int,
        wall_ms: int,
        found: Found,
    ) -> None:
        path = os.path.join(self.path, folder)
        try:
            recovery, replay, chunks, checkpoint = _replayed(self.patient, path, queue)
        except JournalError as error:
            raise JournalError(f"{path}: {error}") from error
        if not any(n.endswith((".segment", ".snapshot")) for n in recovery.names):
            # Made and never written: nothing was ever acknowledged here.
            self.patient.remove_folder(path)
            return
        if checkpoint is not None:
            queue.name = queue.reader.name = checkpoint.name or queue.name
        queue.set_policy(broker.policy_of(queue.name, queue.declared), now_ms)
        # What was torn was shown to nobody; other lost items keep their numbers to themselves.
        lost = [d.id_last for d in recovery.damages if d.kind != "torn" and d.id_last < ITEM_MAX]
        replay.finish(checkpoint, recovery.lsn_next - 1, max(lost, default=0))
        if any(d.kind in ("corrupt", "truncated") for d in recovery.damages):
            replay.skip_tokens()
        store = recovered_journal(recovery, self.sizes, queue.checkpoint, wall_ms)
        journal = store.writer
        journal.files = self.files  # it is opened by the loop, which must not block
        journal.abandon()  # ten thousand queues need no descriptor until they are written
        self._remember(queue, store, recovery, chunks, wall_ms)
        kept = queue.kept_now()
        journal.segment_list.adopt(kept, max(reader.live_bytes for reader in queue.readers))
        journal.commit.begin_with(queue.last_number)
        if not queue.policy.durable:
            found.notes.append(
                f"queue {queue.name.decode('ascii', 'replace')}: durable = false, but it has a "
                "journal on disk and keeps it; delete the queue to have it in memory"
            )
        target = JournalLog(store, dirty, queue.policy.sync_ms, queue.state)
        target.holds(queue.declared, queue.reader.paused, queue.epochs, wall_ms)
        queue.attach(target, replay.kept(journal.segments) if queue.policy.retains else None)
        replay.close()
        broker.adopt(queue, now_ms)
        found.damages += recovery.damages + chunks.damages

    def _remember(
        self, queue: Queue, store: Store, recovery: Recovery, chunks: Chunks, wall_ms: int
    ) -> None:
        """Go on with these files of remembered ids and versions; the others are not needed."""
        snapshot = recovery.snapshot
        items = snapshot.checkpoint.next_item if snapshot is not None else queue.next_number
        lost = chunks.losses(items - 1, wall_ms)
        store.maintenance.chunks, store.maintenance.lost_chunks = chunks.used, lost
        for chunk in lost:
            if chunk.keys:
                queue.versions.lose(chunk.item_lost, chunk.keys_ms)
        set_aside(self.patient, recovery.folder, chunks.damages)
        for path in chunks.obsolete:
            self.patient.remove(path)

    def _read_first(self, queue: Queue, wall_ms: int) -> None:
        """So that the first items are there, or known to be expired, before they are asked for."""
        reader, target, backlog = queue.reader, on_disk(queue.log), queue.log.backlog
        if target is None or backlog is None:
            return
        wanted = reader.line.begin_fetch()
        reader.line.fetched(target.store.some(wanted).run(self.patient).records.values())
        reader.ready.stubs.put_back()  # the others are asked for again, and named
        made = backlog.order(reader.ready.frontier) if reader.ready.beyond else None
        if made is not None:
            life, order = made
            try:
                backlog.arrived(life, *order.run(self.patient))
            except OSError as error:
                backlog.failed(life, error)
        reader.line.refill(wall_ms)
        if reader.ready.count:
            reader.ask()

    def remove_queue(self, queue: Queue) -> None:
        """Remove a queue's folder, and before it what is left of earlier ones of its name. Blocks.

        Else a queue of this name would come back with the next start. Its tokens are remembered.
        """
        name, generation = queue.name, queue.generation
        self.tokens.keep(queue.reader.tokens_below, generation)
        found = [(parse_folder_name(folder)[1], folder) for folder in self.patient.names(self.path)]
        stay = {other.generation for other in [*self._remnants] if other.name == name}
        for made, folder in sorted(found):
            if 0 < made <= generation and made not in stay and folder == folder_name(name, made):
                self.remove(os.path.join(self.path, folder))

    def remove(self, folder: str) -> None:
        """Remove a queue's folder; it is gone for good on return. Blocks."""
        if os.path.basename(folder) in self.patient.names(os.path.dirname(folder)):
            removed = folder + REMOVED_SUFFIX
            self.patient.rename(folder, removed)
            self.patient.remove_folder(removed)


def _replayed(
    files: Files, path: str, queue: Queue
) -> tuple[Recovery, Replay, Chunks, Checkpoint | None]:
    """Every record of this folder, applied to a fresh queue, and the newest checkpoint; raises
    JournalError or OSError."""
    recovery = Recovery(files, path)
    replay = Replay(queue)
    records = recovery.records()
    first = next(records, None)  # by now the snapshot to begin with is known
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
        lambda frame: take_in(queue, frame, snapshot is not None), recovery.names,
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
