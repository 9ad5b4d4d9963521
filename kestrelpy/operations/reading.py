"""Reading by marker: the items that an observer sees, from memory or from the log.

    look ──▶ in memory ────────────────────────┐
      ▲ └──▶ read from the log, on a thread ───┴──▶ the items still retained ──▶ a `Page`

Every item shown is stored: a page waits for the sync of those that are not. A page may hold fewer
items than the request asked for; only an empty one means that there is none after the marker.

The generators yield PAUSE while a read or a sync is under way, or when others should have their
turn; the caller resumes them.

One rule: reading changes nothing and delays no consumer. Its reads have threads of their own, and
it holds no bytes between two requests.
"""

from __future__ import annotations

from collections.abc import Generator
from itertools import compress
from operator import attrgetter
from typing import Final

from journal.files import Files, is_shortage
from journal.format import Record
from journal.store import Put, PutPlace, RangeScan, ReadOne, Scanned, TimeSearch
from kestrelpy.core import (
    AnyQueue,
    Browse,
    ChildStart,
    Item,
    JournalLog,
    Log,
    QueueLife,
    item_of,
    on_disk,
)
from kestrelpy.errors import Unread
from kestrelpy.operations.displaced_read import DISPLACED_MAX, DisplacedRead
from kestrelpy.operations.ports import PAUSE, Client, ItemWording

PAGE_BYTES_MAX: Final = 4 << 20
# After this many reads of the log a page has the items found by then.
READINGS_MAX: Final = 16
# Items of a queue in memory examined per turn: a few milliseconds.
SLICE_ITEMS: Final = 2500
# A client's position is remembered in this many queues.
_POSITIONS_MAX: Final = 16
_SEARCHES_MAX: Final = 3
_expires, _body = attrgetter("expires_ms"), attrgetter("body")  # of a put


class NoShape:
    """The wording of items that are read, and not shown."""

    @staticmethod
    def lines(puts: list[Put]) -> list[bytes]:
        """Return nothing for each item."""
        return [b""] * len(puts)


_NO_SHAPE: Final = NoShape()


class ItemRead:
    """One read of the log; `run` blocks and belongs on a thread.

    When it `is_over`, it has the items `found`, or the marker to `begin` at, or an `error`; a read
    of one put has the `record`, if it can be read.
    """

    __slots__ = (
        "begin", "displaced", "error", "found", "is_over", "job", "lines", "record", "shape",
    )  # fmt: skip

    def __init__(
        self, job: RangeScan | TimeSearch | DisplacedRead | ReadOne, shape: ItemWording
    ) -> None:
        self.job = job
        self.shape = shape
        self.found: Scanned | None = None
        self.displaced: list[Put] = []
        self.lines: list[bytes] = []
        self.begin = 0
        self.record: Record | None = None
        self.error: OSError | None = None
        self.is_over = False

    def run(self, files: Files) -> None:
        """Read, check and format the items; store an error. It may be called again."""
        self.error = None
        try:
            if isinstance(self.job, TimeSearch):
                self.begin = self.job.run(files)
            elif isinstance(self.job, ReadOne):
                self.record = self.job.run(files)
            elif isinstance(self.job, DisplacedRead):
                self.displaced = self.job.run(files)
                self.lines = self.shape.lines(self.displaced)
            else:
                found = self.job.run(files)
                self.lines = self.shape.lines(found.puts)
                self.found = found
        except OSError as error:
            self.error = error


class Page:
    """The items of one reply in order, at most `most`, each with its line on the wire."""

    __slots__ = ("_is_closed", "lines", "most", "puts", "readings", "room", "since_ms")

    def __init__(self, most: int, since_ms: int) -> None:
        self.most = most
        self.since_ms = since_ms  # no item stored before that time comes first
        self.room = PAGE_BYTES_MAX
        self.puts: list[Put] = []
        self.lines: list[bytes] = []
        self.readings = 0
        self._is_closed = False

    @property
    def is_full(self) -> bool:
        """True if the page is complete as it is."""
        return self._is_closed or bool(
            self.puts
            and (len(self.puts) >= self.most or self.room <= 0 or self.readings >= READINGS_MAX)
        )

    def add(self, puts: list[Put], lines: list[bytes]) -> bool:
        """Add items; return False if there is no room for the first of them."""
        if puts and self.puts and len(puts[0].body) > self.room:
            self._is_closed = True
            return False
        if puts:
            self.since_ms = 0
        self.puts += puts
        self.lines += lines
        self.room -= sum(map(len, map(_body, puts)))
        return True

    def drop_gone(self, browse: Browse, unix_ms: int) -> bool:
        """Leave out the items that are retained no more; return False if none is left."""
        puts = self.puts
        if not puts:
            return False
        is_whole = browse.are_all(len(puts), puts[0].id, puts[-1].id)
        if not is_whole or any(map(_expires, puts)):
            there = [
                browse.has(put.id) and not browse.has_expired(put.id, put.expires_ms, unix_ms)
                for put in puts
            ]
            self.puts, self.lines = list(compress(puts, there)), list(compress(self.lines, there))
        return bool(self.puts)


