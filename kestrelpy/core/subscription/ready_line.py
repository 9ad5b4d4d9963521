"""A reader's ready line where it meets its log: what of it is in memory, what is read back, and
when what is in memory expires.

    keep ──▶ there is room: in memory ──▶ pop
        └──▶ there is none: left to the log ──▶ `to_read` ──▶ read ──▶ refill ──▶ in memory
    apart, no body: a stub ──▶ it is next: `to_read` ──▶ read by its id ──▶ fetched ──▶ in memory

One rule: the line in memory is a copy of the front of what is ready; letting go of a part of it, or
reading it again, changes neither what is ready nor its order.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from journal.format.item_header import item_header_of
from journal.format.meta import decode_meta, said_of_put
from journal.format.record import Record
from kestrelpy.core.index.disk_refs import pack
from kestrelpy.core.index.leases import Lease
from kestrelpy.core.index.ready_list import NO_FRONTIER
from kestrelpy.core.item import Item, bare_item
from kestrelpy.core.subscription.state import SubscriptionState

# The line is filled up to so many items, when fewer than that are in memory.
REFILL_ITEMS: Final = 64
# Takes in one call: so many times REFILL_ITEMS that are lent, dead or expired are passed over in
# about 5 ms; the rest comes in the next turn.
_TAKES_MAX: Final = 16
# A line may cost this much more than it is allowed before its youngest items are let go; then
# enough of them go that it is not so again at once.
_SLACK_BYTES: Final = 64 << 10
_SPARE_PART: Final = 8
# Looking at so many ids one by one is quicker than at all leases.
_FEW_IDS: Final = 64
# Bodies of items that stand apart, read at once.
_FETCHED_BYTES_MAX: Final = 4 << 20


class Gate(Protocol):
    """The keys of the items, as far as the ready list asks for them (`KeyGate`)."""

    def expire(self, item: Item, unix_ms: int) -> None:
        """End an item that lived past its expiry and is out of the line."""

    def drop_unread(self, id_: int, body_bytes: int) -> None:
        """End the claims of an item whose key is not known."""

    def drop_lost(self, first: int, last: int, is_here: Callable[[int], bool]) -> None:
        """End the claims of items of this range that are here and can not be read any more."""

    def oldest(self, below: int) -> Item | None:
        """Return the blocked item with the lowest place, if that is below this one."""


class ReadyLine:
    """The bookkeeping between the ready list of a subscription and its log."""

    __slots__ = ("_gate", "_state")

    def __init__(self, state: SubscriptionState, gate: Gate) -> None:
        self._state = state
        self._gate = gate

    # -- into memory, and out of it ---------------------------------------------------------

    def said(self, lease: Lease) -> None:
        """Its holder has the body of what was lent: if memory is scarce, only the log keeps it.

        (Whoever was shown the same item and has not said it yet keeps it as it is.)
        """
        state = self._state
        cost = state.cost
        if (
            cost > state.residency.allowed
            and not state.residency.grow(cost)
            and state.log.backlog is not None
        ):
            state.leased_bytes -= len(lease.item.body)
            lease.item = lease.item.without_body()

    def add(self, item: Item) -> None:
        """An arrival, into the line: in memory, or left to the log."""
        state = self._state
        ready = state.ready
        cost = state.cost
        if ready.beyond or (
            cost >= state.residency.allowed
            and not state.residency.grow(cost)
            and state.log.backlog is not None  # else it is nowhere but here
        ):
            ready.push_beyond(item.id, item.size)
            if item.expires_ms:
                state.left(item.expires_ms)
            return
        ready.push(item)
        if item.expires_ms:
            state.watch.add(item)

    def put_back(self, item: Item, place: int) -> None:
        """It is back at its place; the youngest make room for it if need be.

        Without its body it is read again when it is next; so is one that stands apart and for
        which there is no room.
        """
        state = self._state
        ready = state.ready
        is_out_of_order = place != item.id or item.id in state.out_of_order
        if not item.is_whole and (is_out_of_order or place < ready.frontier):
            state.watch.forget(item.id)
            self.stand(place, item.id, item.size)
            return
        if is_out_of_order:
            state.out_of_order.add(item.id)
        ready.put_back(place, item)
        if place >= ready.frontier:
            state.watch.forget(item.id)
        elif item.expires_ms and item.id not in state.watch.watched:
            state.watch.add(item)
        cost, allowed = state.cost, state.residency.allowed
        if cost <= allowed + _SLACK_BYTES or state.residency.grow(cost):
            return
        if state.log.backlog is not None:
            most = allowed - allowed // _SPARE_PART - state.leased_bytes - ready.blocked_cost
            self._leave(ready.evict(most))

    def _leave(self, gone: list[Item]) -> None:
        """These are left to the log; what is read next is another item than was thought."""
        for item in gone:
            self._state.watch.forget(item.id)
        if self._state.log.backlog is not None:
            self._state.log.backlog.reset()

    @property
    def is_cut_off(self) -> bool:
        """Will what waits behind the frontier never be written?"""
        state, backlog = self._state, self._state.log.backlog
        if state.log.failure is None or state.needs_read or state.unread or backlog is None:
            return False
        is_reading = backlog.is_reading or state.ready.disk_refs.is_fetching
        return not (is_reading or backlog.has_more)

    def begin(self, disk_refs: list[int], apart_bytes: int) -> None:
        """After replay: what is neither lent nor dead is left to the log, and read as needed.

        `apart_bytes` are those of all bodies elsewhere, `disk_refs` those of them that are ready.
        """
        state = self._state
        ready = state.ready
        ready.clear(state.residency.trash)
        deaths, out_of_order = state.dead.deaths, state.out_of_order
        entries = state.leases.entries.values()
        leased = [entry for entry in entries if entry.item not in deaths]
        ready.beyond = len(state.live) - len(deaths) - len(leased) - len(out_of_order)
        if ready.beyond:
            leased_bytes = sum(entry.body_bytes for entry in leased)
            ready.beyond_bytes = max(
                state.live_bytes - state.dead.bytes - leased_bytes - apart_bytes, 0
            )
            ready.frontier = self._next_plain(1)
        ready.disk_refs.begin(disk_refs)

    def clear(self) -> None:
        """Nothing is ready any more."""
        trash = self._state.residency.trash
        self._state.ready.clear(trash)
        self._state.watch.clear(trash)
        if self._state.log.backlog is not None:
            self._state.log.backlog.reset()

    # -- reading back -----------------------------------------------------------------------

    def has_room(self, most: int = REFILL_ITEMS) -> bool:
        """Is there more to read back, and room for it?"""
        return self._state.ready.beyond > 0 and self._may_read(most)

    def _may_read(self, most: int = REFILL_ITEMS) -> bool:
        """Is there room for what is read back? (For the first item there always is.)"""
        ready = self._state.ready
        if ready.resident >= most:
            return False
        cost, residency = self._state.cost, self._state.residency
        return not ready.resident or cost < residency.allowed or residency.grow(cost)

    def refill(self, unix_ms: int, most: int = REFILL_ITEMS) -> None:
        """Take what has been read back into the line, up to `most` items, and ask for more."""
        state = self._state
        backlog, ready = state.log.backlog, state.ready
        if backlog is None:
            return
        state.catch_up()  # what is taken here must be known: it is not read twice
        for _ in range(_TAKES_MAX):
            if not self.has_room(most):
                break
            records = backlog.take(ready.frontier, REFILL_ITEMS)
            if not records:
                break
            for record in records:
                self._take_in(record, unix_ms)
        if not ready.beyond:
            backlog.rest()
            state.residency.shrink(state.cost)
        elif self.has_room(most):
            state.schedule_read()
        if ready.disk_refs.count:
            self.look_ahead()  # one that expires may stand behind what was read

    def _take_in(self, record: Record, unix_ms: int) -> None:
        state, id_ = self._state, record.item
        ready = state.ready
        if id_ < ready.frontier:
            return
        if id_ > ready.frontier:
            self.skip_lost(id_ - 1)
        if not self._is_plain(id_) or id_ not in state.live:
            ready.advance(id_ + 1)
            return
        item = state.bound(item_of(record))
        ready.drop_beyond(item.size)
        ready.advance(id_ + 1)
        if 0 < item.expires_ms <= unix_ms:
            self._gate.expire(item, unix_ms)
            return
        ready.push(item)
        if item.expires_ms:
            state.watch.add(item)

    def skip_lost(self, last: int) -> None:
        """Items from the frontier up to `last` are not in the log any more: damaged, and named.

        They stay among those that are there, so that their segment does; a start tries again.
        """
        state = self._state
        ready, first = state.ready, state.ready.frontier
        if last >= state.live.last:
            last, lost = max(state.live.last, first), ready.beyond
        else:
            lost = self.count_unlent(first, last)
        if lost:
            ready.drop_beyond(ready.beyond_bytes * lost // ready.beyond, lost)
            state.name_unreadable(lost, state.live.first_from(first), last)
            self._gate.drop_lost(first, last, self._is_plain)  # items that wait for them go on
        ready.advance(last + 1)

    def count_unlent(self, first: int, last: int) -> int:
        """How many of these are there, and in the plain line."""
        state = self._state
        live, leases = state.live, state.leases
        if last - first < _FEW_IDS:
            return sum(i in live and self._is_plain(i) for i in range(first, last + 1))
        loose = leases.without_token()
        out_of_order = sum(first <= lease.item.id <= last for lease in loose if not lease.dead)
        out_of_order += leases.token_ids.count_between(first, last)
        out_of_order += state.dead.ids.count_between(first, last)
        out_of_order += state.out_of_order.count_between(first, last)
        return live.count_between(first, last) - out_of_order

    def _is_plain(self, id_: int) -> bool:
        """Does this item, if it is there, stand in the plain line?"""
        state = self._state
        return not (id_ in state.leases or id_ in state.dead.deaths or id_ in state.out_of_order)

    def _next_plain(self, id_: int) -> int:
        """The first item of the plain line that is not below `id_`."""
        live = self._state.live
        found = live.first_from(id_)
        while found and not self._is_plain(found):
            found = live.first_from(found + 1)
        return found

    def pop_any(self, unix_ms: int) -> Item | None:
        """The head, out of the line; if only the log knows it, its size is a guess.

        It has its key, or waits for it, until the caller drops it.
        """
        ready = self._state.ready
        if ready.beyond and ready.resident < REFILL_ITEMS:
            self.refill(unix_ms)
        if ready.blocked:
            oldest = self._gate.oldest(ready.first_place())
            if oldest is not None:
                return oldest
        found = ready.pop()
        if found is not None:
            return found[1]
        return self._unread_first() if ready.beyond or ready.disk_refs.count else None

    def _unread_first(self) -> Item:
        ready = self._state.ready
        id_ = self._next_plain(ready.frontier) if ready.beyond else NO_FRONTIER
        if ready.disk_refs.count and ready.disk_refs.first_place() < id_:
            _, id_, size = ready.disk_refs.pop()
            return bare_item(id_, size)
        body = bytes(ready.beyond_bytes // ready.beyond)
        ready.drop_beyond(len(body))
        ready.advance(id_ + 1)
        return Item(id_, id_, body, 0, 0, 0, 1)

    # -- the dead ---------------------------------------------------------------------------

    def revive(self, record: Record) -> None:
        """The body of the first dead item has been read back."""
        dead = self._state.dead
        if record.item in dead.deaths and record.item not in self._state.leases:
            dead.take_in(item_of(record, self._state.markers.of(record.item, 0)))

    def hide(self, id_: int) -> None:
        """The body of this dead item is not readable: named, and not offered until a start."""
        dead = self._state.dead
        if id_ == dead.sought:
            dead.hide(id_)
            self._state.name_unreadable(1, id_, id_)

    # -- what stands apart ------------------------------------------------------------------

    def stand(self, place: int, id_: int, body_bytes: int) -> None:
        """This one is ready at its place, and only the log has its body."""
        self._state.out_of_order.add(id_)
        self._state.ready.disk_refs.push(pack(place, id_, body_bytes))

    def placed(self, place: int, lsn: int) -> None:
        """The record `lsn` gave this place, higher than any before: it is shown when that is."""
        placed, stored = self._state.placings, self._state.log.lsn_stored
        while placed and placed[0][1] <= stored:
            placed.popleft()
        placed.append((place, lsn))

    def _lsn_of(self, place: int) -> int:
        """The record that gave this place, if it may not be stored yet; else 0."""
        at = bisect_left(self._state.placings, (place, 0))
        found = self._state.placings[at] if at < len(self._state.placings) else (0, 0)
        return found[1] if found[0] == place else 0

    def look_ahead(self) -> None:
        """Ask for the next stubs where they are needed soon."""
        ready = self._state.ready
        if ready.disk_refs.is_fetching or ready.disk_refs.first_in_line() >= ready.frontier:
            return
        if ready.resident < REFILL_ITEMS or ready.is_held_up:
            self._state.schedule_read()

    def begin_fetch(self) -> list[int]:
        """Ids of items that stand apart and are to be read now; give them to `fetched`."""
        state, disk_refs = self._state, self._state.ready.disk_refs
        if not disk_refs.count or disk_refs.is_fetching:
            return []
        if not (self._may_read() or state.ready.is_held_up):
            return []  # it comes when it is next
        cost = state.cost
        if cost + _FETCHED_BYTES_MAX > state.residency.allowed:
            state.residency.grow(cost)
        left = min(max(state.residency.allowed - cost, 0), _FETCHED_BYTES_MAX)
        return disk_refs.begin_fetch(state.ready.frontier, REFILL_ITEMS, left)

    def fetched(self, records: Iterable[Record]) -> None:
        """These were read, and are in memory at their places."""
        state = self._state
        ready = state.ready
        for record in records:
            place = ready.disk_refs.fetched(record.item)
            if not place:
                continue  # it is gone
            item = state.bound(item_of(record, state.markers.of(record.item, place)))
            item.lsn = max(item.lsn, self._lsn_of(place))
            ready.put_back(place, item)
            if item.expires_ms and place < ready.frontier:
                state.watch.add(item)
        self.look_ahead()

    def hide_stub(self, id_: int) -> None:
        """This one's body is not readable: named, and not offered until a start."""
        state = self._state
        self._gate.drop_unread(id_, 0)  # whoever waits for it goes on
        if state.ready.disk_refs.fetched(id_) and state.log.failure is None:
            state.name_unreadable(1, id_, id_)  # else it was never written, most likely


def item_of(record: Record, marker: int = 0) -> Item:
    """The item that this put stored; its marker is its id, unless it has another one."""
    meta = record.meta
    said = decode_meta(meta) if meta else {}
    expires_ms, key, _ = said_of_put(meta, said)
    return Item(
        record.item, marker or record.number, record.body, record.small, record.time_ms, expires_ms,
        record.lsn, key, item_header_of(meta, 0, said),
    )  # fmt: skip
