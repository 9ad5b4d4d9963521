"""A replayed queue enters service: its journal goes on, its losses are named, the broker has it.

    Replayed ──finish──▶ bodies checked ──▶ journal adopted ──▶ registered

One rule: nothing that was lost is passed over in silence: each damage is in the result.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from journal.errors import ITEM_MAX, Damage, JournalError
from journal.recovery import (
    BodyCheck,
    Recovery,
    lost_items,
    lost_items_text,
    recovered_journal,
    set_aside,
)
from journal.sets import IdSet
from journal.store import LogStore
from kestrelpy.core import Broker, JournalLog, Queue
from kestrelpy.server.directory import DataDirectory
from kestrelpy.server.restart.replayed import Replayed

# So many bytes of segments that a start would not read are checked before the first answer, in all
# queues together: it takes some tenths of a second. The rest is checked while the daemon serves. Of
# an engine all is: there each byte comes over the network.
_CHECKED_FIRST_BYTES: Final = 64 << 20


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


class Adoption:
    """Adopts replayed queues, one after the other, and writes down what it finds."""

    def __init__(self, directory: DataDirectory, broker: Broker, dirty: list[JournalLog]) -> None:
        self.found: Final = RecoveredDirectory()
        self._files: Final = directory.files
        self._patient: Final = directory.patient
        self._sizes: Final = directory.sizes
        self._broker, self._dirty = broker, dirty
        self._bytes_to_check = _CHECKED_FIRST_BYTES if directory.files.is_local else 0

    def adopt(self, replayed: Replayed, now_ms: int, unix_ms: int) -> None:
        """Continue the journal of this folder and register its queue; raise JournalError."""
        queue, recovery, replay = replayed.queue, replayed.recovery, replayed.replay
        replayed.raise_error()
        if not any(n.endswith((".segment", ".snapshot")) for n in recovery.names):
            # Created and never written: no record was ever acknowledged here.
            replay.close()
            self._patient.remove_folder(replayed.path)
            return
        checkpoint, found = replayed.checkpoint, self.found
        if checkpoint is not None:
            queue.name = queue.reader.name = checkpoint.name or queue.name
        if there := self._broker.elsewhere(queue.name, b""):
            name = queue.name.decode("ascii", "replace")
            replay.close()
            raise JournalError(
                f"queue {name} is in several slices, and its place is slice {there}: write sliced "
                "= true in its block, or delete it there when it is empty"
            )
        queue.set_policy(self._broker.policy_of(queue.name, queue.declared), now_ms)
        # No client has seen a torn record; other lost items leave their numbers unused.
        given = [d.id_last for d in recovery.damages if d.kind != "torn" and d.id_last < ITEM_MAX]
        lost = lost_items(Recovery(self._patient, replayed.path), recovery.damages)
        for_good = lost_items(Recovery(self._patient, replayed.path), recovery.lost_for_good())
        replay.finish(checkpoint, recovery.lsn_next - 1, max(given, default=0), for_good)
        kept = queue.needed_now()
        unreadable = IdSet.union([self._check_bodies(replayed, kept), *lost.values()])
        if any(d.kind in ("corrupt", "truncated") for d in recovery.damages):
            replay.skip_tokens()
        store = self._continued(replayed, kept, unix_ms)
        target = JournalLog(store, self._dirty, queue.policy.sync_ms, queue.state)
        for draft in queue.standing(unix_ms):
            target.stand(draft, 1)
        segments = store.writer.segments
        queue.attach(target, replay.readable(segments) if queue.policy.retains else None)
        replay.close()
        self._broker.adopt(queue, now_ms)
        self._note_unreadable(queue, store, unreadable, lost)
        found.damages += recovery.damages + replayed.chunks.damages

    def _check_bodies(self, replayed: Replayed, kept: IdSet) -> IdSet:
        """Check the bodies of these items, now if that is quick enough; return the unreadable."""
        bodies, damages = replayed.recovery.bodies(kept), replayed.recovery.damages
        if bodies.bytes > self._bytes_to_check:
            self.found.unchecked.append((replayed.queue, bodies))
            return IdSet()
        self._bytes_to_check -= bodies.bytes
        bodies.run(self._patient, damages)
        damages += bodies.damages
        return bodies.unreadable

    def _continued(self, replayed: Replayed, kept: IdSet, unix_ms: int) -> LogStore:
        """Return the journal of this folder, ready to be written where it ends."""
        queue, recovery = replayed.queue, replayed.recovery
        store = recovered_journal(recovery, self._sizes, queue.checkpoint, unix_ms)
        journal = store.writer
        journal.files = self._files  # the loop opens it, and the loop must not block
        journal.abandon()  # ten thousand queues need no descriptor until they are written
        self._remember(replayed, store, unix_ms)
        journal.adopt(kept, max(reader.live_bytes for reader in queue.readers))
        journal.commit.begin_with(queue.last_number)
        if not queue.policy.durable:
            self.found.notes.append(
                f"queue {queue.name.decode('ascii', 'replace')}: durable = false, but it has a "
                "journal on disk and keeps it; delete the queue to have it in memory"
            )
        return store

    def _remember(self, replayed: Replayed, store: LogStore, unix_ms: int) -> None:
        """Adopt these files of remembered ids and versions, and remove the obsolete ones, unless a
        snapshot that the disk may give later lists them."""
        queue, recovery, chunks = replayed.queue, replayed.recovery, replayed.chunks
        snapshot = recovery.snapshot
        items = snapshot.checkpoint.next_item if snapshot is not None else queue.next_number
        lost = chunks.losses(items - 1, unix_ms)
        store.maintenance.chunks, store.maintenance.lost_chunks = chunks.used, lost
        for chunk in lost:
            if chunk.keys:
                queue.dedupe.versions.lose(chunk.item_lost, chunk.keys_ms)
        set_aside(self._patient, recovery.folder, chunks.damages)
        for path in chunks.obsolete if not recovery.snapshots_unread else ():
            self._patient.remove(path)

    def _note_unreadable(
        self, queue: Queue, store: LogStore, unreadable: IdSet, lost: dict[int, IdSet]
    ) -> None:
        """Note the items with bodies that cannot be read, for the log and for the figures; `lost`
        are those with lost puts, by the number of the subscription."""
        if not unreadable:
            return
        store.note_unreadable(unreadable)
        queue.know_unreadable(unreadable)
        for reader in queue.readers:
            reader.know_unreadable(lost.get(reader.number, IdSet()))
        name = queue.name.decode("ascii", "replace")
        self.found.notes.append(f"queue {name}: {lost_items_text(unreadable)}")
