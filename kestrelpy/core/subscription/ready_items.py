"""The link between a ready list and its log: the items in memory, their expiry, and the items that
are read back.

    add ──▶ there is room: in memory ──▶ pop
       └──▶ there is none: left to the log ──▶ `to_read` ──▶ read ──▶ refill ──▶ in memory
    out of order, no body: a disk reference ──▶ it is next: `to_read` ──▶ read by its id
                                                                ──▶ fetched ──▶ in memory

An item is plain if its place is its id and it is neither leased, dead nor out of order: the log has
the plain items in their order. Plain items from the frontier on are left to the log. The order of
the items is that of `core.index.ready_list`.

One rule: the list in memory is a copy of the front of the ready items; dropping a part of it, or
reading it again, changes neither which items are ready nor their order.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import Final, Protocol

from journal.format import Record, decode_meta, item_header_of, said_of_put
from journal.sets import IdSet
from kestrelpy.core.index import ITEM_COST, NO_FRONTIER, Lease, pack
from kestrelpy.core.item import Item, bare_item
from kestrelpy.core.subscription.state import SubscriptionState

# The ready list is refilled up to this number of items when it has fewer in memory.
REFILL_ITEMS: Final = 64
# One call takes REFILL_ITEMS this many times: to pass over as many leased, dead or expired items
# takes about 5 ms. The next turn takes the rest.
_TAKES_MAX: Final = 16
# A ready list may cost this much more than it is allowed before it drops its youngest items. An
# item that comes back makes room for itself, and for a few more, so that the calls share the work.
_SLACK_BYTES: Final = 64 << 10
_EVICTED_MORE: Final = 16
_EVICTED_MAX: Final = 1000
# Looking at this number of ids one by one is quicker than looking at all leases.
_FEW_IDS: Final = 64
# One read looks up this many puts more, to know when their items expire.
_LOOKED_UP_MAX: Final = 64
# One read fetches the bodies of this many out-of-order items.
_FETCHED_BYTES_MAX: Final = 4 << 20


class KeyGatePort(Protocol):
    """The part of `KeyGate` that the ready list needs."""

    def expire(self, item: Item, unix_ms: int) -> None:
        """End an item that is past its expiry and out of the list."""

    def drop_unread(self, id_: int, body_bytes: int) -> None:
        """End the claims of an item whose key is not known."""

    def drop_lost(self, lost: IdSet) -> None:
        """End the claims of live items that are not readable any more."""

    def oldest(self, below: int) -> Item | None:
        """Return the blocked item with the lowest place, if that is below `below`."""


class ReadyItems:
    """The bookkeeping between the ready list of a subscription and its log."""

    __slots__ = ("_gate", "_state")

    def __init__(self, state: SubscriptionState, gate: KeyGatePort) -> None:
        self._state = state
        self._gate = gate

    # -- into memory, and out of it ---------------------------------------------------------

    def said(self, lease: Lease) -> None:
        """Drop the body of a leased item if memory is scarce: its holder has it, and so has the
        log.

        (A connection that was shown the same item and has not sent it yet keeps the whole item.)
        """
        state = self._state
        cost = state.cost
        if (
            cost > state.residency.allowed
            and not state.residency.grow(cost)
            and state.read_ahead is not None
        ):
            state.leased_bytes -= len(lease.item.body)
            lease.item = lease.item.without_body()

    def add(self, item: Item) -> None:
        """Add an arrival to the ready list: in memory, or left to the log."""
        state = self._state
        ready = state.ready
        cost = state.cost
        if ready.beyond or (
            cost >= state.residency.allowed
            and not state.residency.grow(cost)
            and state.read_ahead is not None  # else memory has the only copy
        ):
            ready.push_beyond(item.id, item.size)
            if item.expires_ms:
                state.left(item.expires_ms)
            return
        ready.push(item)
        if item.expires_ms:
            state.watch.add(item)

    def add_run(self, items: list[Item], body_bytes: int) -> None:
        """Add arrivals of `body_bytes` together that do not expire."""
        state = self._state
        cost = state.cost + body_bytes + len(items) * ITEM_COST
        if not state.ready.beyond and cost <= state.residency.allowed:
            state.ready.push_run(items, body_bytes)
        else:
            for item in items:
                self.add(item)

    def put_back(self, item: Item, place: int) -> None:
        """Return an item to its place; the youngest items make room for it if need be.

        An item without its body is read again when it is next; so is an out-of-order item for
        which there is no room.
        """
        state = self._state
        ready = state.ready
        is_out_of_order = place != item.id or item.id in state.out_of_order
        if not item.is_whole and (is_out_of_order or place < ready.frontier):
            state.watch.forget(item.id)
            state.know_expiry(item)
            self.stand(place, item.id, item.size)
            return
        if is_out_of_order:
            state.out_of_order.add(item.id)
        ready.put_back(place, item)
        if place >= ready.frontier:
            state.watch.forget(item.id)
            if is_out_of_order:
                state.know_expiry(item)
        elif item.expires_ms and item.id not in state.watch.watched:
            state.watch.add(item)
        cost, allowed = state.cost, state.residency.allowed
        if cost <= allowed + _SLACK_BYTES or state.residency.grow(cost):
            return
        if state.read_ahead is not None:
            cost = allowed - state.leased_bytes - ready.blocked_cost
            most = min(item.size // ITEM_COST + _EVICTED_MORE, _EVICTED_MAX)
            self._leave(ready.evict(cost, most))

    def _leave(self, gone: list[Item]) -> None:
        """Leave these items to the log; the read-ahead starts anew, as its next item changes."""
        state = self._state
        for item in gone:
            state.watch.forget(item.id)
            if item.expires_ms and item.id in state.out_of_order:
                state.know_expiry(item)
        if self._state.read_ahead is not None:
            self._state.read_ahead.reset()

    @property
    def is_cut_off(self) -> bool:
        """True if the items after the frontier will never be written: the journal has failed, and
        no read is due or under way."""
        state, read_ahead = self._state, self._state.read_ahead
        if state.log.failure is None or state.needs_read or state.unread or read_ahead is None:
            return False
        is_reading = read_ahead.is_reading or state.ready.disk_refs.is_fetching
        return not (is_reading or read_ahead.has_more)

    def begin(self, disk_refs: list[int], out_of_order_bytes: int) -> None:
        """After replay, leave all items that are neither leased nor dead to the log, to be read
        as needed.

        `out_of_order_bytes` are the bytes of all out-of-order bodies; `disk_refs` refer to those
        of the out-of-order items that are ready.
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
                state.live_bytes - state.dead.bytes - leased_bytes - out_of_order_bytes, 0
            )
            ready.frontier = self._next_plain(1)
        ready.disk_refs.begin(disk_refs)

    def clear(self) -> None:
        """Empty the ready list: no item is ready any more."""
        trash = self._state.residency.trash
        self._state.ready.clear(trash)
        self._state.watch.clear(trash)
        self._state.ends.clear()
        self._state.sought_keys.clear()
        if self._state.read_ahead is not None:
            self._state.read_ahead.reset()

    # -- reading back -----------------------------------------------------------------------

    def has_room(self, most: int = REFILL_ITEMS) -> bool:
        """True if there is more to read back, and room for it."""
        return self._state.ready.beyond > 0 and self._may_read(most)

    def _may_read(self, most: int = REFILL_ITEMS) -> bool:
        """True if there is room for another item from the log. (The first one always has room.)"""
        ready = self._state.ready
        if ready.resident >= most:
            return False
        cost, residency = self._state.cost, self._state.residency
        return not ready.resident or cost < residency.allowed or residency.grow(cost)

    def refill(self, unix_ms: int, most: int = REFILL_ITEMS) -> None:
        """Add items that were read back to the ready list, up to `most`; schedule the next read."""
        state = self._state
        read_ahead, ready = state.read_ahead, state.ready
        if read_ahead is None:
            return
        state.catch_up()  # the subscription must know the items taken here: none is read twice
        for _ in range(_TAKES_MAX):
            if not self.has_room(most):
                break
            records = read_ahead.take(ready.frontier, REFILL_ITEMS)
            if not records:
                break
            for record in records:
                self._take_in(record, unix_ms)
        if not ready.beyond:
            read_ahead.rest()
            state.residency.shrink(state.cost)
        elif self.has_room(most):
            state.schedule_read()
        if ready.disk_refs.count:
            self.look_ahead()  # an item that expires may stand after those that were read

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

    def offer(self, item: Item) -> None:
        """Take in an item that the caller has, if it is the next one that would be read back."""
        state, id_ = self._state, item.id
        ready = state.ready
        is_next = ready.beyond > 0 and id_ == ready.frontier and id_ in state.live
        if not is_next or not self._may_read() or not self._is_plain(id_):
            return
        item = state.bound(item)
        ready.drop_beyond(item.size)
        ready.advance(id_ + 1)
        ready.push(item)
        if item.expires_ms:
            state.watch.add(item)

    def skip_lost(self, last: int) -> None:
        """Skip the items from the frontier up to `last`, which the log does not have any more, and
        report them as damaged.

        They stay live, so that their segment stays; the next start tries again.
        """
        state = self._state
        ready, first = state.ready, state.ready.frontier
        if last >= state.live.last:
            last, lost = max(state.live.last, first), ready.beyond
        else:
            lost = self.count_unleased(first, last)
        if lost:
            ready.drop_beyond(ready.beyond_bytes * lost // ready.beyond, lost)
            if (ids := self._plain_between(first, last)).count:
                state.name_unreadable(ids)
                self._gate.drop_lost(ids)  # items that wait for them go on
        ready.advance(last + 1)

    def count_unleased(self, first: int, last: int) -> int:
        """Return how many items from `first` to `last` are live and plain."""
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

    def _plain_between(self, first: int, last: int) -> IdSet:
        """Return the items from `first` to `last` that are live and plain."""
        state = self._state
        leases = state.leases
        loose = IdSet.of(lease.item.id for lease in leases.without_token())
        others = [loose, leases.token_ids, state.dead.ids, state.out_of_order]
        return state.live.between(first, last).without(IdSet.union(others))

    def _is_plain(self, id_: int) -> bool:
        """True if this item, when it is live, is plain."""
        state = self._state
        return not (id_ in state.leases or id_ in state.dead.deaths or id_ in state.out_of_order)

    def _next_plain(self, id_: int) -> int:
        """Return the first plain item that is not below `id_`; 0: there is none."""
        live = self._state.live
        found = live.first_from(id_)
        while found and not self._is_plain(found):
            found = live.first_from(found + 1)
        return found

    def pop_any(self, unix_ms: int) -> Item | None:
        """Remove and return the head of the ready list; if only the log has it, its size is a
        guess.

        It holds its key, or waits for it, until the caller drops it. None: no item is ready.
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

    # -- dead letters -----------------------------------------------------------------------

    def revive(self, record: Record) -> None:
        """Take in the body of the first dead letter, which has been read back."""
        dead = self._state.dead
        if record.item in dead.deaths and record.item not in self._state.leases:
            item = item_of(record, self._state.markers.of(record.item, 0))
            dead.take_in(self._state.bound(item))

    def hide(self, id_: int) -> None:
        """Report a dead letter with an unreadable body; do not offer it until the next start."""
        dead = self._state.dead
        if id_ == dead.sought:
            dead.hide(id_)
            self._state.name_unreadable(IdSet.of([id_]))

    # -- out-of-order items -----------------------------------------------------------------

    def stand(self, place: int, id_: int, body_bytes: int) -> None:
        """Make an item ready at `place`; only the log has its body."""
        self._state.out_of_order.add(id_)
        self._state.ready.disk_refs.push(pack(place, id_, body_bytes))

    def placed(self, place: int, lsn: int) -> None:
        """Note that the record `lsn` gave this place, which is higher than any before.

        The item is shown when that record is stored.
        """
        placed, stored = self._state.placings, self._state.log.lsn_stored
        while placed and placed[0][1] <= stored:
            placed.popleft()
        placed.append((place, lsn))

    def _lsn_of(self, place: int) -> int:
        """Return the record that gave this place, if it may not be stored yet; else 0."""
        at = bisect_left(self._state.placings, (place, 0))
        found = self._state.placings[at] if at < len(self._state.placings) else (0, 0)
        return found[1] if found[0] == place else 0

    def look_ahead(self) -> None:
        """Schedule a read for the next disk references if they are needed soon."""
        ready = self._state.ready
        if ready.disk_refs.is_fetching:
            return
        if ready.disk_refs.unsure.count:
            self._state.schedule_read()
        if ready.disk_refs.first_in_line() >= ready.frontier:
            return
        if ready.resident < REFILL_ITEMS or ready.is_held_up:
            self._state.schedule_read()

    def begin_fetch(self) -> list[int]:
        """Return the ids of items to read now: out-of-order ones that are next, and others to look
        up; the caller gives `fetched` their records."""
        disk_refs = self._state.ready.disk_refs
        if disk_refs.is_fetching:
            return []
        wanted = self._begin_fetch() if disk_refs.count else []
        return wanted + disk_refs.begin_look(_LOOKED_UP_MAX) if disk_refs.unsure.count else wanted

    def _begin_fetch(self) -> list[int]:
        state, disk_refs = self._state, self._state.ready.disk_refs
        if not (self._may_read() or state.ready.is_held_up):
            return []  # the item is read when it is next
        cost = state.cost
        if cost + _FETCHED_BYTES_MAX > state.residency.allowed:
            state.residency.grow(cost)
        left = min(max(state.residency.allowed - cost, 0), _FETCHED_BYTES_MAX)
        return disk_refs.begin_fetch(state.ready.frontier, REFILL_ITEMS, left)

    def fetched(self, records: Iterable[Record]) -> None:
        """Put these items, which have been read, into memory at their places."""
        state = self._state
        ready = state.ready
        ready.disk_refs.end_look()
        for record in records:
            place = ready.disk_refs.fetched(record.item)
            if ready.disk_refs.unsure.count and ready.disk_refs.unsure.discard(record.item):
                self._looked_up(record)
            if not place:
                continue  # the item is gone, or stays where it is
            item = state.bound(item_of(record, state.markers.of(record.item, place)))
            item.lsn = max(item.lsn, self._lsn_of(place))
            ready.put_back(place, item)
            if item.expires_ms and place < ready.frontier:
                state.watch.add(item)
        self.look_ahead()

    def _looked_up(self, record: Record) -> None:
        """Note the expiry of an item from its put, which has been read."""
        state, id_ = self._state, record.item
        item = state.bound(item_of(record))
        if id_ in state.live and id_ not in state.leases and id_ not in state.dead.deaths:
            if id_ in state.sought_keys:
                state.sought_keys[id_] = item.key
            state.ends.add(id_, item.expires_ms, item.size)

    def hide_disk_ref(self, id_: int) -> None:
        """Report a ready item with an unreadable body; do not offer it until the next start."""
        state = self._state
        if state.ready.disk_refs.unsure.discard(id_):
            state.sought_keys.pop(id_, None)
            if id_ not in state.ready.disk_refs.ids:
                return  # the item is named when its turn comes
        self._gate.drop_unread(id_, 0)  # items that wait for its key go on
        if state.ready.disk_refs.fetched(id_) and state.log.failure is None:
            state.name_unreadable(IdSet.of([id_]))  # a failed log most likely never had it


def item_of(record: Record, marker: int = 0) -> Item:
    """Return the item that this put stored; its marker is its id unless `marker` is given."""
    meta = record.meta
    said = decode_meta(meta) if meta else {}
    fields = said_of_put(meta, said)
    return Item(
        record.item, marker or record.number, record.body, record.small, record.time_ms,
        fields.expires_ms, record.lsn, fields.key, item_header_of(meta, 0, said),
    )  # fmt: skip
