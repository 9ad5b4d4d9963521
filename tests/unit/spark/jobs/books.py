"""Journals for audits, record by record: whoever writes one may say in it what no queue says.

    book = Book("jobs", "audit")            a queue with one child, in its own journal
    line = book.line                        the child's line, or the queue's own
    item = line.put()
    line.done(item)
    book.save(folder)                       the journal, written by `journal` itself

Each record and each delivery is 100 ms after the one before it by default, so records made one
after the other are in order. `at_last` changes what the last snapshot says.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Final

from journal.format.checkpoint import Checkpoint
from journal.format.folder import folder_name
from journal.format.item_header import ItemHeader
from journal.format.kinds import Kind, Tag
from journal.format.lease import LeaseEntry
from journal.format.meta import encode_meta, ended
from journal.format.record import Draft
from journal.format.subscription_state import STOPS, TAKES, DeadEntry, ReaderState, named
from journal.format.transfer import Origin, moved
from journal.recovery.live_set import LiveSet, ReaderItems
from journal.recovery.recovery import Recovery
from journal.sets.id_counts import IdCounts
from journal.sets.id_set import IdSet
from journal.snapshot.job import QueueCopy
from journal.store import LogStore
from journal.tools.view import JournalView
from journal.write.segment_file import Sizes
from tests.support.journals import Queue, Writer
from tests.support.memory_disk import MemoryDisk
from tests.unit.spark.jobs.stories import spill

ROOM: Final = Sizes(1 << 20, 1 << 20, 4 << 20)  # all of a book in one segment
BEGIN_MS: Final = 1_700_000_000_000
STEP_MS: Final = 100
LIFE: Final = 7  # the generation of all queues here
CHILD: Final = 1  # its number
BODY: Final = b"x"
ELSEWHERE: Final = Origin(b"elsewhere", b"other", 1, LIFE)  # on a server outside the audit

_ENDS: Final = (Kind.DONE, Kind.EXPIRED, Kind.DISCARDED, Kind.CANCELLED, Kind.MOVED)

Change = Callable[[ReaderItems], None]


class Book:
    """The journal of one queue, and of one child of it if `child` names one."""

    def __init__(self, queue: str, child: str = "", server: str = "s1") -> None:
        self.queue, self.child, self.server = queue, child, server
        self.now_ms = BEGIN_MS
        self.step_ms = STEP_MS
        self.next = 1
        self.others: dict[str, Book] = {}
        self.lie = self.jump = 0
        self.body = BODY
        self.drafts: list[Draft] = []
        self.changes: list[Change] = []
        self.own = Pen(self, 0)
        self.line = self.own
        if child:
            self.drafts.append(named(CHILD, child.encode(), 0, TAKES, self.now_ms))
            self.line = Pen(self, CHILD)

    def tick(self, ms: int | None = None) -> int:
        """Let time pass; return the new time."""
        self.now_ms += self.step_ms if ms is None else ms
        return self.now_ms

    def beside(self, name: str, child: str = "") -> Book:
        """The book of another queue on this server, at the same time."""
        if name not in self.others:
            self.others[name] = Book(f"{self.queue}-{name}", child, self.server)
        self.others[name].now_ms = self.now_ms
        return self.others[name]

    def number(self) -> int:
        """Take the next number of the queue."""
        self.next += 1
        return self.next - 1

    def say(self, draft: Draft) -> int:
        """Append one record; return its lsn."""
        self.drafts.append(draft)
        return len(self.drafts)

    def tokens(self) -> None:
        """Start: reserve lease tokens."""
        self.say(Draft(Kind.TOKENS, 0, 1 << 20, 0, self.tick(), b"", b"", 0, 0))

    def stop_child(self) -> None:
        """Remove the child."""
        self.say(named(CHILD, b"", 0, STOPS, self.tick()))

    def at_last(self, change: Change) -> None:
        """Write a snapshot at the end, with this change of the line; without one there is none."""
        self.changes.append(change)

    def save(self, data: Path, sizes: Sizes = ROOM, *, is_killed: bool = False) -> Path:
        """Write the journal to a data directory, with the others; return its folder.

        In small segments each record is synced before the next. `is_killed`: no orderly end.
        """
        for other in self.others.values():
            other.save(data)
        name = self.queue.encode()
        folder, identity = f"/data/{folder_name(name, LIFE)}", hashlib.md5(name).digest()
        disk, seen = MemoryDisk(), _Seen(self)
        store = LogStore.new(disk, folder, identity, sizes, seen.checkpoint)
        journal = store.writer
        writer = Writer(store, Queue(), Recovery(disk, folder), [])
        for draft in self.drafts:
            seen.see(draft)
            if draft.kind in (Kind.FLUSHED, Kind.UPTO, Kind.READER):
                journal.append_flush(draft, IdSet())
            else:
                journal.append(draft)
            if sizes is not ROOM:
                writer.commit()
        writer.commit()
        if self.changes:
            self._snapshot(store, disk, folder)
        if is_killed:
            journal.abandon()
        else:
            journal.close(self.now_ms)
        return spill(disk, data / folder_name(name, LIFE), folder)

    def _snapshot(self, store: LogStore, disk: MemoryDisk, folder: str) -> None:
        """Write a snapshot of the state after all records, with the changes."""
        live_set = LiveSet()
        for _ in live_set.follow(JournalView(disk, folder, live=True)):
            pass
        for change in self.changes:
            change(live_set.lines[self.line.reader])
        own = live_set.lines[0]
        readers = [
            ReaderState(number, line.name, 0, live=line.items.copy(), dead=_dead(line))
            for number, line in live_set.lines.items() if number
        ]  # fmt: skip
        checkpoint = Checkpoint(
            self.queue.encode(), 1 << 20, 1 << 20, generation=LIFE, server=self.server.encode()
        )
        state = QueueCopy(checkpoint, own.items.copy(), 0, IdCounts(), _dead(own), readers=readers)
        deepcopy(store.maintenance.begin_snapshot(state, self.now_ms)).run(disk)


class _Seen:
    """The opening of a segment: the next numbers and the count of items, `Book.lie` too high."""

    def __init__(self, book: Book) -> None:
        self._book, self._next, self._live = book, 1, set[int]()

    def see(self, draft: Draft) -> None:
        if draft.kind == Kind.PUT:
            self._next = max(self._next, draft.item + 1)
        if draft.kind == Kind.PUT and not draft.reader:
            self._live.add(draft.item)
        elif draft.kind in _ENDS and not draft.reader:
            self._live.discard(draft.item)
        elif draft.kind == Kind.FLUSHED:
            self._live.clear()

    def checkpoint(self) -> Checkpoint:
        book = self._book
        return Checkpoint(
            book.queue.encode(), self._next + book.jump, self._next + book.jump,
            live_items=len(self._live) + book.lie, generation=LIFE, server=book.server.encode(),
        )  # fmt: skip


def _dead(line: ReaderItems) -> list[DeadEntry]:
    return [DeadEntry(item, n, 1, b"", BEGIN_MS, 1) for n, item in enumerate(sorted(line.dead))]


class Pen:
    """Writes what happens in one line; `reader` is its number."""

    def __init__(self, book: Book, reader: int) -> None:
        self.book, self.reader = book, reader
        self._ended: dict[int, int] = {}  # deliveries that ended, by item

    # -- items --------------------------------------------------------------------------------

    def put(
        self, key: bytes = b"", header: ItemHeader | None = None, *, item: int = 0, reader: int = 0,
        is_due: bool = True, meta: bytes = b"",
    ) -> int:  # fmt: skip
        """Put an item for all readers, or for one reader alone; return its number."""
        item = item or self.book.number()
        meta += (encode_meta({Tag.KEY: key}) if key else b"") + (header.meta if header else b"")
        place = item if is_due else 0
        self._say(Kind.PUT, item, place, 0, meta, self.book.body, reader)
        return item

    def put_own(self, key: bytes = b"", header: ItemHeader | None = None) -> int:
        """Put an item for this line alone."""
        return self.put(key, header, reader=self.reader)

    def hand(self, item: int) -> int:
        """Another item of this journal is made of it, in one record with its end."""
        return self.put(header=ItemHeader(origin=self.name(item)))

    def name(self, item: int, generation: int = LIFE) -> Origin:
        """Return the origin under which other queues know this item."""
        book = self.book
        queue = f"{book.queue}+{book.child}" if self.reader else book.queue
        return Origin(book.server.encode(), queue.encode(), item, generation, len(BODY))

    # -- deliveries ---------------------------------------------------------------------------

    def open(self) -> int:
        """Lease the next item; return the time."""
        return self.book.tick()

    def lease(self, item: int, token: int) -> int:
        """Lent by token; when that was."""
        now = self.book.tick()
        entry = LeaseEntry(item, token, self._ended.get(item, 0) + 1, now, 1, now, now + 60_000)
        self.book.say(entry.leased()._replace(reader=self.reader))
        return now

    def renew(self, item: int, token: int) -> None:
        """Its deadline is later now."""
        entry = LeaseEntry(item, token, 1, 1, 1, self.book.tick(), self.book.now_ms + 60_000)
        self.book.say(entry.renewal()._replace(reader=self.reader))

    def done(self, item: int, began_ms: int = 0) -> None:
        """Confirmed."""
        began_ms = began_ms or self.open()
        small, meta = ended(self._ended.get(item, 0) + 1, 1)
        self._say(Kind.DONE, item, began_ms, small, meta)

    def back(self, item: int, began_ms: int = 0, reason: bytes = b"abort") -> None:
        """Given back."""
        began_ms = began_ms or self.open()
        count = self._count(item)
        self._say(Kind.RETURNED, item, began_ms, count, encode_meta({Tag.REASON: reason}))

    def put_off(self, item: int) -> None:
        """Given back for later."""
        began_ms = self.open()
        meta = encode_meta({Tag.DUE_MS: began_ms + 500, Tag.REASON: b"abort"})
        self._say(Kind.RETURNED, item, began_ms, self._count(item), meta)

    def die(self, item: int, began_ms: int = 0) -> None:
        """Its attempts are used up."""
        began_ms = began_ms or self.open()
        meta = encode_meta({Tag.REASON: b"abort", Tag.BYTES: 1})
        self._say(Kind.DEAD, item, began_ms, self._count(item), meta)

    # -- what becomes of it -------------------------------------------------------------------

    def redrive(self, item: int) -> None:
        """Dead no more."""
        self._say(Kind.REDRIVEN, item, self.book.number(), 0)

    def release(self, item: int) -> None:
        """Due."""
        self._say(Kind.RELEASED, item, self.book.number(), 0, reader=0)

    def expire(self, item: int) -> None:
        self._end(Kind.EXPIRED, item)

    def discard(self, item: int) -> None:
        self._end(Kind.DISCARDED, item)

    def cancel(self, item: int) -> None:
        self._end(Kind.CANCELLED, item)

    def move(self, item: int, target: Origin = ELSEWHERE, began_ms: int = 0) -> None:
        """Move the item to `target`; with `began_ms` the holder of that delivery handed it off."""
        delivery = self._ended.get(item, 0) + 1 if began_ms else 0
        now, name = self.book.tick(), target.as_target
        draft = moved(item, 1, name, now, True, delivery, began_ms)
        self.book.say(draft._replace(reader=self.reader, put_lsn=0))

    def flush(self, *items: int) -> None:
        """Flush: these items end; the record says that all others were leased."""
        spared = sorted({*range(1, self.book.next)} - {*items})
        body = struct.pack(f"<{len(spared)}Q", *spared)
        self._say(Kind.FLUSHED, self.book.next - 1, 0, 0, b"", body)

    def upto(self, marker: int, *spared: int) -> None:
        """Confirm all up to a marker, except delayed and dead items, and these."""
        body = struct.pack(f"<{len(spared)}Q", *spared)
        self._say(Kind.UPTO, 0, marker, 0, encode_meta({Tag.BYTES: 0}), body)

    # -- what the snapshot says ---------------------------------------------------------------

    def forget(self, item: int) -> None:
        """Leave the item out of the snapshot."""
        self.book.at_last(lambda line: line.end(item))

    def remember(self, item: int) -> None:
        """Keep the item in the snapshot, even if it has ended."""
        self.book.at_last(lambda line: line.items.add(item))

    def mark_dead(self, item: int) -> None:
        """By the snapshot it is dead."""
        self.book.at_last(lambda line: line.dead.add(item))

    def mark_alive(self, item: int) -> None:
        """By the snapshot it is not."""
        self.book.at_last(lambda line: line.dead.discard(item))

    # -----------------------------------------------------------------------------------------

    def _count(self, item: int) -> int:
        self._ended[item] = self._ended.get(item, 0) + 1
        return self._ended[item]

    def _end(self, kind: Kind, item: int) -> None:
        small, meta = ended(0, 1)
        self._say(kind, item, 0, small, meta)

    def _say(
        self, kind: Kind, item: int, number: int, small: int, meta: bytes = b"", body: bytes = b"",
        reader: int | None = None,
    ) -> None:  # fmt: skip
        reader = self.reader if reader is None else reader
        time_ms = self.book.tick()
        self.book.say(Draft(kind, item, number, small, time_ms, meta, body, reader, 0))
