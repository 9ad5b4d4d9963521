"""The log of a queue: a journal, or a log without effect for a queue in memory.

A reply names a log, the record it waits for, and whether *written* or *stored* is enough (spec
1.5). In a queue in memory every record is true at once, so no other module asks whether a queue is
durable.

One rule: `put` and the other verbs only append; they never fail and never touch the disk. The shell
raises `lsn_written` and `lsn_stored` as the journal advances.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol

from journal.format import (
    DELIVERY_MAX,
    Draft,
    Kind,
    LeaseEntry,
    Watermark,
    declared_draft,
    ended,
    watermark_drafts,
)
from journal.sets import IdSet
from journal.store import Journal, ReadAhead, State, Store
from kestrelpy.core.item import Item
from kestrelpy.core.log.records import SMALL_BODY_MAX, Records, packed

_PUT: Final = int(Kind.PUT)
_DONE: Final = int(Kind.DONE)
_FLUSHED: Final = int(Kind.FLUSHED)
_PAUSED: Final = int(Kind.PAUSED)


class Log(Protocol):
    """The log of one queue. The verbs that append a record return its lsn.

    Replies that wait for a record are true once `lsn_written` or `lsn_stored` has reached it.
    """

    archive_to: str  # a directory for removed segments; "": they are deleted
    sync_in_turn: bool  # a sync runs on the loop's thread

    @property
    def lsn_written(self) -> int:
        """The lsn up to which replies that wait for a write are true."""

    @property
    def lsn_stored(self) -> int:
        """The lsn up to which replies that wait for a sync are true."""

    @property
    def lsn_appended(self) -> int:
        """The lsn of the last record."""

    @property
    def lsn_durable(self) -> int:
        """The lsn up to which all records are synced to disk, whatever `sync` says."""

    @property
    def item_stored(self) -> int:
        """The id of the last item that may be shown to an observer."""

    @property
    def failure(self) -> Exception | None:
        """The error after which the log acknowledges nothing more; None: it has not failed."""

    @property
    def no_room(self) -> str:
        """The reason why no new item is stored now; empty: items are stored."""

    @property
    def is_short(self) -> bool:
        """True if the reason is a lack of descriptors or memory: it passes, and all records are
        written."""

    @property
    def is_full(self) -> bool:
        """True if the disk is full until room is made: the rest is reserved for the confirms."""

    @property
    def read_ahead(self) -> ReadAhead | None:
        """The reader of items that memory has no room for; None: all items are in memory."""

    @property
    def waiting_stored(self) -> set[object]:
        """The callers that wait for `lsn_stored` to rise."""

    @property
    def waiting_written(self) -> set[object]:
        """The callers that wait for `lsn_written` to rise."""

    @property
    def identity(self) -> bytes:
        """The journal's identity, the secret of id and key hashes; b"": there is no journal."""

    def set_sync(self, sync_ms: int) -> None:
        """Set when STORED may be sent, from now on."""

    def put(self, item: Item, nominal: Watermark | None = None, reader: int = 0) -> int:
        """Record a stored item.

        `nominal` is the schedule's time that it was put for, `reader` the child that alone has it.
        """

    def nominal(self, nominal: Watermark, unix_ms: int) -> int:
        """Record that the times of this schedule up to this one are done."""

    def put_later(self, item: Item, due_ms: int, reader: int = 0) -> int:
        """Record a stored item that is delayed until `due_ms`."""

    def done(self, item: Item, attempts: int, began_ms: int, unix_ms: int) -> int:
        """Record that an item was confirmed."""

    def returned(
        self, item: Item, attempts: int, began_ms: int, unix_ms: int, reason: bytes,
        always: bool = False, due_ms: int = 0,
    ) -> int:  # fmt: skip
        """Record a nack: the item has `attempts` now, and is delayed until `due_ms` (0: not).

        `always`: append the record even on a full disk.
        """

    def released(self, id_: int, place: int, unix_ms: int) -> int:
        """Record that a delayed item is available, at this place."""

    def dead(self, item: Item, attempts: int, began_ms: int, unix_ms: int, reason: bytes) -> int:
        """Record that an item is a dead letter now."""

    def expired(self, item: Item, unix_ms: int) -> int:
        """Record that an item is past its expiry."""

    def discarded(self, item: Item, unix_ms: int) -> int:
        """Record that a limit dropped an item."""

    def cancelled(self, id_: int, body_bytes: int, unix_ms: int) -> int:
        """Record that a client removed an item, which was waiting or dead."""

    def paused(self, paused: bool, unix_ms: int, reader: int = 0) -> int:
        """Record that the queue is paused and leases nothing, or is resumed."""

    def flushed(
        self, last_id: int, spared: list[int], stay: IdSet, live_bytes: int, unix_ms: int
    ) -> int:
        """Record that all items up to `last_id` are gone, except `spared` ones and those in `stay`.

        `live_bytes` is the size of the remaining bodies. The caller must not change `stay` later.
        """

    def tokens(self, below: int, unix_ms: int) -> int:
        """Record that lease tokens below this one may be issued."""

    def declared(self, settings: bytes, metadata: bytes, unix_ms: int) -> int:
        """Record the settings that a client declared, and the queue's metadata."""

    def leased(self, entry: LeaseEntry) -> int:
        """Record a lease by token."""

    def renewed(self, entry: LeaseEntry) -> int:
        """Record the renewal of a lease by token."""

    def write(self, draft: Draft) -> int:
        """Append a record that another module has made."""

    def write_lazily(self, draft: Draft) -> int:
        """`write` a record that no reply waits for: it goes with the next batch or after `mark`."""

    def write_recounted(self, draft: Draft, readable: Callable[[], IdSet]) -> int:
        """Append a record about many items; `readable` returns the items still needed after it."""

    def wait_durable(self, lsn: int) -> None:
        """Have this record synced at once, whatever `sync` says: the core waits for it."""

    def attached(
        self, reserve: Callable[[], int], first_open: Callable[[], int],
        gone: Callable[[int, int], None],
    ) -> None:  # fmt: skip
        """Connect the log to its queue.

        `reserve` returns the number of records that must find room in any case (nacks of leases by
        token, ...), `first_open` the lsn of the first put with an open origin. The log calls `gone`
        with the first and last item of a segment that is removed or rewritten.
        """

    def retain(self, ms: int | None, bytes_most: int) -> None:
        """Retain done items for `ms` (None: forever, 0: not by time), or up to `bytes_most`."""

    def is_over(self, unix_ms: int, is_changed: bool = False) -> bool:
        """True if the retention of some segment is over: it goes after the next sync.

        `is_changed`: the retention has just changed, and any segment may go.
        """

    def retained_bytes(self) -> int:
        """Return the size of all segments, the active one up to its last record."""

    def disk_bytes(self) -> int:
        """Return the size of all the log's files."""