class LogReader:
    """Reads the items of queues for one client."""

    __slots__ = ("_client", "_positions", "_read_job")

    def __init__(self, client: Client) -> None:
        self._client = client
        self._positions: dict[tuple[bytes, int], PutPlace] = {}
        self._read_job: ItemRead | None = None

    @property
    def is_held_up(self) -> bool:
        """True if it waits for the disk."""
        reading = self._read_job
        return reading is not None and not reading.is_over

    @staticmethod
    def must_wait(queue: AnyQueue, after: int) -> bool:
        """True if the next page after this marker waits for a sync."""
        browse = Browse(queue)
        browse.ids = queue.readable
        first = browse.first(after)
        return first > 0 and not _is_stored(queue.log, first)

    def page(
        self, queue: AnyQueue, after: int, most: int, since_ms: int, shape: ItemWording
    ) -> Generator[bytes, None, tuple[Page, Browse] | None]:
        """Return the retained items after the marker; None: there is none.

        No item stored before `since_ms` comes first. The page is shown in the turn in which it is
        returned: later, some of its items may be gone. The caller notes a gap (`Browse.note_gap`).
        """
        client, browse, life = self._client, Browse(queue), QueueLife.of(queue)
        page = Page(most, since_ms)
        while not life.is_over:
            browse.ids = queue.readable
            log, first = queue.log, browse.first(after)
            if first and _is_stored(log, first) and not page.is_full:
                after = yield from self._more(queue, browse, first, page, shape)
                continue
            unix_ms = client.last_command_ms + client.broker.clock.offset_ms
            had_items = bool(page.puts)
            if page.drop_gone(browse, unix_ms):
                return page, browse
            if had_items:  # all of them have gone meanwhile
                page = Page(most, page.since_ms)
                yield PAUSE
            elif first and log.failure is None:  # it is shown when it is stored
                client.await_stored(log, log.lsn_appended)
                yield PAUSE
            else:
                break
        return None

    def find(self, queue: AnyQueue, id_: int) -> Generator[bytes, None, Put | None]:
        """Return the put of this item, with the expiry that it has here; None if it is gone or
        cannot be read."""
        log, browse = queue.log, Browse(queue)
        item, disk = browse.item(id_), on_disk(log)
        if item is not None or disk is None:
            return item.put if item is not None else None
        place, lost = None, 0
        while lost < READINGS_MAX:
            job = RangeScan.of(disk.journal, place, id_, id_, browse.ids, 1, PAGE_BYTES_MAX)
            if job is None or queue.deleted:
                break
            reading = yield from self._run(disk, ItemRead(job, _NO_SHAPE))
            if disk.journal.segment_numbered(job.extent.number) is None:
                place, lost = None, lost + 1  # the segment was rewritten meanwhile
                continue
            found = reading.found
            if found is None or found.puts or found.seen >= id_:
                return _bound(queue, found.puts[0]) if found is not None and found.puts else None
            place = found.place  # before it stand more confirms than one read passes over
        return None

    def item(self, queue: AnyQueue, id_: int) -> Generator[bytes, None, Item | None]:
        """Return an item that only the log has, with all of its put; None if it cannot be read."""
        log = on_disk(queue.log)
        if log is None:
            return None
        for _ in range(READINGS_MAX):
            one = log.store.one(id_)
            if one is None or queue.deleted:
                break
            reading = yield from self._run(log, ItemRead(one, _NO_SHAPE))
            if reading.record is not None:
                return queue.reader.bound(item_of(reading.record))
            if log.journal.segment_numbered(one.extent.number) is not None:
                break
        return None

    def _more(
        self, queue: AnyQueue, browse: Browse, first: int, page: Page, shape: ItemWording
    ) -> Generator[bytes, None, int]:
        """Add the items from `first` on; return the marker up to which it looked."""
        log, wanted = queue.log, page.most - len(page.puts)
        if page.most == 1 and not page.since_ms:
            item = browse.item(browse.id_of(first))
            if item is not None:
                puts = [item.put]
                page.add(puts, shape.lines(puts))
                return first
        if (disk := on_disk(log)) is not None:
            if (pairs := browse.released(first, log.item_stored, min(wanted, DISPLACED_MAX))):
                return (yield from self._read_displaced(disk, pairs, page, shape))
            return (yield from self._read(queue, browse, disk, first, page, shape))
        most = min(wanted, SLICE_ITEMS)
        items, last = browse.range_scan(first - 1, most, page.room, page.since_ms)
        puts = [item.put for item in items]
        if not puts or most < wanted:
            yield PAUSE  # a long stretch or a long reply: other connections have their turn
        return last if page.add(puts, shape.lines(puts)) else first - 1

    # -- reading ----------------------------------------------------------------------------

    def _read(
        self, queue: AnyQueue, browse: Browse, log: JournalLog, first: int, page: Page,
        shape: ItemWording,
    ) -> Generator[bytes, None, int]:
        """Add the log's items from `first` on; return the marker up to which it looked.

        It passes over damaged items: the ready list meets them as well and reports them.
        """
        journal, positions = log.journal, self._positions
        key = (queue.name, queue.generation)
        reader, last = queue.reader, log.item_stored
        other = reader.markers.first_from(first)
        if other:
            last = min(last, other - 1)
        job = RangeScan.of(
            journal, positions.get(key), first, last, browse.ids, page.most - len(page.puts),
            page.room, page.since_ms, reader.markers.hidden,
        )  # fmt: skip
        if job is None:
            return max(last, first)
        reading = yield from self._run(log, ItemRead(job, shape))
        page.readings += 1
        if journal.segment_numbered(job.extent.number) is None:
            return first - 1  # rewritten or removed meanwhile: look again
        found = reading.found
        if found is None:
            return job.last  # the disk cannot read it
        if not page.add(found.puts, reading.lines):
            return first - 1
        if key not in positions and len(positions) >= _POSITIONS_MAX:
            positions.clear()
        positions[key] = found.place
        return found.seen

    def _read_displaced(
        self, log: JournalLog, pairs: list[tuple[int, int]], page: Page, shape: ItemWording
    ) -> Generator[bytes, None, int]:
        """Add items whose markers differ from their ids; return the marker up to which it
        looked."""
        some = log.store.some([id_ for _, id_ in pairs])
        job = DisplacedRead(some, pairs, page.room, page.since_ms)
        reading = yield from self._run(log, ItemRead(job, shape))
        page.readings += 1
        if any(log.journal.segment_numbered(e.number) is None for e, _ in some.parts):
            return pairs[0][0] - 1  # rewritten or removed meanwhile: look again
        return job.seen if page.add(reading.displaced, reading.lines) else pairs[0][0] - 1

    def search(self, queue: AnyQueue, since_ms: int) -> Generator[bytes, None, int]:
        """Return the marker of the first item stored at this time or later."""
        log = on_disk(queue.log)
        if log is None:
            return Browse(queue).since(since_ms)
        for _ in range(_SEARCHES_MAX):
            job = TimeSearch.of(log.journal, since_ms)
            reading = yield from self._run(log, ItemRead(job, _NO_SHAPE))
            numbers = [extent.number for extent, _ in job.extents]
            if reading.error is None and all(map(log.journal.segment_numbered, numbers)):
                return reading.begin
        return 1

    def find_begin(self, queue: AnyQueue, since_ms: int) -> Generator[bytes, None, int]:
        """Return the marker of the first needed item stored at that time or later; if there is
        none, the marker after the last stored one."""
        page, browse = Page(1, since_ms), Browse(queue)
        marker = yield from self.search(queue, since_ms)
        while not queue.deleted and on_disk(queue.log) is not None:
            browse.ids = ChildStart(queue.files).offered()
            first = browse.first(marker - 1)
            if not 0 < first <= queue.log.item_stored:
                return first or marker
            marker = 1 + (yield from self._more(queue, browse, first, page, _NO_SHAPE))
            if page.puts:
                return page.puts[0].marker
        return marker

    def _run(self, log: Log, reading: ItemRead) -> Generator[bytes, None, ItemRead]:
        """Run the read; raise ServerError after a shortage: it does not tell which items exist."""
        self._read_job = reading
        self._client.start_read(log, reading)
        yield PAUSE
        self._read_job = None
        assert reading.is_over, "a read without an end"
        error = reading.error
        if error is not None and is_shortage(error):
            raise Unread(f"the queue's files cannot be read now ({error.strerror}); try again")
        return reading


def _is_stored(log: Log, marker: int) -> bool:
    return marker <= log.item_stored or log.lsn_stored >= log.lsn_appended


def _bound(queue: AnyQueue, put: Put) -> Put:
    """Return a put with the expiry that its item has in this subscription."""
    expires_ms = queue.reader.expires_here(put.id, put.expires_ms)
    return put if expires_ms == put.expires_ms else put._replace(expires_ms=expires_ms)
