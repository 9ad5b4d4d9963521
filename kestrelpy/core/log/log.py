"""What a queue may write: a journal, or nothing at all for a queue in memory.

A reply names a log and the record it waits for, and whether *written* or *stored* is enough
(spec 1.5). For a queue in memory every record is true at once, so there is no question anywhere
else whether a queue is durable.

One rule: `put` and the others only append; they never fail and never touch the disk. The shell
raises `lsn_written` and `lsn_stored` as the journal gets on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol

from journal.format.kinds import Kind
from journal.format.lease import LeaseEntry
from journal.format.meta import DELIVERY_MAX, ended
from journal.format.record import Draft
from journal.format.schedule import Watermark, watermark_drafts
from journal.read.readahead import ReadAhead
from journal.sets.id_set import IdSet
from journal.snapshot.job import State
from journal.store import Store
from journal.write.writer import Journal
from kestrelpy.core.item import Item
from kestrelpy.core.log.records import SMALL_BODY_MAX, Records, packed

_PUT: Final = int(Kind.PUT)
_DONE: Final = int(Kind.DONE)
_FLUSHED: Final = int(Kind.FLUSHED)
_DECLARED: Final = int(Kind.DECLARED)
_PAUSED: Final = int(Kind.PAUSED)


class Log(Protocol):
    """`lsn_written` and `lsn_stored`: up to where replies of either kind are true."""

    archive_to: str  # a directory for segments that go; "": they just go

    @property
    def lsn_written(self) -> int:
        """Up to where replies that wait for a write are true."""

    @property
    def lsn_stored(self) -> int:
        """Up to where replies that wait for a sync are true."""

    @property
    def lsn_appended(self) -> int:
        """The last record's."""

    @property
    def lsn_durable(self) -> int:
        """Up to where everything is on the disk, whatever `sync` says."""

    @property
    def item_stored(self) -> int:
        """The last item that may be shown to an observer."""

    @property
    def failure(self) -> Exception | None:
        """Why nothing more is acknowledged."""

    @property
    def no_room(self) -> str:
        """Why nothing new is stored now; empty: it is."""

    @property
    def is_short(self) -> bool:
        """True if that is for want of a descriptor or memory: it passes, and all is written."""

    @property
    def is_full(self) -> bool:
        """True if there is no room until somebody makes some: what is left is for the confirms."""

    @property
    def backlog(self) -> ReadAhead | None:
        """Reads back what memory has no room for; None: all is in memory."""

    @property
    def waiting_stored(self) -> set[object]:
        """The conversations that wait for more to be stored."""

    @property
    def waiting_written(self) -> set[object]:
        """Or written."""

    @property
    def identity(self) -> bytes:
        """Of the journal, which ids and keys are hashed with; b"": there is none."""

    def set_sync(self, sync_ms: int) -> None:
        """When STORED may be said, from now on."""

    def put(self, item: Item, nominal: Watermark | None = None, reader: int = 0) -> int:
        """An item was stored, be it for this time of a schedule, or for one child alone."""

    def nominal(self, nominal: Watermark, unix_ms: int) -> int:
        """Nothing is put for this schedule's times up to this one any more."""

    def put_later(self, item: Item, due_ms: int, reader: int = 0) -> int:
        """An item was stored, and is delayed until then."""

    def done(self, item: Item, attempts: int, began_ms: int, unix_ms: int) -> int:
        """It was confirmed."""

    def returned(
        self, item: Item, attempts: int, began_ms: int, unix_ms: int, reason: bytes,
        always: bool = False, due_ms: int = 0,
    ) -> int:  # fmt: skip
        """It was given back and has `attempts` from now on, and is delayed until `due_ms` (0: no).

        `always`: be there room or not.
        """

    def released(self, id_: int, place: int, unix_ms: int) -> int:
        """A delayed item is available, at this place."""

    def dead(self, item: Item, attempts: int, began_ms: int, unix_ms: int, reason: bytes) -> int:
        """It goes to the dead line."""

    def expired(self, item: Item, unix_ms: int) -> int:
        """It lived past its expiry."""

    def discarded(self, item: Item, unix_ms: int) -> int:
        """A limit dropped it."""

    def cancelled(self, id_: int, body_bytes: int, unix_ms: int) -> int:
        """It was waiting or dead, and somebody had it removed."""

    def paused(self, paused: bool, unix_ms: int, reader: int = 0) -> int:
        """The queue lends nothing, or lends again."""

    def flushed(
        self, last_id: int, spared: list[int], stay: IdSet, live_bytes: int, unix_ms: int
    ) -> int:
        """Every item up to `last_id` is gone but the spared ones, and those that `stay` with them.

        `live_bytes` are those of their bodies. Nobody changes `stay` from now on.
        """

    def tokens(self, below: int, unix_ms: int) -> int:
        """Lease tokens below this may be issued."""

    def declared(self, settings: bytes, unix_ms: int) -> int:
        """A client declared these settings."""

    def leased(self, entry: LeaseEntry) -> int:
        """It was lent by token."""

    def renewed(self, entry: LeaseEntry) -> int:
        """Its lease by token goes on."""

    def write(self, draft: Draft) -> int:
        """A record that a room of its own has made."""

    def write_lazily(self, draft: Draft) -> int:
        """The same, and nobody waits: it is written with what comes next, or when it is marked."""

    def write_recounted(self, draft: Draft, readable: Callable[[], IdSet]) -> int:
        """One that speaks of many items at once: these are those that somebody needs behind it."""

    def wait_durable(self, lsn: int) -> None:
        """Somebody inside waits for this record: it is synced at once, whatever `sync` says."""

    def attached(
        self, reserve: Callable[[], int], first_open: Callable[[], int],
        gone: Callable[[int, int], None],
    ) -> None:  # fmt: skip
        """How its queue knows how many records must still find room, whatever comes (returns of
        leases by token, ...), and the lsn of its first put whose origin is open. `gone` is told
        first and last item of a segment that goes, or is rewritten."""

    def retain(self, ms: int | None, bytes_most: int) -> None:
        """Keep what is done so long (None: forever, 0: not by time), or up to so many bytes."""

    def is_over(self, unix_ms: int, is_changed: bool = False) -> bool:
        """Is the time of something over that is kept? It goes behind the next sync.

        `is_changed`: how long has just been said anew, and anything may go.
        """

    def kept_bytes(self) -> int:
        """The size of what is kept, the active segment up to its end."""

    def disk_bytes(self) -> int:
        """The size of all its files."""


