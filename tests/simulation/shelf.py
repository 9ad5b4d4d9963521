"""The items that a queue retains, done or not, as the clients can know them.

    put ─▶ STORED or shown: it is there, under one marker for good ─┬─▶ its `retain` is over: may go
                                                                    ├─▶ expired: may go
                                                                    └─▶ the queue is deleted: gone

An answer to an observer shows the items after a marker, up to the last one in it: no item that must
be there may be missing from that stretch. A `Pass` reads a queue from its first item to its last,
over several answers, connections and lives of the server: at its end it has seen every item that
was stored when it began and must still be there.

One rule: a queue may retain an item longer than it must, and never shorter.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from tests.simulation.books import EARLY_US, NEVER, Book, Thing
from tests.simulation.requests import Reply, Request

# For retention by size: the bytes of the log that a request may take beside its body, and how often
# a body may be in the log. Generous, since the promise is a size and not a layout of records.
_REQUEST_BYTES: Final = 512
_BODY_TIMES: Final = 4
_LIFE_BYTES: Final = 65536
_SURELY_LIVE: Final = ("ready", "delayed")


@dataclass(eq=False)
class Browse:
    """One item in the view of one queue. Times are microseconds of the run."""

    thing: Thing
    put_us: int  # it was not stored before
    spent: int  # the most bytes of the log that were used until then
    is_late: bool = False  # it was delayed: it has no marker before it is due, and perhaps never
    marker: int = 0
    known_us: int = NEVER  # its marker is known since then: it was shown
    is_here: bool = False  # it was seen here, though it was not put here
    is_void: bool = False  # it may be lost: a power cut without syncs, or it was cancelled
    erased_us: int = NEVER  # its queue was certainly deleted by then

    @property
    def stored_us(self) -> int:
        """Since when the item is certainly readable; 0: not known."""
        return self.known_us if self.is_here else self.thing.stored_us


@dataclass(eq=False)
class Pass:
    """One observer on its way from the beginning of a queue to its end."""

    queue: str
    began_us: int
    after: int = 0
    seen: set[int] = field(default_factory=set)
    is_void: bool = False  # the queue's journal failed meanwhile


class Shelf:
    """The readable items of one queue that retains."""

    def __init__(self, book: Book) -> None:
        self.book = book
        self.readable: dict[int, Browse] = {}
        self.is_unsure = False  # a read failed: no item has to be shown
        self.may_have_gaps = False  # an item was cancelled or lost, or a client asked for a gap
        self.spent = 0

    # -- changes ----------------------------------------------------------------------------

    def put(self, thing: Thing) -> None:
        """Note that a set of this item has arrived."""
        is_delayed = thing.delay_ms > 0
        self.readable[thing.number] = Browse(thing, thing.arrived_us, self.spent, is_delayed)

    def spend(self, request: Request) -> None:
        """Note the bytes of the log that a request, for any queue, may take."""
        body = len(request.item.body) if request.item is not None else len(request.body)
        self.spent += _REQUEST_BYTES + _BODY_TIMES * body

    def cancel(self, things: list[Thing]) -> None:
        """Note that one of these may be cancelled."""
        self.may_have_gaps = True
        for thing in things:
            if thing.number in self.readable:
                self.readable[thing.number].is_void = True

    def erase(self, before_us: int, now_us: int) -> None:
        """Note that the queue was deleted: the items stored before then are gone."""
        for each in self.readable.values():
            if 0 < each.stored_us < before_us and each.erased_us == NEVER:
                each.erased_us = now_us

    def end_life(self, forgets: bool) -> None:
        """Note that the server ended; `forgets`: answered requests may not be on disk."""
        self.spent += _LIFE_BYTES
        if forgets:
            self.may_have_gaps = True
            for each in self.readable.values():
                each.is_void = True
                each.marker, each.known_us = 0, NEVER

    # -- items that must be readable --------------------------------------------------------

    def is_over(self, each: Browse, us: int) -> bool:
        """True if its retention may be over, by time, size or expiry."""
        rules = self.book.rules
        if rules.retain_bytes:
            return self.spent - each.spent + _LIFE_BYTES > rules.retain_bytes
        return us >= each.put_us + rules.retain_us - EARLY_US

    def _must_be_there(self, each: Browse, since_us: int, us: int) -> bool:
        """True if it must have been readable, with a marker, from `since_us` until now."""
        thing, book = each.thing, self.book
        if not 0 < each.stored_us < since_us or each.is_void or self.is_unsure:
            return False
        if each.put_us <= book.deleted_us or any(r.verb == "delete" for r in book.wipes):
            return False
        if (each.is_late or (book.rules.discards and thing.doubt)) and each.known_us >= since_us:
            return False
        return not (thing.may_be_expired(us) or self.is_over(each, us) or book.may_fail)

    def due(self, since_us: int, us: int) -> Iterator[Browse]:
        """Yield the items that must have been readable all the time."""
        return (each for each in self.readable.values() if self._must_be_there(each, since_us, us))

    # -- answers ----------------------------------------------------------------------------

    def shown(self, request: Request, reply: Reply, thing: Thing) -> Iterator[str]:
        """Yield the mistakes of an answer of this queue that shows the item."""
        now_us = request.left_us
        each = self.readable.get(thing.number)
        if each is None:  # it came from another queue
            each = Browse(thing, thing.arrived_us, 0, is_here=True)
            self.readable[thing.number] = each
        if request.arrived_us > each.erased_us:
            yield f"{request} shows {thing}, which was deleted at {each.erased_us / 1000}"
        is_new = each.known_us == NEVER and request.arrived_us > self.book.deleted_us
        if is_new and not any(wipe.verb == "delete" for wipe in self.book.wipes):
            each.known_us = now_us
        if request.after >= 0:
            yield from self._observed(request, reply, each)

    def _observed(self, request: Request, reply: Reply, each: Browse) -> Iterator[str]:
        thing = each.thing
        if request.arrived_us > self.book.deleted_us and each.known_us < NEVER:
            if each.marker not in (0, reply.number):
                yield f"{request}: {thing} has marker {reply.number}, and had {each.marker}"
            each.marker = reply.number
        if request.reading is not None:
            request.reading.seen.add(thing.number)
        is_done = thing.gone and not thing.may_return and thing.gone_us < request.arrived_us
        is_done = is_done and thing.queue == self.book.name and not self.book.may_fail
        if reply.state in _SURELY_LIVE and is_done:
            yield f"{request} shows {thing} as {reply.state}, but it is done"
        is_ready = thing in self.book.surely_ready(request.arrived_us, request.left_us)
        if reply.state == "done" and is_ready and not self.book.excuses(request):
            yield f"{request} shows {thing} as done, but it is ready"

    def answered(self, request: Request, reply: Reply) -> Iterator[str]:
        """Yield the items that are missing from the whole answer to an observer."""
        shown = [each.number for each in (reply, *reply.more)] if reply.word == "VALUE" else []
        if shown != sorted(set(shown)):
            yield f"{request} shows markers out of order: {shown}"
        last = shown[-1] if shown else NEVER
        reading = request.reading
        for each in self.due(request.arrived_us, request.left_us):
            if request.after < each.marker <= last and each.marker not in shown:
                yield f"{request} does not show {each.thing}, which has marker {each.marker}"
        if reading is None:
            return
        reading.is_void |= self.book.may_fail
        if shown or reading.is_void:
            return
        for each in self.due(reading.began_us, request.left_us):
            if each.thing.number not in reading.seen:
                yield f"{request} is at the end, and {each.thing} was never shown"

    def at(self, marker: int) -> Thing | None:
        """Return the item that is known to have this marker now."""
        after_us = self.book.deleted_us
        there = [each for each in self.readable.values() if each.put_us > after_us]
        return next((each.thing for each in there if each.marker == marker), None)

    # -- figures ----------------------------------------------------------------------------

    def counted(self, request: Request, reply: Reply) -> Iterator[str]:
        """Yield the mistakes of `stats` of the queue, or of all markers."""
        of = f"queue_{self.book.name}_"
        gaps = int(reply.stats.get(f"{of}gaps", 0))
        if gaps and self._is_whole(request.left_us):
            yield f"{request} counts {gaps} gaps, but nothing may have gone"
        earliest = int(reply.stats.get(f"{of}marker_earliest", 0))
        latest = int(reply.stats.get(f"{of}marker_latest", NEVER))
        for each in self.due(request.arrived_us, request.left_us):
            if each.marker and not earliest <= each.marker <= latest:
                yield (
                    f"{request} says markers are from {earliest} to {latest}, but {each.thing} "
                    f"has {each.marker}"
                )

    def _is_whole(self, us: int) -> bool:
        """True if every item that ever was here is still readable."""
        book = self.book
        return not (
            self.is_unsure or self.may_have_gaps or book.deleted_us or book.rules.discards
            or book.rules.moves or any(
                each.thing.may_be_expired(us) or self.is_over(each, us)
                for each in self.readable.values()
            )
        )  # fmt: skip
