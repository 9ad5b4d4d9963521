"""Reading by marker without consuming: what one observer asks, waits for and is told.

    look ──▶ in memory ────────────────────────┐
      ▲ └──▶ read from the log, on a thread ───┴──▶ what is still kept of it ──▶ answer
      └── nothing yet, and time left: wait for what arrives

Everything shown is stored: what is not yet is waited for first. An answer may hold fewer items than
were asked for; only one without any says that nothing is behind the marker.

One rule: it changes nothing and delays nobody. It has no place among the consumers, its reading has
threads of its own, and it keeps no bytes between two requests.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from itertools import compress
from operator import itemgetter
from typing import Final

from journal.files import Files, is_shortage
from journal.format import Record
from journal.store import Place, Put, RangeScan, ReadOne, Scanned, TimeSearch
from kestrelpy.core.index.leases import Holder
from kestrelpy.core.index.waiters import Waiter, Want
from kestrelpy.core.item import Item
from kestrelpy.core.log.log import JournalLog, Log
from kestrelpy.core.log.shared_log import on_disk
from kestrelpy.core.queue.browse import READY, Kept
from kestrelpy.core.queue.queue import Queue
from kestrelpy.core.registry.lifecycle import offered
from kestrelpy.core.subscription.ready_line import item_of
from kestrelpy.errors import Unread
from kestrelpy.protocol.parse.commands import Target
from kestrelpy.protocol.parse.options import View
from kestrelpy.protocol.ports import Talk
from kestrelpy.protocol.replies import Replies, Together
from kestrelpy.protocol.verbs.browse_displaced import RELEASED_MAX, Released
from kestrelpy.protocol.verbs.children import mentioned
from kestrelpy.protocol.verbs.value_line import Shape, standing

ANSWER_BYTES_MAX: Final = 4 << 20
# After so many pieces of the log an answer is given what was found by then.
READINGS_MAX: Final = 16
# Of a queue in memory so many items are looked at in one turn: a few milliseconds.
SLICE_ITEMS: Final = 2500
# A connection remembers where it was in so many queues.
_PLACES_MAX: Final = 16
_SEARCHES_MAX: Final = 3
_NO_MARKER: Final = 1 << 63  # nothing is ever behind it
_expires, _body = itemgetter(4), itemgetter(5)  # of a put
_PLAIN: Final = standing(READY, 0)


class Reading:
    """One piece of reading for an observer; `run` blocks and belongs on a thread.

    When it `is_over`, there is what was `found`, or where to `begin`, or an `error`; of one put the
    `record`, if it can be read.
    """

    __slots__ = (
        "begin", "error", "found", "is_over", "lines", "order", "record", "released", "shape",
    )  # fmt: skip

    def __init__(self, order: RangeScan | TimeSearch | Released | ReadOne, shape: Shape) -> None:
        self.order = order
        self.shape = shape
        self.found: Scanned | None = None
        self.released: list[Put] = []
        self.lines: list[bytes] = []
        self.begin = 0
        self.record: Record | None = None
        self.error: OSError | None = None
        self.is_over = False

    def run(self, files: Files) -> None:
        """Read, check, and prepare what is said; an error is kept. It may be done again."""
        self.error = None
        try:
            if isinstance(self.order, TimeSearch):
                self.begin = self.order.run(files)
            elif isinstance(self.order, ReadOne):
                self.record = self.order.run(files)
            elif isinstance(self.order, Released):
                self.released = self.order.run(files)
                self.lines = self.shape.lines(self.released)
            else:
                found = self.order.run(files)
                self.lines = self.shape.lines(found.puts)
                self.found = found
        except OSError as error:
            self.error = error


class Answer:
    """The items of one answer, in order, as they were found; at most `most`."""

    __slots__ = ("_is_closed", "lines", "most", "puts", "readings", "room", "since_ms")

    def __init__(self, most: int, since_ms: int) -> None:
        self.most = most
        self.since_ms = since_ms  # nothing stored before that comes first
        self.room = ANSWER_BYTES_MAX
        self.puts: list[Put] = []
        self.lines: list[bytes] = []
        self.readings = 0
        self._is_closed = False

    @property
    def is_full(self) -> bool:
        """Is it to be given as it is?"""
        return self._is_closed or bool(
            self.puts
            and (len(self.puts) >= self.most or self.room <= 0 or self.readings >= READINGS_MAX)
        )

    def add(self, puts: list[Put], lines: list[bytes]) -> bool:
        """More of them; False: there is no room for the first."""
        if puts and self.puts and len(puts[0][5]) > self.room:
            self._is_closed = True
            return False
        if puts:
            self.since_ms = 0
        self.puts += puts
        self.lines += lines
        self.room -= sum(map(len, map(_body, puts)))
        return True

    def data(self, kept: Kept, shape: Shape, wall_ms: int, end: bytes) -> tuple[bytes, int]:
        """What is still kept of it, as it is said, and the first marker; 0: nothing is."""
        puts, lines = self.puts, self.lines
        if not puts:
            return b"", 0
        is_whole = kept.are_all(len(puts), puts[0][0], puts[-1][0])
        if not is_whole or any(map(_expires, puts)):
            there = [
                kept.has(put[0]) and not kept.has_expired(put[0], put[4], wall_ms) for put in puts
            ]
            puts, lines = list(compress(puts, there)), list(compress(lines, there))
        if not puts:
            return b"", 0
        if shape.full:
            is_plain = kept.is_plain and not any(put[6] or put[7] for put in puts)
            lines = [
                b"%b%b\r\n%b\r\n" % (
                    line, _PLAIN if is_plain else standing(*kept.state(put[0]), put[6], put[7]),
                    put[5],
                )
                for line, put in zip(lines, puts, strict=True)
            ]  # fmt: skip
        return b"".join((*lines, end)), puts[0][1]


class Observing:
    """The observer of one conversation."""

    __slots__ = ("_holder", "_places", "_reading", "_talk", "at_end", "waiter")

    def __init__(self, talk: Talk, holder: Holder, at_end: bool) -> None:
        self._talk = talk
        self._holder = holder
        self._places: dict[tuple[bytes, int], Place] = {}
        self._reading: Reading | None = None
        self.waiter: Waiter | None = None
        self.at_end = at_end  # the client says no more: it does not wait any more either

    @property
    def is_held_up(self) -> bool:
        """Does it wait for the disk, or for something to arrive?"""
        reading, waiter = self._reading, self.waiter
        return (reading is not None and not reading.is_over) or (
            waiter is not None and not waiter.done
        )

    def stop_waiting(self) -> bool:
        """It does not wait any more; did it?"""
        waiter = self.waiter
        if waiter is None or waiter.done:
            return False
        self._talk.broker.give_up(waiter)
        return True

    def pause(self, name: bytes, due_ms: int) -> None:
        """Go on at `due_ms`."""
        self.waiter = self._talk.broker.wait(
            Want.OBSERVE, name, self._holder, False, self._talk, due_ms, _NO_MARKER
        )

    def observe(
        self, target: Target, numbered: bool, end: bytes, to: Replies | Together
    ) -> Iterator[bytes]:
        """Answer one key. Where it is held up it yields nothing, and is gone on with later."""
        talk, view = self._talk, target.view
        assert view is not None
        counters = talk.broker.counters
        counters.cmd_peek += 1
        due_ms = talk.last_command_ms + target.wait_ms
        shape = Shape(target.raw, numbered, target.full)
        after, since_ms = view.after, view.since_ms
        while True:
            queue = talk.broker.queues.get(target.name)
            queue = queue or mentioned(talk, target, talk.last_command_ms)
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
                    to.hold(b"failed", log, log.lsn_appended + 1)  # that becomes the error
                    return
                if queue.deleted:
                    break
                after = max(after, queue.last_number)  # up to here there is nothing
            is_alias = target.name in talk.broker.aliases
            if self.at_end or is_alias or talk.last_command_ms >= due_ms:
                break
            talk.host.room.release(talk)
            self.waiter = talk.broker.wait(
                Want.OBSERVE, target.name, self._holder, False, talk, due_ms, after
            )
            yield b""
            if self.waiter.owner is None:
                break  # not in time
        counters.get_misses += 1
        to.say(end)

    def find(self, queue: Queue, id_: int) -> Generator[bytes, None, Put | None]:
        """What was put as this item; None: it is not there any more, or cannot be read.

        Held up, it yields nothing, like `observe`.
        """
        log, kept = queue.log, Kept(queue)
        item, disk = kept.item(id_), on_disk(log)
        if item is not None or disk is None:
            return item.put if item is not None else None
        place, lost = None, 0
        while lost < READINGS_MAX:
            order = RangeScan.of(disk.journal, place, id_, id_, kept.ids, 1, ANSWER_BYTES_MAX)
            if order is None or queue.deleted:
                break
            reading = yield from self._run(disk, Reading(order, Shape(b"", False, False)))
            if disk.journal.segment_numbered(order.extent.number) is None:
                place, lost = None, lost + 1  # it was rewritten meanwhile
                continue
            found = reading.found
            if found is None or found.puts or found.seen >= id_:
                return found.puts[0] if found is not None and found.puts else None
            place = found.place  # more confirms stand before it than one order passes over
        return None

    def item(self, queue: Queue, id_: int) -> Generator[bytes, None, Item | None]:
        """The item that only the log has, with all that was put; None: it cannot be read.

        Held up, it yields nothing, like `observe`.
        """
        log = on_disk(queue.log)
        if log is None:
            return None
        for _ in range(READINGS_MAX):
            one = log.store.one(id_)
            if one is None or queue.deleted:
                break
            reading = yield from self._run(log, Reading(one, Shape(b"", False, False)))
            if reading.record is not None:
                return item_of(reading.record)
            if log.journal.segment_numbered(one.number) is not None:
                break
        return None

    def _look(
        self, queue: Queue, view: View, after: int, shape: Shape, end: bytes
    ) -> Generator[bytes, None, bytes]:
        """What is kept behind the marker, as it is said; nothing: nothing is."""
        talk, kept = self._talk, Kept(queue)
        answer = Answer(view.most, view.since_ms)
        while not queue.deleted:
            kept.ids = queue.kept
            log, first = queue.log, kept.first(after)
            is_stored = first <= log.item_stored or log.lsn_stored >= log.lsn_appended
            if first and is_stored and not answer.is_full:
                after = yield from self._more(queue, kept, first, answer, shape)
                continue
            wall_ms = talk.last_command_ms + talk.broker.wall.offset_ms
            data, shown = answer.data(kept, shape, wall_ms, end)
            if data:
                kept.note_gap(view.after, shown)
                return data
            if answer.puts:  # all of it has gone meanwhile
                answer = Answer(view.most, answer.since_ms)
                yield b""
            elif first and log.failure is None:  # it is shown when it is stored
                talk.replies.hold(b"", log, log.lsn_appended)
                yield b""
            else:
                break
        return b""

    def _more(
        self, queue: Queue, kept: Kept, first: int, answer: Answer, shape: Shape
    ) -> Generator[bytes, None, int]:
        """Add what there is from `first` on; returns up to where was looked."""
        log, wanted = queue.log, answer.most - len(answer.puts)
        if answer.most == 1 and not answer.since_ms:
            item = kept.item(kept.id_of(first))
            if item is not None:
                puts = [item.put]
                answer.add(puts, shape.lines(puts))
                return first
        if (disk := on_disk(log)) is not None:
            if (pairs := kept.released(first, log.item_stored, min(wanted, RELEASED_MAX))):
                return (yield from self._read_released(disk, pairs, answer, shape))
            return (yield from self._read(queue, kept, disk, first, answer, shape))
        most = min(wanted, SLICE_ITEMS)
        items, last = kept.gather(first - 1, most, answer.room, answer.since_ms)
        puts = [item.put for item in items]
        if not puts or most < wanted:
            yield b""  # a long stretch, or a long answer: others have their turn
        return last if answer.add(puts, shape.lines(puts)) else first - 1

    # -- reading ----------------------------------------------------------------------------

    def _read(
        self, queue: Queue, kept: Kept, log: JournalLog, first: int, answer: Answer, shape: Shape
    ) -> Generator[bytes, None, int]:
        """Add what the log has from `first` on; returns up to where was looked.

        What is damaged is passed over: the ready line meets it too, and names it.
        """
        journal, places = log.journal, self._places
        key = (queue.name, queue.generation)
        reader, last = queue.reader, log.item_stored
        other = reader.marks.first_from(first)
        if other:
            last = min(last, other - 1)
        order = RangeScan.of(
            journal, places.get(key), first, last, kept.ids, answer.most - len(answer.puts),
            answer.room, answer.since_ms, reader.marks.hidden,
        )  # fmt: skip
        if order is None:
            return max(last, first)
        reading = yield from self._run(log, Reading(order, shape))
        answer.readings += 1
        if journal.segment_numbered(order.extent.number) is None:
            return first - 1  # rewritten or removed meanwhile: look again
        found = reading.found
        if found is None:
            return order.last  # the disk does not give it
        if not answer.add(found.puts, reading.lines):
            return first - 1
        if key not in places and len(places) >= _PLACES_MAX:
            places.clear()
        places[key] = found.place
        return found.seen

    def _read_released(
        self, log: JournalLog, pairs: list[tuple[int, int]], answer: Answer, shape: Shape
    ) -> Generator[bytes, None, int]:
        """Add items whose markers are no ids; returns up to which marker was looked."""
        some = log.store.some([id_ for _, id_ in pairs])
        order = Released(some, pairs, answer.room, answer.since_ms)
        reading = yield from self._run(log, Reading(order, shape))
        answer.readings += 1
        if any(log.journal.segment_numbered(e.number) is None for e, _ in some.parts):
            return pairs[0][0] - 1  # rewritten or removed meanwhile: look again
        return order.seen if answer.add(reading.released, reading.lines) else pairs[0][0] - 1

    def search(
        self, queue: Queue, since_ms: int, shape: Shape
    ) -> Generator[bytes, None, int]:
        """The marker to begin at for what was stored at this time or later."""
        log = on_disk(queue.log)
        if log is None:
            return Kept(queue).since(since_ms)
        for _ in range(_SEARCHES_MAX):
            order = TimeSearch.of(log.journal, since_ms)
            reading = yield from self._run(log, Reading(order, shape))
            numbers = [extent.number for extent, _ in order.extents]
            if reading.error is None and all(map(log.journal.segment_numbered, numbers)):
                return reading.begin
        return 1

    def find_begin(self, queue: Queue, since_ms: int) -> Generator[bytes, None, int]:
        """The marker of the first item that anybody needs and that was stored then or later; where
        there is none, behind all that was stored."""
        shape, answer, kept = Shape(b"", False, False), Answer(1, since_ms), Kept(queue)
        marker = yield from self.search(queue, since_ms, shape)
        while not queue.deleted and on_disk(queue.log) is not None:
            kept.ids = offered(queue)
            first = kept.first(marker - 1)
            if not 0 < first <= queue.log.item_stored:
                return first or marker
            marker = 1 + (yield from self._more(queue, kept, first, answer, shape))
            if answer.puts:
                return answer.puts[0][1]
        return marker

    def _run(self, log: Log, reading: Reading) -> Generator[bytes, None, Reading]:
        """Have it read; raises ServerError after a shortage: what is there nobody knows then."""
        self._reading = reading
        self._talk.host.observe(log, reading, self._talk)
        yield b""
        self._reading = None
        assert reading.is_over, "a reading that came to no end"
        error = reading.error
        if error is not None and is_shortage(error):
            raise Unread(f"the queue's files cannot be read now ({error.strerror}); try again")
        return reading
