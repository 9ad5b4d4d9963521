"""Browsing: read items by marker without consuming them.

    look ──▶ in memory ────────────────────────┐
      ▲ └──▶ read from the log, on a thread ───┴──▶ the items still retained ──▶ reply
      └── nothing yet, and time left: wait for the next item

Every item shown is stored: the reply waits for the sync of those that are not. A reply may hold
fewer items than the request asked for; only an empty one means that there is none after the marker.

One rule: browsing changes nothing and delays no consumer. Its reads have threads of their own, and
it holds no bytes between two requests.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from itertools import compress
from operator import itemgetter
from typing import Final

from journal.files import Files, is_shortage
from journal.format import Record
from journal.store import Place, Put, RangeScan, ReadOne, Scanned, TimeSearch
from kestrelpy.core import (
    READY,
    Browse,
    ChildStart,
    Holder,
    Item,
    JournalLog,
    Log,
    Queue,
    Waiter,
    Want,
    item_of,
    on_disk,
)
from kestrelpy.errors import Unread
from kestrelpy.protocol.parse import Target, View
from kestrelpy.protocol.ports import Talk
from kestrelpy.protocol.replies import JointReply, Replies
from kestrelpy.protocol.verbs.browse_displaced import DISPLACED_MAX, DisplacedRead
from kestrelpy.protocol.verbs.children import mention_child
from kestrelpy.protocol.verbs.value_line import Shape, state_words

ANSWER_BYTES_MAX: Final = 4 << 20
# After this many reads of the log a reply is given the items found by then.
READINGS_MAX: Final = 16
# Items of a queue in memory examined per turn: a few milliseconds.
SLICE_ITEMS: Final = 2500
# A connection remembers its position in this many queues.
_PLACES_MAX: Final = 16
_SEARCHES_MAX: Final = 3
_NO_MARKER: Final = 1 << 63  # no marker comes after it
_expires, _body = itemgetter(4), itemgetter(5)  # fields of a put
_PLAIN: Final = state_words(READY, 0)


class BrowseRead:
    """One read for a browser; `run` blocks and belongs on a thread.

    When it `is_over`, it has the items `found`, or the marker to `begin` at, or an `error`; a read
    of one put has the `record`, if it can be read.
    """

    __slots__ = (
        "begin", "displaced", "error", "found", "is_over", "job", "lines", "record", "shape",
    )  # fmt: skip

    def __init__(
        self, job: RangeScan | TimeSearch | DisplacedRead | ReadOne, shape: Shape
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


class Answer:
    """The items of one reply in order, at most `most`."""

    __slots__ = ("_is_closed", "lines", "most", "puts", "readings", "room", "since_ms")

    def __init__(self, most: int, since_ms: int) -> None:
        self.most = most
        self.since_ms = since_ms  # no item stored before that time comes first
        self.room = ANSWER_BYTES_MAX
        self.puts: list[Put] = []
        self.lines: list[bytes] = []
        self.readings = 0
        self._is_closed = False

    @property
    def is_full(self) -> bool:
        """True if the reply is complete as it is."""
        return self._is_closed or bool(
            self.puts
            and (len(self.puts) >= self.most or self.room <= 0 or self.readings >= READINGS_MAX)
        )

    def add(self, puts: list[Put], lines: list[bytes]) -> bool:
        """Add items; return False if there is no room for the first of them."""
        if puts and self.puts and len(puts[0][5]) > self.room:
            self._is_closed = True
            return False
        if puts:
            self.since_ms = 0
        self.puts += puts
        self.lines += lines
        self.room -= sum(map(len, map(_body, puts)))
        return True

    def data(self, browse: Browse, shape: Shape, unix_ms: int, end: bytes) -> tuple[bytes, int]:
        """Return the items that are still retained, formatted, and the first marker; 0 if there are
        none."""
        puts, lines = self.puts, self.lines
        if not puts:
            return b"", 0
        is_whole = browse.are_all(len(puts), puts[0][0], puts[-1][0])
        if not is_whole or any(map(_expires, puts)):
            there = [
                browse.has(put[0]) and not browse.has_expired(put[0], put[4], unix_ms)
                for put in puts
            ]
            puts, lines = list(compress(puts, there)), list(compress(lines, there))
        if not puts:
            return b"", 0
        if shape.full:
            is_plain = browse.is_plain and not any(put[6] or put[7] for put in puts)
            lines = [
                b"%b%b\r\n%b\r\n" % (
                    line,
                    _PLAIN if is_plain else state_words(*browse.state(put[0]), put[6], put[7]),
                    put[5],
                )
                for line, put in zip(lines, puts, strict=True)
            ]  # fmt: skip
        return b"".join((*lines, end)), puts[0][1]


class Browser:
    """The browser of one conversation."""

    __slots__ = ("_holder", "_positions", "_read_job", "_talk", "at_end", "waiter")

    def __init__(self, talk: Talk, holder: Holder, at_end: bool) -> None:
        self._talk = talk
        self._holder = holder
        self._positions: dict[tuple[bytes, int], Place] = {}
        self._read_job: BrowseRead | None = None
        self.waiter: Waiter | None = None
        self.at_end = at_end  # the client sends no more: it does not wait any longer

    @property
    def is_held_up(self) -> bool:
        """True if it waits for the disk, or for an item."""
        reading, waiter = self._read_job, self.waiter
        return (reading is not None and not reading.is_over) or (
            waiter is not None and not waiter.done
        )

    def stop_waiting(self) -> bool:
        """End the wait; return whether there was one."""
        waiter = self.waiter
        if waiter is None or waiter.done:
            return False
        self._talk.broker.give_up(waiter)
        return True

    def pause(self, name: bytes, due_ms: int) -> None:
        """Continue at `due_ms`."""
        self.waiter = self._talk.broker.wait(
            Want.OBSERVE, name, self._holder, False, self._talk, due_ms, _NO_MARKER
        )

    def observe(
        self, target: Target, numbered: bool, end: bytes, to: Replies | JointReply
    ) -> Iterator[bytes]:
        """Answer one key. While it has to wait it yields nothing; the caller resumes it."""
        talk, view = self._talk, target.view
        assert view is not None
        counters = talk.broker.counters
        counters.cmd_peek += 1
        due_ms = talk.last_command_ms + target.wait_ms
        shape = Shape(target.raw, numbered, target.full)
        after, since_ms = view.after, view.since_ms
        while True:
            queue = talk.broker.queues.get(target.name)
            queue = queue or mention_child(talk, target, talk.last_command_ms)
            if queue is not None:
                if view.most > 1 and not talk.host.room.reserve(talk, ANSWER_BYTES_MAX):
                    while talk.wants_bytes:
                        yield b""
                if since_ms and not after:
                    after = (yield from self.search(queue, since_ms, shape)) - 1
                data = yield from self._look(queue, view, after, shape, end)
                if data:
                    counters.get_hits += 1
                    to.value_bytes += len(data)
                    to.say(data)
                    return
                log = queue.log
                if log.failure is not None and queue.last_number > log.item_stored:
                    to.hold(b"failed", log, log.lsn_appended + 1)  # becomes the error
                    return
                if queue.deleted:
                    break
                after = max(after, queue.last_number)  # there is nothing up to here
            is_alias = target.name in talk.broker.aliases
            if self.at_end or is_alias or talk.last_command_ms >= due_ms:
                break
            talk.host.room.release(talk)
            self.waiter = talk.broker.wait(
                Want.OBSERVE, target.name, self._holder, False, talk, due_ms, after
            )
            yield b""
            if self.waiter.owner is None:
                break  # the time is over
        counters.get_misses += 1
        to.say(end)

    def find(self, queue: Queue, id_: int) -> Generator[bytes, None, Put | None]:
        """Return the put of this item; None if it is gone or cannot be read.

        While it has to wait it yields nothing, like `observe`.
        """
        log, browse = queue.log, Browse(queue)
        item, disk = browse.item(id_), on_disk(log)
        if item is not None or disk is None:
            return item.put if item is not None else None
        place, lost = None, 0
        while lost < READINGS_MAX:
            job = RangeScan.of(disk.journal, place, id_, id_, browse.ids, 1, ANSWER_BYTES_MAX)
            if job is None or queue.deleted:
                break
            reading = yield from self._run(disk, BrowseRead(job, Shape(b"", False, False)))
            if disk.journal.segment_numbered(job.extent.number) is None:
                place, lost = None, lost + 1  # the segment was rewritten meanwhile
                continue
            found = reading.found
            if found is None or found.puts or found.seen >= id_:
                return found.puts[0] if found is not None and found.puts else None
            place = found.place  # before it stand more confirms than one read passes over
        return None

    def item(self, queue: Queue, id_: int) -> Generator[bytes, None, Item | None]:
        """Return an item that only the log has, with all of its put; None if it cannot be read.

        While it has to wait it yields nothing, like `observe`.
        """
        log = on_disk(queue.log)
        if log is None:
            return None
        for _ in range(READINGS_MAX):
            one = log.store.one(id_)
            if one is None or queue.deleted:
                break
            reading = yield from self._run(log, BrowseRead(one, Shape(b"", False, False)))
            if reading.record is not None:
                return item_of(reading.record)
            if log.journal.segment_numbered(one.number) is not None:
                break
        return None

    def _look(
        self, queue: Queue, view: View, after: int, shape: Shape, end: bytes
    ) -> Generator[bytes, None, bytes]:
        """Return the retained items after the marker, formatted; empty if there are none."""
        talk, browse = self._talk, Browse(queue)
        answer = Answer(view.most, view.since_ms)
        while not queue.deleted:
            browse.ids = queue.readable
            log, first = queue.log, browse.first(after)
            is_stored = first <= log.item_stored or log.lsn_stored >= log.lsn_appended
            if first and is_stored and not answer.is_full:
                after = yield from self._more(queue, browse, first, answer, shape)
                continue
            unix_ms = talk.last_command_ms + talk.broker.clock.offset_ms
            data, shown = answer.data(browse, shape, unix_ms, end)
            if data:
                browse.note_gap(view.after, shown)
                return data
            if answer.puts:  # all of them have gone meanwhile
                answer = Answer(view.most, answer.since_ms)
                yield b""
            elif first and log.failure is None:  # it is shown when it is stored
                talk.replies.hold(b"", log, log.lsn_appended)
                yield b""
            else:
                break
        return b""

    def _more(
        self, queue: Queue, browse: Browse, first: int, answer: Answer, shape: Shape
    ) -> Generator[bytes, None, int]:
        """Add the items from `first` on; return the marker up to which it looked."""
        log, wanted = queue.log, answer.most - len(answer.puts)
        if answer.most == 1 and not answer.since_ms:
            item = browse.item(browse.id_of(first))
            if item is not None:
                puts = [item.put]
                answer.add(puts, shape.lines(puts))
                return first
        if (disk := on_disk(log)) is not None:
            if (pairs := browse.released(first, log.item_stored, min(wanted, DISPLACED_MAX))):
                return (yield from self._read_displaced(disk, pairs, answer, shape))
            return (yield from self._read(queue, browse, disk, first, answer, shape))
        most = min(wanted, SLICE_ITEMS)
        items, last = browse.range_scan(first - 1, most, answer.room, answer.since_ms)
        puts = [item.put for item in items]
        if not puts or most < wanted:
            yield b""  # a long stretch or a long reply: other connections have their turn
        return last if answer.add(puts, shape.lines(puts)) else first - 1

    # -- reading ----------------------------------------------------------------------------

    def _read(
        self, queue: Queue, browse: Browse, log: JournalLog, first: int, answer: Answer,
        shape: Shape,
    ) -> Generator[bytes, None, int]:
        """Add the log's items from `first` on; return the marker up to which it looked.

        It passes over damaged items: the ready list meets them as well and reports them.
        """
        journal, places = log.journal, self._positions
        key = (queue.name, queue.generation)
        reader, last = queue.reader, log.item_stored
        other = reader.markers.first_from(first)
        if other:
            last = min(last, other - 1)
        job = RangeScan.of(
            journal, places.get(key), first, last, browse.ids, answer.most - len(answer.puts),
            answer.room, answer.since_ms, reader.markers.hidden,
        )  # fmt: skip
        if job is None:
            return max(last, first)
        reading = yield from self._run(log, BrowseRead(job, shape))
        answer.readings += 1
        if journal.segment_numbered(job.extent.number) is None:
            return first - 1  # rewritten or removed meanwhile: look again
        found = reading.found
        if found is None:
            return job.last  # the disk cannot read it
        if not answer.add(found.puts, reading.lines):
            return first - 1
        if key not in places and len(places) >= _PLACES_MAX:
            places.clear()
        places[key] = found.place
        return found.seen

    def _read_displaced(
        self, log: JournalLog, pairs: list[tuple[int, int]], answer: Answer, shape: Shape
    ) -> Generator[bytes, None, int]:
        """Add items whose markers differ from their ids; return the marker up to which it
        looked."""
        some = log.store.some([id_ for _, id_ in pairs])
        job = DisplacedRead(some, pairs, answer.room, answer.since_ms)
        reading = yield from self._run(log, BrowseRead(job, shape))
        answer.readings += 1
        if any(log.journal.segment_numbered(e.number) is None for e, _ in some.parts):
            return pairs[0][0] - 1  # rewritten or removed meanwhile: look again
        return job.seen if answer.add(reading.displaced, reading.lines) else pairs[0][0] - 1

    def search(
        self, queue: Queue, since_ms: int, shape: Shape
    ) -> Generator[bytes, None, int]:
        """Return the marker of the first item stored at this time or later."""
        log = on_disk(queue.log)
        if log is None:
            return Browse(queue).since(since_ms)
        for _ in range(_SEARCHES_MAX):
            job = TimeSearch.of(log.journal, since_ms)
            reading = yield from self._run(log, BrowseRead(job, shape))
            numbers = [extent.number for extent, _ in job.extents]
            if reading.error is None and all(map(log.journal.segment_numbered, numbers)):
                return reading.begin
        return 1

    def find_begin(self, queue: Queue, since_ms: int) -> Generator[bytes, None, int]:
        """Return the marker of the first needed item stored at that time or later; if there is
        none, the marker after the last stored one."""
        shape, answer, browse = Shape(b"", False, False), Answer(1, since_ms), Browse(queue)
        marker = yield from self.search(queue, since_ms, shape)
        while not queue.deleted and on_disk(queue.log) is not None:
            browse.ids = ChildStart(queue).offered()
            first = browse.first(marker - 1)
            if not 0 < first <= queue.log.item_stored:
                return first or marker
            marker = 1 + (yield from self._more(queue, browse, first, answer, shape))
            if answer.puts:
                return answer.puts[0][1]
        return marker

    def _run(self, log: Log, reading: BrowseRead) -> Generator[bytes, None, BrowseRead]:
        """Run the read; raise ServerError after a shortage: it does not tell which items exist."""
        self._read_job = reading
        self._talk.host.start_read(log, reading, self._talk)
        yield b""
        self._read_job = None
        assert reading.is_over, "a read without an end"
        error = reading.error
        if error is not None and is_shortage(error):
            raise Unread(f"the queue's files cannot be read now ({error.strerror}); try again")
        return reading
