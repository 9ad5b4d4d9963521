"""The log of a queue: a journal, or a log without effect for a queue in memory.

A reply names a log, the record it waits for, and whether *written* or *stored* is enough (spec
1.5). In a queue in memory every record is true at once, so no other module asks whether a queue is
durable.

One rule: the verbs only append; they never fail and never touch the disk. The shell raises
`lsn_written` and `lsn_stored` as the journal advances.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from journal.errors import JournalFailed
from journal.format import RawDraft
from journal.sets import IdSet
from journal.store import DiskUse, Journal, LogStore, QueueCopy, ReadAhead
from kestrelpy.core.log import records
from kestrelpy.core.log.memory_log import MemoryLog, Reserve

_LEASE_BYTES: Final = 64  # the meta of its record


class JournalLog:
    """The log of a queue on disk.

    Replies that wait for a record are true once `lsn_written` or `lsn_stored` has reached it. All
    records up to `lsn_durable` are synced, whatever `sync` says; `lsn_appended` is that of the last
    record. Observers may be shown items up to `item_stored`.
    After the error `failure` the log acknowledges nothing more. `no_room` is the reason why no new
    item is stored now; "": items are stored. With `is_short` the reason is a lack of descriptors or
    memory: it passes, and all records are written.
    Where the journal is not local, a process that ends takes with it what is only written: a record
    counts as written when it is durable, and `sync` is always 0.
    `waiting_stored` and `waiting_written` are the callers that wait for these lsns to rise,
    `waiting_room` those that wait for room for an item, in the order in which they came. Removed
    segments go to the directory `archive_to`; "": they are deleted. With `sync_in_turn` a sync runs
    on the loop's thread.
    """

    __slots__ = (
        "_dirty",
        "_gone",
        "_is_dirty",
        "_journal",
        "_room",
        "_stalls",
        "archive_to",
        "awaited_lsn",
        "failure",
        "is_ending",
        "is_local",
        "is_reported",
        "is_short",
        "item_stored",
        "lsn_appended",
        "lsn_durable",
        "lsn_notified",
        "lsn_stored",
        "lsn_written",
        "no_room",
        "read_ahead",
        "state",
        "store",
        "sync_in_turn",
        "sync_ms",
        "waiting_room",
        "waiting_stored",
        "waiting_written",
    )  # fmt: skip

    def __init__(
        self,
        store: LogStore,
        dirty: list[JournalLog],
        sync_ms: int,
        state: Callable[[], QueueCopy],
    ) -> None:
        """`dirty` is the shell's list of logs with records to write.

        `sync_ms`: 0 always, -1 never, else the longest time unsynced (see `Policy`).

        `state` returns a copy of the queue's state at that moment.
        """
        self.state = state
        self.store = store
        self._journal = store.writer
        self._room = store.writer.room
        self.is_local = store.writer.files.is_local
        self.archive_to = ""
        self.sync_in_turn = False
        self._gone: Callable[[int, int], None] = lambda first, last: None
        self.read_ahead: ReadAhead | None = store.read_ahead  # None: all items are in memory
        self._dirty = dirty
        self._is_dirty = False
        self.sync_ms = sync_ms if self.is_local else 0
        self.no_room = ""
        self.is_short = False
        self._stalls: dict[str, tuple[str, bool]] = {}
        self.awaited_lsn = 0
        self.is_ending = False  # its files are being removed: some replies wait for that
        self.is_reported = False
        self.failure: Exception | None = None
        self.waiting_room: dict[object, None] = {}
        self.waiting_stored: set[object] = set()
        self.waiting_written: set[object] = set()
        self.lsn_written = self.lsn_stored = self.lsn_appended = self.item_stored = 0
        self.lsn_notified = 0  # the shell's: replies that wait for a sync are sent up to here
        self.advance()

    @property
    def identity(self) -> bytes:
        """The identity of this journal alone; the secret of id and key hashes."""
        return self._journal.identity

    def another_read_ahead(self) -> ReadAhead | None:
        """Return a reader of its own for a child: the child is at other items than the queue."""
        return self.store.another_read_ahead()

    @property
    def journal(self) -> Journal:
        """The journal that the log writes to."""
        return self._journal

    @property
    def awaits_sync(self) -> bool:
        """True if a caller waits for the next sync, and for no later moment."""
        waiting = self.waiting_stored or (self.waiting_written and not self.is_local)
        return self.sync_ms == 0 and bool(waiting)

    @property
    def is_unread(self) -> bool:
        """True if the disk did not give a segment at the start, and may give it at the next one."""
        return any(segment.unread for segment in self._journal.segments)

    @property
    def is_full(self) -> bool:
        """True if the disk is full until room is made: the rest is reserved for the confirms."""
        return bool(self.no_room) and not self.is_short

    def set_sync(self, sync_ms: int) -> None:
        """Set `sync_ms`; unless it is 0 (always), STORED waits for the write alone."""
        if sync_ms:
            self.wait_durable(self.lsn_appended)  # a hand-off may be waiting for a sync
        self.sync_ms = sync_ms if self.is_local else 0
        self.advance()

    def advance(self) -> None:
        """Copy the journal's progress."""
        if self.is_ending:
            return
        commit = self._journal.commit
        self.failure = commit.failure
        self.lsn_written = commit.lsn_written if self.is_local else commit.lsn_durable
        self.lsn_durable = commit.lsn_durable
        waits = self.sync_ms == 0
        self.lsn_stored = commit.lsn_durable if waits else commit.lsn_written
        self.item_stored = commit.item_durable if waits else commit.item_written
        self.lsn_appended = commit.lsn_appended

    def fail(self, failure: JournalFailed) -> None:
        """Write nothing any more."""
        self._journal.commit.fail(failure)
        self.advance()

    def stall(self, cause: str, why: str, is_short: bool = False) -> None:
        """Store no new items, for the reason `why`; "": this cause has ended.

        `is_short`: the cause is a lack of descriptors or memory.
        """
        if why:
            self._stalls[cause] = why, is_short
        else:
            self._stalls.pop(cause, None)
        self.no_room = next((why for why, _ in self._stalls.values()), "")
        self.is_short = bool(self._stalls) and all(short for _, short in self._stalls.values())

    def has_room(self, size: int, scatters: bool = False) -> bool:
        """True if an item with a body and a meta of `size` bytes may be appended now: there is room
        for its confirm as well, and, if it `scatters` and leaves later than those after it, for the
        confirms that need their own then. Otherwise the next segment is prepared."""
        if self._room.has(size) and not (scatters and not self._may_scatter()):
            return True
        self.mark()
        return False

    def may_remember(self) -> bool:
        """True if there is room for the confirms that need their own once ids or versions are
        remembered: ask before the first one. Otherwise the next segment is prepared."""
        if self._journal.preallocation.begin_to_hold():
            return True
        self.mark()
        return False

    def _may_scatter(self) -> bool:
        return self._journal.preallocation.begin_to_hold(scatters=True)

    def has_lease_room(self) -> bool:
        """True if the record of a lease by token may be appended now, and that of its end."""
        return self.has_room(_LEASE_BYTES)

    def run_bytes(self, count: int) -> int:
        """Return how many bytes the bodies of `count` items may have that are appended now."""
        return self._room.run_bytes(count)

    @property
    def wants_room(self) -> bool:
        """True if the next write is awaited for the room that it counts anew."""
        return bool(self.waiting_room) or self._room.asked > 0

    def take_waiting_room(self) -> list[object]:
        """Return the callers to be woken: items have room, or are refused."""
        if self._room.asked and not self.no_room and self.failure is None:
            return []
        return self.end_waiting_room()

    def end_waiting_room(self) -> list[object]:
        """Return all of these callers, in their order: none waits any more."""
        waiting = list(self.waiting_room)
        self.waiting_room.clear()
        return waiting

    def cleaned(self) -> None:
        """Note that the shell has taken the log off the dirty list."""
        self._is_dirty = False

    # -- records ----------------------------------------------------------------------------

    def append(self, draft: RawDraft) -> int:
        """Append a record; return its lsn."""
        self.lsn_appended = lsn = self._journal.append(draft)
        if not self._is_dirty:
            self.mark()
        return lsn

    def append_run(self, drafts: list[RawDraft], body_bytes: int) -> int:
        """Append records of items with nothing but a body; return the lsn of the last."""
        self.lsn_appended = lsn = self._journal.append_run(drafts, body_bytes)
        if not self._is_dirty:
            self.mark()
        return lsn

    def append_lazily(self, draft: RawDraft) -> int:
        """Append a record that no reply waits for: it goes with the next batch or after `mark`."""
        self.lsn_appended = lsn = self._journal.append(draft)
        return lsn

    def append_recounted(self, draft: RawDraft, needed: Callable[[], IdSet]) -> int:
        """Append a record about many items; return its lsn.

        `needed` returns the items still needed after it, as a set that does not change later.
        """
        self.lsn_appended = lsn = self._journal.append_flush(draft, needed())
        self.mark()
        return lsn

    def append_standing(self, draft: RawDraft) -> int:
        """Append a record that holds until the next one of its kind; return its lsn."""
        lsn = self.append(draft)
        self.stand(draft, lsn)
        return lsn

    def stand(self, draft: RawDraft, lsn: int) -> None:
        """Append this record again before the segment of the record `lsn` goes: it says the same,
        and holds until the next one of its kind."""
        self._journal.segment_list.stand(draft, lsn)

    def take_dead(self, unix_ms: int = 0) -> list[str]:
        """Return the segments to remove, in this order; repeat records that hold others back."""
        dead = self.store.take_dead(unix_ms)
        gone, self._journal.segment_list.gone = self._journal.segment_list.gone, []
        for first, last in gone:
            self._gone(first, last)
        if not self.no_room:  # else the room left is for the confirms
            for draft in self._journal.segment_list.take_held():
                self.append_standing(draft)
        return dead

    def wait_durable(self, lsn: int) -> None:
        """Have this record synced at once, whatever `sync` says: the core waits for it."""
        if lsn > self.awaited_lsn:
            self.awaited_lsn = lsn
            self.mark()

    def attached(
        self, reserve: Reserve, first_open: Callable[[], int],
        remembers: Callable[[], bool], gone: Callable[[int, int], None],
    ) -> None:  # fmt: skip
        """Connect the log to its queue.

        `reserve` counts the records that must find room in any case (nacks of leases by token,
        ...), `first_open` the lsn of the first put with an open origin, `remembers` whether
        there are remembered ids or versions. The log calls `gone` with the first and last item of a
        segment that is removed or rewritten.
        """
        self._gone = gone
        preallocation = self._journal.preallocation
        preallocation.count_leases, preallocation.count_workers = reserve.count, reserve.workers
        preallocation.count_scattered = reserve.scattered
        segment_list = self._journal.segment_list
        segment_list.first_open, segment_list.remembers = first_open, remembers

    def end(self) -> None:
        """Refer to the queue no longer: it is gone, with its files."""
        self._gone = lambda first, last: None
        self.state = _no_state
        self._journal.end()

    def retain(self, ms: int | None, bytes_most: int) -> None:
        """Retain done items for `ms` (None: forever, 0: not by time), or up to `bytes_most`."""
        self._journal.segment_list.retention.change(ms, bytes_most)

    def is_over(self, unix_ms: int, is_changed: bool = False) -> bool:
        """True if the retention of some segment is over: it goes after the next sync.

        `is_changed`: the retention has just changed, and any segment may go.
        """
        return self.store.maintenance.is_over(unix_ms, is_changed)

    def retained_bytes(self) -> int:
        """Return the size of all segments, the active one up to its last record."""
        active = self._journal.active
        sealed = (s.capacity for s in self._journal.segments if s is not active)
        return sum(sealed) + (active.at if active is not None else 0)

    def disk_bytes(self) -> int:
        """Return the size of all the log's files."""
        return self._journal.disk_bytes()

    def disk_use(self) -> DiskUse:
        """Return what the log's files are for."""
        return self._journal.disk_use()

    def reclaim(self, unix_ms: int) -> None:
        """Append a record with which an idle log goes on in a small segment, or a snapshot is taken
        (see `Reclaim`)."""
        self.store.reclaim.begin_turn()
        # Any record will do: this one repeats the limit of the tokens, which holds already.
        self.wait_durable(self.append(records.tokens(self._journal.checkpoint().tokens, unix_ms)))

    def mark(self) -> None:
        """Put the log on the dirty list: it has records to write."""
        if not self._is_dirty:
            self._is_dirty = True
            self._dirty.append(self)


def _no_state() -> QueueCopy:
    raise AssertionError("the queue of this log is gone")


Log: TypeAlias = JournalLog | MemoryLog


def on_disk(log: Log) -> JournalLog | None:
    """Return a log that has a journal; None: its queue is in memory."""
    return log if isinstance(log, JournalLog) else None
