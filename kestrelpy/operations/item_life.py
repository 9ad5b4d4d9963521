"""The life of one item: its events, from memory at once, and from the journal in parts.

    memory    stored, came from ..., due, leased, dead                    what is known of it now
    journal   stored ─▶ leased, returned ... ─▶ confirmed │ dead │ moved  what its records say
              └── a part for each call: 8 MiB of the log, read on a thread, and a place to go on

The journal writes down a delivery by connection when it ends: its event has `began_ms`. Leases by
token have an event of their own.

One rule: an event says what a record or the queue says, and `is_whole` is False where records of
the journal are gone.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Final, NamedTuple

from journal.errors import NewerFormat
from journal.files import Files, is_shortage
from journal.format import (
    COUNTED,
    ENDS_DELIVERY,
    PUTS,
    TABLE,
    Kind,
    Meta,
    Record,
    Tag,
    decode_meta,
    number_in,
)
from journal.store import HistoryPart, ItemHistory
from kestrelpy.core import AnyQueue, Browse, JournalLog, Lease, on_disk
from kestrelpy.errors import Unread
from kestrelpy.operations.ports import PAUSE, Client, ItemReader

_WORDS: Final[dict[int, str]] = {kind: row.event for kind, row in TABLE.items() if row.event}


@dataclass(frozen=True, slots=True)
class LifeEvent:
    """One event; times are on the wall clock, None: not known. `who` is a holder or a client.

    `began_ms`: the begin of the delivery that this event ended, or that it is.
    """

    at_ms: int | None
    what: str
    who: str | None = None
    note: str | None = None
    began_ms: int | None = None


class LifePart(NamedTuple):
    """The events in one part of the journal. `next` is where to go on; None: the log ends here.

    `is_whole`: no record of this part, or between it and the part before, is gone.
    """

    events: list[LifeEvent]
    is_whole: bool
    looked_bytes: int
    left_bytes: int
    next: tuple[int, int] | None


class LostPlace(Exception):
    """The journal has no such place any more: it was rewritten."""


class _Read:
    """One stretch of a log, read on a thread."""

    __slots__ = ("error", "history", "is_over", "part")

    def __init__(self, history: ItemHistory) -> None:
        self.history = history
        self.part: HistoryPart | None = None
        self.error: OSError | None = None
        self.is_over = False

    def run(self, files: Files) -> None:
        """Read; store an error. It may be called again."""
        self.error = None
        try:
            self.part = self.history.run(files)
        except OSError as error:
            self.error = error


class ItemLife:
    """The life of one item of a queue, for one client."""

    __slots__ = ("_client", "_id", "_queue", "_reader")

    def __init__(self, queue: AnyQueue, id_: int, client: Client, reader: ItemReader) -> None:
        self._queue = queue
        self._id = id_
        self._client = client
        self._reader = reader

    # -- from memory ------------------------------------------------------------------------

    def known(self) -> Generator[bytes, None, list[LifeEvent]]:
        """Return what is known of the item now, in the order of time."""
        queue, id_ = self._queue, self._id
        if not Browse(queue).has(id_):
            return []
        put = yield from self._reader.find(queue, id_)
        item = (yield from self._reader.item(queue, id_)) if put is not None else None
        reader, events = queue.reader, list[LifeEvent]()
        if put is not None:
            id_of_put = _text(put.dedupe_id, "id ")
            events.append(LifeEvent(put.stored_ms, "stored", _text(put.client), id_of_put))
        if item is not None and item.origin is not None:
            events.append(LifeEvent(None, "came from", None, _text(item.origin.name)))
        if id_ in reader.delays:
            due_ms, _ = reader.delays.find(id_, queue.clock)
            events.append(LifeEvent(due_ms, "due"))
        if (lease := reader.leases.of(id_)) is not None:
            events.append(self._leased(lease))
        if (death := reader.dead.deaths.get(id_)) is not None:
            note = f"attempts: {death.attempts}"
            events.append(LifeEvent(death.died_ms, "dead", _text(death.reason), note))
        return sorted(events, key=lambda each: each.at_ms or 0)

    def _leased(self, lease: Lease) -> LifeEvent:
        until = "until it hangs up"
        if lease.deadline_ms is not None:
            until = f"until {lease.deadline_ms + self._queue.clock.offset_ms}"
        note = f"delivery {lease.attempts + 1}, {until}"
        return LifeEvent(lease.began_ms, "leased", lease.holder.name, note, lease.began_ms)

    # -- from the journal -------------------------------------------------------------------

    def part(self, place: tuple[int, int] | None) -> Generator[bytes, None, LifePart]:
        """Return the events in the journal from this place on; None: from the put. Raise LostPlace,
        Refused."""
        log = on_disk(self._queue.log)
        history = ItemHistory.of(log.journal, self._id, place) if log is not None else None
        if log is None or history is None:
            if place is not None:
                raise LostPlace
            return LifePart([], False, 0, 0, None)
        part = yield from self._read_part(log, history)
        next_ = history.next_place(log.journal, part)
        left = max(history.extent.stop - part.end, 0) + history.bytes_behind
        events = [event for record in part.records for event in self._events(record)]
        is_whole = not history.is_after_gap
        if place is None and not any(record.kind in PUTS for record in part.records):
            # It is further on in this segment, or damaged.
            is_whole = is_whole and next_ is not None and next_[0] == history.extent.number
        return LifePart(events, is_whole, part.bytes_looked, left if next_ else 0, next_)

    def _read_part(
        self, log: JournalLog, history: ItemHistory
    ) -> Generator[bytes, None, HistoryPart]:
        read = _Read(history)
        self._client.start_read(log, read)
        yield PAUSE
        assert read.is_over, "a read without an end"
        if log.journal.segment_numbered(history.extent.number) is None:
            raise LostPlace  # rewritten or removed meanwhile
        if read.part is None:
            error = read.error
            if error is not None and is_shortage(error):
                raise Unread(f"the queue's files cannot be read now ({error.strerror}); try again")
            return HistoryPart([], history.extent.stop, 0)  # the disk does not give it
        return read.part

    def _events(self, record: Record) -> list[LifeEvent]:
        """Return the events that a record says; none if it is about another subscription."""
        if record.reader != self._queue.reader.number and record.kind not in PUTS:
            return []
        what = _WORDS.get(record.kind)
        if what is None:
            return []
        try:
            meta = decode_meta(record.meta)
        except (NewerFormat, ValueError):
            meta = {}
        began_ms = record.number if record.kind in ENDS_DELIVERY and record.number else None
        if record.kind == Kind.LEASED:
            began_ms = record.time_ms
        who, at_ms = None, record.time_ms
        if record.kind in PUTS:
            who = _text(meta.get(Tag.CLIENT))
            at_ms = number_in(meta, Tag.STORED_MS) or at_ms
        events = [LifeEvent(at_ms, what, who, _note(record, meta), began_ms)]
        if record.kind in PUTS and (origin := _text(meta.get(Tag.ORIGIN))) is not None:
            events.append(LifeEvent(record.time_ms, "came from", None, origin))
        return events


def _note(record: Record, meta: Meta) -> str | None:
    """Return what else a record says of the item."""
    words, kind = list[str](), record.kind
    if kind == Kind.LEASED:
        words.append(f"delivery {record.small}, token {record.number}")
    elif kind == Kind.MOVING:
        words.append(f"to {_text(meta.get(Tag.TARGET))}")
    elif kind == Kind.RENEWED:
        words.append(f"token {record.number}")
    elif kind in COUNTED:
        words.append(f"attempts: {record.small}")
    elif kind == Kind.UPTO:
        words.append(f"marker {record.number}")
    elif kind == Kind.FLUSHED:
        words.append(f"ready and delayed items up to {record.item}")
    if kind in PUTS and (id_ := _text(meta.get(Tag.ID), "id ")) is not None:
        words.append(id_)
    if (reason := _text(meta.get(Tag.REASON))) is not None:
        words.append(reason)
    if (target := _text(meta.get(Tag.TARGET), "to ")) is not None:
        words.append(target)
    if due_ms := number_in(meta, Tag.DUE_MS):
        words.append(f"due {due_ms}")
    if deadline_ms := number_in(meta, Tag.DEADLINE_MS):
        words.append(f"until {deadline_ms}")
    return ", ".join(words) or None


def _text(value: bytes | int | None, head: str = "") -> str | None:
    """Return a client's bytes as text; None: there are none."""
    if not isinstance(value, bytes) or not value:
        return None
    return head + value.decode("utf-8", "backslashreplace")