class JournalLog(Records):
    """The log of a queue on disk. `dirty` is the shell's list of logs with records to write."""

    __slots__ = (
        "_dirty",
        "_gone",
        "_is_dirty",
        "_journal",
        "_stalls",
        "archive_to",
        "awaited_lsn",
        "failure",
        "is_ending",
        "is_reported",
        "is_short",
        "item_stored",
        "lsn_appended",
        "lsn_durable",
        "lsn_stored",
        "lsn_told",
        "lsn_written",
        "no_room",
        "read_ahead",
        "state",
        "store",
        "sync_in_turn",
        "sync_ms",
        "waiting_stored",
        "waiting_written",
    )  # fmt: skip

    def __init__(
        self,
        store: Store,
        dirty: list[JournalLog],
        sync_ms: int,
        state: Callable[[], State],
    ) -> None:
        """`sync_ms`: 0 always, -1 never, else the longest time unsynced (see `Policy`).

        `state` returns a copy of the queue's state at that moment.
        """
        self.state = state
        self.store = store
        self._journal = store.writer
        self.archive_to = ""
        self.sync_in_turn = False
        self._gone: Callable[[int, int], None] = lambda first, last: None
        self.read_ahead: ReadAhead | None = store.read_ahead
        self._dirty = dirty
        self._is_dirty = False
        self.sync_ms = sync_ms
        self.no_room = ""
        self.is_short = False
        self._stalls: dict[str, tuple[str, bool]] = {}
        self.awaited_lsn = 0
        self.is_ending = False  # its files are being removed: some replies wait for that
        self.is_reported = False
        self.failure: Exception | None = None
        self.waiting_stored: set[object] = set()
        self.waiting_written: set[object] = set()
        self.lsn_written = self.lsn_stored = self.lsn_appended = self.item_stored = 0
        self.lsn_told = 0  # the shell's: replies that wait for a sync are sent up to here
        self.advance()

    @property
    def identity(self) -> bytes:
        """The identity of this journal alone; the secret of id and key hashes."""
        return self._journal.identity

    @property
    def journal(self) -> Journal:
        """The journal that the log writes to."""
        return self._journal

    @property
    def is_full(self) -> bool:
        return bool(self.no_room) and not self.is_short

    def set_sync(self, sync_ms: int) -> None:
        """Set `sync_ms`; unless it is 0 (always), STORED waits for the write alone."""
        if sync_ms:
            self.wait_durable(self.lsn_appended)  # a hand-off may be waiting for a sync
        self.sync_ms = sync_ms
        self.advance()

    def advance(self) -> None:
        """Copy the journal's progress."""
        if self.is_ending:
            return
        commit = self._journal.commit
        self.failure = commit.failure
        self.lsn_written = commit.lsn_written
        self.lsn_durable = commit.lsn_durable
        waits = self.sync_ms == 0
        self.lsn_stored = commit.lsn_durable if waits else commit.lsn_written
        self.item_stored = commit.item_durable if waits else commit.item_written
        self.lsn_appended = commit.lsn_appended

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

    def cleaned(self) -> None:
        """Note that the shell has taken the log off the dirty list."""
        self._is_dirty = False

    def put(self, item: Item, nominal: Watermark | None = None, reader: int = 0) -> int:
        meta = b""
        if item.expires_ms or item.key or item.header is not None or nominal is not None:
            meta = item.said() if nominal is None else item.said(nominal=nominal.meta)
        self.lsn_appended = lsn = self._journal.append(
            (_PUT, item.id, item.marker, item.flags, item.stored_ms, meta, item.body, reader, 0)
        )
        if not self._is_dirty:
            self.mark()
        if nominal is not None:
            self._journal.segment_list.stand(nominal.draft(item.stored_ms), lsn)
        return lsn

    def nominal(self, nominal: Watermark, unix_ms: int) -> int:
        return self._stand(nominal.draft(unix_ms))

    def put_later(self, item: Item, due_ms: int, reader: int = 0) -> int:
        meta = item.said(due_ms)
        return self.write(
            Draft(_PUT, item.id, 0, item.flags, item.stored_ms, meta, item.body, reader, 0)
        )

    def done(self, item: Item, attempts: int, began_ms: int, unix_ms: int) -> int:
        size = item.size
        if size <= SMALL_BODY_MAX and attempts < DELIVERY_MAX:
            small, meta = attempts + 1 | size << 8, b""
        else:
            small, meta = ended(attempts + 1, size)
        self.lsn_appended = lsn = self._journal.append(
            (_DONE, item.id, began_ms, small, unix_ms, meta, b"", 0, item.lsn)
        )
        if not self._is_dirty:
            self.mark()
        return lsn

    def _without_room(self) -> int | None:
        return self.lsn_appended if self.is_full else None

    def paused(self, paused: bool, unix_ms: int, reader: int = 0) -> int:
        return self._stand(Draft(_PAUSED, 0, 0, int(paused), unix_ms, b"", b"", reader, 0))

    def flushed(
        self, last_id: int, spared: list[int], stay: IdSet, live_bytes: int, unix_ms: int
    ) -> int:
        body = packed(spared)
        self.lsn_appended = self._journal.append_flush(
            Draft(_FLUSHED, last_id, live_bytes, 0, unix_ms, b"", body, 0, 0), stay
        )
        if not self._is_dirty:
            self.mark()
        return self.lsn_appended

    def write_recounted(self, draft: Draft, readable: Callable[[], IdSet]) -> int:
        self.lsn_appended = self._journal.append_flush(draft, readable())
        self.mark()
        return self.lsn_appended

    def declared(self, settings: bytes, metadata: bytes, unix_ms: int) -> int:
        return self._stand(declared_draft(settings, metadata, unix_ms))

    def holds(
        self, declared: bytes, metadata: bytes, paused: bool, watermarks: Mapping[bytes, int],
        unix_ms: int,
    ) -> None:  # fmt: skip
        """After recovery, register the records that hold for the queue, whatever their segment."""
        if declared or metadata:
            draft = declared_draft(declared, metadata, unix_ms)
            self._journal.segment_list.stand(draft, 1)
        if paused:
            self._journal.segment_list.stand(Draft(_PAUSED, 0, 0, 1, unix_ms, b"", b"", 0, 0), 1)
        for draft in watermark_drafts(watermarks, unix_ms):
            self._journal.segment_list.stand(draft, 1)

    def _stand(self, draft: Draft) -> int:
        """Append a record that holds for the queue until the next one of its kind."""
        lsn = self.write(draft)
        self._journal.segment_list.stand(draft, lsn)
        return lsn

    def take_dead(self, unix_ms: int = 0) -> list[str]:
        """Return the segments to remove, in this order; repeat records that hold others back."""
        dead = self.store.take_dead(unix_ms)
        gone, self._journal.segment_list.gone = self._journal.segment_list.gone, []
        for first, last in gone:
            self._gone(first, last)
        if not self.no_room:  # else the room left is for the confirms
            for draft in self._journal.segment_list.take_held():
                self._stand(draft)
        return dead

    def leased(self, entry: LeaseEntry) -> int:
        self.lsn_appended = lsn = self._journal.append(entry.leased())
        if not self._is_dirty:
            self.mark()
        return lsn

    def renewed(self, entry: LeaseEntry) -> int:
        self.lsn_appended = lsn = self._journal.append(entry.renewal())
        if not self._is_dirty:
            self.mark()
        return lsn

    def wait_durable(self, lsn: int) -> None:
        if lsn > self.awaited_lsn:
            self.awaited_lsn = lsn
            self.mark()

    def attached(
        self, reserve: Callable[[], int], first_open: Callable[[], int],
        gone: Callable[[int, int], None],
    ) -> None:  # fmt: skip
        self._gone = gone
        self._journal.preallocation.count_leases = reserve
        self._journal.segment_list.first_open = first_open

    def retain(self, ms: int | None, bytes_most: int) -> None:
        self._journal.segment_list.retention.change(ms, bytes_most)

    def is_over(self, unix_ms: int, is_changed: bool = False) -> bool:
        return self.store.maintenance.is_over(unix_ms, is_changed)

    def retained_bytes(self) -> int:
        active = self._journal.active
        sealed = (s.capacity for s in self._journal.segments if s is not active)
        return sum(sealed) + (active.at if active is not None else 0)

    def disk_bytes(self) -> int:
        return self._journal.disk_bytes()

    def write(self, draft: Draft) -> int:
        self.lsn_appended = self._journal.append(draft)
        if not self._is_dirty:
            self.mark()
        return self.lsn_appended

    def write_lazily(self, draft: Draft) -> int:
        self.lsn_appended = lsn = self._journal.append(draft)
        return lsn

    def mark(self) -> None:
        """Put the log on the dirty list: it has records to write."""
        if not self._is_dirty:
            self._is_dirty = True
            self._dirty.append(self)
