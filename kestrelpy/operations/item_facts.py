"""One item by its number: where it is and why it is not delivered; and the facts of dead letters.

    item 7  ──▶ gone                          lent ──▶ the holder, the deadline
            ──▶ ready ──▶ paused, the number of items ahead, next
            ──▶ delayed ──▶ its time
            ──▶ dead ──▶ the reason          (an item that only the log has is read)

One rule: inspection changes nothing, and a long count is made in slices.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import Final, Literal, NamedTuple

from journal.format import DeadEntry, ItemTexts, in_words
from kestrelpy.core import (
    DELAYED,
    DONE,
    NO_KEY,
    AnyQueue,
    Browse,
    Item,
    Lease,
    Subscription,
    Where,
)
from kestrelpy.errors import ClientError
from kestrelpy.operations.names import quoted
from kestrelpy.operations.ports import PAUSE, ItemReader
from kestrelpy.operations.stats_facts import is_shown, left_ms

_COUNTED_PER_SLICE: Final = 20_000

_Bytes = bytes  # where a field of that name hides the type


class GoneFacts(NamedTuple):
    """An item that is not there any more."""

    id: int
    state: Literal["gone"]
    why: str


class ItemFacts(NamedTuple):
    """An item that is there. `why` is a sentence without its end; times are on the wall clock."""

    id: int
    marker: int | None
    state: str
    why: str
    attempts: int
    lease_left_ms: int | None
    token: int | None
    holder: str | None
    age_ms: int | None
    stored_ms: int | None
    expires_ms: int | None
    bytes: int | None
    key: str | None
    origin: _Bytes | None
    died_ms: int | None
    reason: _Bytes | None
    texts: ItemTexts


class DeathFacts(NamedTuple):
    """A dead letter. `died_ms` is on the wall clock."""

    attempts: int
    reason: _Bytes | None
    died_ms: int
    bytes: int
    state: Literal["dead", "lent"]


def check_assigned(queue: AnyQueue, id_: int) -> int:
    """Return the lsn that is to be stored before this item is shown; 0: it may be shown now.

    Raise ClientError if no item has this number yet.
    """
    log, latest = queue.log, queue.last_number
    if log.failure is not None:
        latest = min(latest, log.item_stored)  # an item not stored by now never will be
    if id_ > latest:
        name = queue.name.decode("ascii")
        raise ClientError(f"item {id_} of {name} is not assigned yet, the latest is {latest}")
    return log.lsn_appended if id_ > log.item_stored else 0


def _why_gone(queue: AnyQueue, id_: int) -> str:
    """Return why there is no item of this number, which may be a place that an item was given."""
    holder = Browse(queue).id_of(id_)
    if holder and holder != id_:
        return f"no item has this number: it is the marker of item {holder}"
    why = "confirmed, expired or removed"
    files = queue.files
    if files.total_items < files.last_number:
        why += "; or never an item: one that is released or redriven takes a number as well"
    return why


class Inspection:
    """The inspection of one item of a queue, by `mode` of the server."""

    __slots__ = ("_id", "_mode", "_queue", "_reader")

    def __init__(self, queue: AnyQueue, id_: int, mode: str, reader: ItemReader) -> None:
        self._queue = queue
        self._id = id_
        self._mode = mode
        self._reader = reader

    def read(self) -> Generator[bytes, None, tuple[Item | None, int]]:
        """Return the item without its body, and the number of ready items before it, for `facts`.
        """
        stored = yield from self._stored()
        ahead = yield from self._ahead()
        return stored, ahead

    def _stored(self) -> Generator[bytes, None, Item | None]:
        """Return the item from memory, or else from the log, without its body: counting goes on
        for long. None if it is gone or unreadable."""
        queue, id_ = self._queue, self._id
        readable = Browse(queue)
        if not readable.has(id_):
            return None
        lease = queue.reader.leases.of(id_)
        item = lease.item if lease is not None else readable.item(id_)
        if item is None or not item.stored_ms:
            item = yield from self._reader.item(queue, id_)
        return item.without_body() if item is not None else None

    def _ahead(self) -> Generator[bytes, None, int]:
        """Return the number of ready items before it."""
        reader, id_ = self._queue.reader, self._id
        count = reader.live.count_between(1, id_ - 1)
        leased = [lease.item.id for lease in reader.leases if not lease.dead]
        count -= reader.delays.ids.count_between(1, id_ - 1)
        for ids in (leased, list(reader.dead.deaths)):
            for some in _sliced(ids, _COUNTED_PER_SLICE):
                count -= sum(other < id_ for other in some)
                yield PAUSE
        return max(count, 0)  # others went during the count

    def facts(self, stored: Item | None, ahead: int, now_ms: int) -> ItemFacts | GoneFacts:
        """Return the facts of the item, given what `read` returned."""
        queue, id_, readable = self._queue, self._id, Browse(self._queue)
        reader, unix_ms = queue.reader, now_ms + queue.clock.offset_ms
        is_over = stored is not None and readable.has_expired(id_, stored.expires_ms, unix_ms)
        if not readable.has(id_) or is_over:
            return GoneFacts(id_, "gone", _why_gone(queue, id_))
        state, attempts = readable.state(id_)
        lease, death = reader.leases.of(id_), reader.dead.deaths.get(id_)
        key = stored.key if stored is not None else NO_KEY
        origin = stored.origin if stored is not None else None
        return ItemFacts(
            id=id_,
            marker=marker_here(reader, id_, stored.marker if stored is not None else 0),
            state=state.decode("ascii"),
            why=self._why(state, lease, death, ahead, key, now_ms),
            attempts=attempts,
            lease_left_ms=left_ms(lease, now_ms) if lease is not None else None,
            token=lease.token if lease is not None and is_shown(reader, lease) else None,
            holder=lease.holder.name if lease is not None else None,
            age_ms=max(unix_ms - stored.stored_ms, 0) if stored is not None else None,
            stored_ms=stored.stored_ms if stored is not None else None,
            expires_ms=(stored.expires_ms or None) if stored is not None else None,
            bytes=_bytes(stored, death),
            key=in_words(key) or None,
            origin=origin.name if origin is not None else None,
            died_ms=death.died_ms if death is not None else None,
            reason=(death.reason or None) if death is not None else None,
            texts=stored.texts if stored is not None else (),
        )

    def _why(
        self, state: bytes, lease: Lease | None, death: DeadEntry | None, ahead: int, key: bytes,
        now_ms: int,
    ) -> str:  # fmt: skip
        reader, offset_ms = self._queue.reader, self._queue.clock.offset_ms
        if lease is not None:
            return _why_leased(lease, offset_ms)
        if death is not None:
            return _why_dead(reader, death)
        if state == DONE:
            return "confirmed, expired or removed, and retained"
        if state == DELAYED:
            return f"delayed until {reader.delays.find(self._id, self._queue.clock)[0]}"
        return self._why_ready(ahead, key, now_ms)

    def _why_ready(self, ahead: int, key: bytes, now_ms: int) -> str:
        """Return why the next open would not lease it."""
        queue, id_ = self._queue, self._id
        reader, most = queue.reader, queue.policy.max_leased
        if queue.log.failure is not None:
            return "its journal failed"
        if reader.where(id_) is Where.LOST:
            return "its body cannot be read"
        if self._mode == "quiescent":
            return "the server is quiescent"
        if reader.paused:
            return "paused"
        if key and (blocker := reader.key_gate.keys.blocker(id_, key)) is not None:
            return f"behind key {in_words(blocker[0])} held by item {blocker[1]}"
        if ahead:
            return f"behind {ahead} other{'s' if ahead > 1 else ''}"
        if most is not None and len(reader.leases) >= most:
            return f"max_leased {most} is reached"
        return "it is next"


def marker_here(reader: Subscription, id_: int, known: int) -> int | None:
    """Return the marker of an item, which it keeps when it is delayed again; None: it has none yet.

    `known` is the marker in its put: its id, or 0 if the put was read from the log.
    """
    if id_ not in reader.markers.hidden:
        return id_
    if known and known != id_:
        return known
    if id_ in reader.delays:  # there may be many of these
        return reader.markers.of(id_, 0) or None
    return reader.markers.marker_of(id_) or None


def death_facts(reader: Subscription, death: DeadEntry) -> DeathFacts:
    """Return the facts of a dead letter."""
    return DeathFacts(
        attempts=death.attempts,
        reason=death.reason or None,
        died_ms=death.died_ms,
        bytes=death.body_bytes,
        state="lent" if death.item in reader.leases else "dead",
    )


def _bytes(stored: Item | None, death: DeadEntry | None) -> int | None:
    if death is not None:
        return death.body_bytes
    return stored.size if stored is not None else None


def _why_leased(lease: Lease, offset_ms: int) -> str:
    until = "it hangs up"
    if lease.deadline_ms is not None:
        until = str(lease.deadline_ms + offset_ms)
    line = "from the dead line " if lease.dead else ""
    if lease.by_token:
        return f"lent {line}by token {lease.token} until {until}"
    return f"lent {line}to {lease.holder.name} until {until}"


def _why_dead(reader: Subscription, death: DeadEntry) -> str:
    if reader.dead.is_hidden(death.item):
        return "dead, and its body cannot be read"
    return f"dead: {quoted(death.reason) or '-'}"


def _sliced(ids: Sequence[int], size: int) -> Iterator[Sequence[int]]:
    for start in range(0, len(ids), size):
        yield ids[start : start + size]