class JournalLog(Records):
    """A queue on disk. `dirty` is the shell's list of logs that have something to write."""

    __slots__ = (
        "_append", "_dirty", "_gone", "_is_dirty", "_journal", "_stalls", "archive_to",
        "awaited_lsn", "backlog", "failure", "is_reported", "is_short", "item_stored",
        "lsn_appended", "lsn_durable", "lsn_stored", "lsn_told", "lsn_written", "no_room", "state",
        "store", "sync_ms", "waiting_stored", "waiting_written",
    )  # fmt: skip

    def __init__(
        self,
        store: Store,
        dirty: list[JournalLog],
        sync_ms: int,
        state: Callable[[], State],
    ) -> None:
        """`sync_ms`: 0 always, -1 never, else at most this long unsynced (see `Policy`).

        `state` is a copy of the queue's at this moment.
        """
        self.state = state
        self.store = store
        self._journal = journal = store.writer
        self._append = journal.append
        self.archive_to = ""
        self._gone: Callable[[int, int], None] = lambda first, last: None
        self.backlog: ReadAhead | None = store.read_ahead
        self._dirty = dirty
        self._is_dirty = False
        self.sync_ms = sync_ms
        self.no_room = ""
        self.is_short = False
        self._stalls: dict[str, tuple[str, bool]] = {}
        self.awaited_lsn = 0
        self.is_reported = False
        self.failure: Exception | None = None
        self.waiting_stored: set[object] = set()
        self.waiting_written: set[object] = set()
        self.lsn_written = self.lsn_stored = self.lsn_appended = self.item_stored = 0
        self.lsn_told = 0  # the shell's: up to where those who wait for a sync were told
        self.advance()

    @property
    def identity(self) -> bytes:
        """What tells this journal from any other; ids and keys are hashed with it."""
        return self._journal.identity

    @property
    def journal(self) -> Journal:
        """What is written to."""
        return self._journal

    @property
    def is_full(self) -> bool:
        return bool(self.no_room) and not self.is_short

    def set_sync(self, sync_ms: int) -> None:
        """With `sync` other than always, STORED waits for the write alone."""
        if sync_ms:
            self.wait_durable(self.lsn_appended)  # a hand-off waits until it is synced some time
        self.sync_ms = sync_ms
        self.advance()

    def advance(self) -> None:
        """Take over how far the journal has got."""
        commit = self._journal.commit
        self.failure = commit.failure
        self.lsn_written = commit.lsn_written
        self.lsn_durable = commit.lsn_durable
        waits = self.sync_ms == 0
        self.lsn_stored = commit.lsn_durable if waits else commit.lsn_written
        self.item_stored = commit.item_durable if waits else commit.item_written
        self.lsn_appended = commit.lsn_appended

    def stall(self, cause: str, why: str, is_short: bool = False) -> None:
        """Nothing new is stored, `why` says why; "": of this cause there is no reason any more.

        `is_short`: it is for want of a descriptor or memory.
        """
        if why:
            self._stalls[cause] = why, is_short
        else:
            self._stalls.pop(cause, None)
        self.no_room = next((why for why, _ in self._stalls.values()), "")
        self.is_short = bool(self._stalls) and all(short for _, short in self._stalls.values())

    def cleaned(self) -> None:
        """The shell has taken it off the dirty list."""
        self._is_dirty = False

    def put(self, item: Item, nominal: Watermark | None = None, reader: int = 0) -> int:
        meta = b""
        if item.expires_ms or item.key or item.stamp is not None or nominal is not None:
            meta = item.said() if nominal is None else item.said(nominal=nominal.meta)
        self.lsn_appended = lsn = self._append(
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
        self.lsn_appended = lsn = self._append(
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

    def declared(self, settings: bytes, unix_ms: int) -> int:
        return self._stand(Draft(_DECLARED, 0, 0, 0, unix_ms, b"", settings, 0, 0))

    def holds(
        self, declared: bytes, paused: bool, epochs: Mapping[bytes, int], unix_ms: int
    ) -> None:
        """After recovery: what holds for the whole queue, in whichever segment it stands."""
        if declared:
            draft = Draft(_DECLARED, 0, 0, 0, unix_ms, b"", declared, 0, 0)
            self._journal.segment_list.stand(draft, 1)
        if paused:
            self._journal.segment_list.stand(Draft(_PAUSED, 0, 0, 1, unix_ms, b"", b"", 0, 0), 1)
        for draft in watermark_drafts(epochs, unix_ms):
            self._journal.segment_list.stand(draft, 1)

    def _stand(self, draft: Draft) -> int:
        """A record that holds for the queue until another one of its kind."""
        lsn = self.write(draft)
        self._journal.segment_list.stand(draft, lsn)
        return lsn

    def take_dead(self, unix_ms: int = 0) -> list[str]:
        """Segments to be removed, in this order; what holds back others is said again."""
        dead = self.store.take_dead(unix_ms)
        gone, self._journal.segment_list.gone = self._journal.segment_list.gone, []
        for first, last in gone:
            self._gone(first, last)
        if not self.no_room:  # what room there is belongs to the confirms
            for draft in self._journal.segment_list.take_held():
                self._stand(draft)
        return dead

    def leased(self, entry: LeaseEntry) -> int:
        self.lsn_appended = lsn = self._append(entry.leased())
        if not self._is_dirty:
            self.mark()
        return lsn

    def renewed(self, entry: LeaseEntry) -> int:
        self.lsn_appended = lsn = self._append(entry.renewal())
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

    def kept_bytes(self) -> int:
        active = self._journal.active
        sealed = (s.capacity for s in self._journal.segments if s is not active)
        return sum(sealed) + (active.at if active is not None else 0)

    def disk_bytes(self) -> int:
        return self._journal.disk_bytes()

    def write(self, draft: Draft) -> int:
        self.lsn_appended = self._append(draft)
        if not self._is_dirty:
            self.mark()
        return self.lsn_appended

    def write_lazily(self, draft: Draft) -> int:
        self.lsn_appended = lsn = self._append(draft)
        return lsn

    def mark(self) -> None:
        """There is something to write."""
        if not self._is_dirty:
            self._is_dirty = True
            self._dirty.append(self)
