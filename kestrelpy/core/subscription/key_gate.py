"""The gate between a ready list and its key locks: the front item is leased, or others block it.

    front ──▶ claims its values ──▶ first for all ──▶ leased ──▶ ends ──▶ the next items have them:
                   └──▶ others are before it: blocked ──────────────────▶ back at their places in
                        (in memory while there is room)                   the ready list

A blocked item is ready and counted as ready, but is out of the list, so that no call passes over it
twice. After a restart the gate meets it in the list again. The log holds the keys that the gate
must know by then: those of items leased by token, and of items nacked with a delay.

One rule: ending an item ends its claims; the items that wait for them return to the ready list.
"""

from __future__ import annotations

from typing import Final

from journal.sets import IdSet
from kestrelpy.core.index import ITEM_COST, UNLIMITED, Blocked, KeyLocks
from kestrelpy.core.item import Item, bare_item
from kestrelpy.core.log import records
from kestrelpy.core.subscription.outbox import EXPIRED, Outbox
from kestrelpy.core.subscription.ready_items import ReadyItems
from kestrelpy.core.subscription.state import SubscriptionState

# One call passes over this many expired or blocked items at the front: so a million of them cost
# many short turns and not one long turn.
SWEEP_ITEMS_MAX: Final = 2000
AT_ONCE_MS: Final = 0  # due at the next tick
_SOON_MS: Final = 1  # until the gate continues with the rest
_PART: Final = 2  # blocked items may take this part (1/2) of the ready list's memory


class KeyGate:
    """The claims of one subscription's items, and its ready items.

    `whole` are the blocked items in memory, `cost` their bytes there. `in_flight` counts the key
    values of leased items.
    """

    __slots__ = ("_outbox", "_state", "in_flight", "keys", "ready_items", "whole", "whole_bytes")

    def __init__(self, state: SubscriptionState, outbox: Outbox) -> None:
        self._state = state
        self._outbox = outbox
        self.ready_items = ReadyItems(state, self)
        self.keys = KeyLocks(state.policy.keys.matches_any)
        self.whole: dict[int, Item] = {}
        self.whole_bytes = 0
        self.in_flight = 0

    @property
    def cost(self) -> int:
        """The memory that the whole items take, in bytes."""
        return self.whole_bytes + len(self.whole) * ITEM_COST

    # -- at the front of the ready list -----------------------------------------------------

    def is_blocked(self, item: Item) -> bool:
        """True if another item has its key, or a part of it."""
        return bool(item.key) and self.keys.blocker(item.id, item.key) is not None

    def skip_blocked(self, found: tuple[int, Item], now_ms: int) -> tuple[int, Item] | None:
        """Return the first item that may be leased, from `found` on; end expired items before it.

        None: there is no such item, or the gate does not know yet and continues soon.
        """
        state, ready, keys, passed = self._state, self._state.ready, self.keys, 0
        unix_ms = now_ms + state.clock.offset_ms
        following: tuple[int, Item] | None = found
        room = self._room(found[1])
        while following is not None:
            place, item = following
            id_, key, is_over = item.id, item.key, 0 < item.expires_ms <= unix_ms
            if passed == SWEEP_ITEMS_MAX:
                self._count()
                if not is_over and (not key or keys.take(id_, key)):
                    return following
                ready.put_back(place, item)
                state.alarm.need(now_ms + _SOON_MS)
                return None
            if is_over:
                self.expire(item, unix_ms)
            elif not key or keys.claim(id_, place, item.size, key):
                if passed:
                    self._count()
                return following
            else:
                room = self._store_blocked(item, room)
            passed += 1
            if ready.beyond and not ready.resident:
                self._count()
                self.ready_items.refill(unix_ms)
                if ready.resident:
                    room = self._room()
            following = ready.pop()
        self._count()
        self._look_ahead()
        return None

    def first(self, item: Item, now_ms: int) -> Item | None:
        """Return the first item that may be leased, from `item` on, and leave it in the list.

        None: as in `skip_blocked`.
        """
        state, ready, passed = self._state, self._state.ready, 0
        unix_ms = now_ms + state.clock.offset_ms
        following: Item | None = item
        while following is not None:
            is_over = 0 < following.expires_ms <= unix_ms
            if not (is_over or self.is_blocked(following)):
                return following
            if passed == SWEEP_ITEMS_MAX:
                state.alarm.need(now_ms + _SOON_MS)
                return None
            passed += 1
            if is_over:
                ready.remove(following)
                self.expire(following, unix_ms)
            elif (popped := ready.pop()) is not None:
                self._park(*popped)
            if ready.beyond and not ready.resident:
                self.ready_items.refill(unix_ms)
            following = ready.first()
        self._look_ahead()
        return None

    def _look_ahead(self) -> None:
        """Look at the disk references: the next one may follow an item that was passed over."""
        if self._state.ready.disk_refs.count:
            self.ready_items.look_ahead()

    def _park(self, place: int, item: Item) -> None:
        """Block an item that stood at the front of the ready list."""
        self.keys.claim(item.id, place, item.size, item.key)
        self._store_blocked(item, self._room(item))
        self._count()

    def _store_blocked(self, item: Item, room: int) -> int:
        """Keep a blocked item in memory if there is room for it; return the room that is left."""
        state, id_ = self._state, item.id
        state.out_of_order.add(id_)
        cost = item.size + ITEM_COST
        if cost <= room:
            self.whole[id_] = item
            self.whole_bytes += item.size
            return room - cost
        if state.watch.watched:
            state.watch.forget(id_)
        state.know_expiry(item)
        return room

    def _room(self, popped: Item | None = None) -> int:
        """Return the bytes, with their cost, that the next blocked items may take in memory.

        They are in the ready list, and `popped` was until now: an item costs the same in both
        places. (The items of a queue in memory have to stay.)
        """
        state, residency = self._state, self._state.residency
        if state.log.read_ahead is None:
            return UNLIMITED
        cost = state.cost
        if popped is not None:
            cost += popped.size + ITEM_COST
        if cost > residency.allowed and not residency.grow(cost):
            return 0
        return residency.most // _PART - self.cost

    # -- the end of an item -----------------------------------------------------------------

    def expire(self, item: Item, unix_ms: int) -> None:
        """End an item that is past its expiry and out of the list; make it a dead letter if
        `expire_to` is set."""
        state = self._state
        if item.key:
            self.drop(item)
        if state.out_of_order.count:
            state.out_of_order.discard(item.id)
        state.counters.expired += 1
        if state.policy.expire_to:
            self._outbox.dead_letter(item, state.attempts.get(item.id), 0, unix_ms, EXPIRED)
        else:
            state._apply_done(item.id, item.size)
            state.append(records.expired(item, unix_ms))

    def end(self, item: Item) -> None:
        """End the claims of a leased item that is about to go.

        Another item may become ready; the caller serves it.
        """
        if item.key:
            freed = self.keys.end(item.id, item.key, item.size)
            if freed:
                self.put_back(freed)

    def drop(self, item: Item) -> None:
        """End the claims of an item that is about to go; the next tick serves the waiters."""
        if item.key:
            self.drop_known(item.id, item.key, item.size)
        elif not item.is_whole or not item.stored_ms:
            self.drop_unread(item.id, item.size)

    def drop_known(self, id_: int, key: bytes, body_bytes: int) -> None:
        """`drop` an item by its id, key and size: the item itself is not in memory."""
        self._free(id_, self.keys.end(id_, key, body_bytes))
        if self._state.waiters:
            self._state.alarm.need(AT_ONCE_MS)

    def drop_unread(self, id_: int, body_bytes: int) -> None:
        """`drop` an item whose key is not known."""
        if self.keys:
            self._free(id_, self.keys.end_unknown(id_, body_bytes))
            if self._state.waiters:
                self._state.alarm.need(AT_ONCE_MS)

    def drop_lost(self, lost: IdSet) -> None:
        """End the claims of live items that are not readable any more."""
        for id_ in self.keys.holders(lost):
            self.drop_unread(id_, 0)

    def drop_blocked(self, ids: IdSet, last: int) -> tuple[int, list[Blocked]]:
        """Remove the blocked items among `ids`; return the bytes of their bodies, and the items
        that this unblocks, for `put_back`. `ids` are all live items up to `last`, perhaps without
        some that have another place."""
        if not self.keys.blocked.count:
            return 0, []
        freed = list[Blocked]()
        if self.keys.in_id_order:
            gone = self.keys.leave_first(last + 1)
        else:
            gone, freed = self.keys.leave(ids)
        for id_ in gone:
            self._forget_whole(id_)
            self._state.watch.forget(id_)
        self._count()
        return sum(gone.values()), freed

    def oldest(self, below: int) -> Item | None:
        """Return the blocked item with the lowest place, if that is below `below`.

        The caller drops it.
        """
        oldest = self.keys.oldest()
        if oldest is None or oldest[0][1] >= below:
            return None
        (id_, _, body_bytes), value = oldest
        item = self.whole.get(id_)
        if item is None and not self.keys.matches_any:
            item = bare_item(id_, body_bytes, key=value)  # it waits for its whole key
        return item or bare_item(id_, body_bytes)

    def _free(self, id_: int, freed: list[Blocked]) -> None:
        self._state.held_keys.pop(id_, None)
        self._forget_whole(id_)
        self.put_back(freed)

    def put_back(self, freed: list[Blocked]) -> None:
        """Return these items, which are not blocked any more, to the ready list."""
        back = [(self._forget_whole(each[0]), each) for each in freed]
        self._count()
        ready_items = self.ready_items
        for item, (blocked, place, body_bytes) in back:
            if item is not None:
                ready_items.put_back(item, place)
            else:
                ready_items.stand(place, blocked, body_bytes)
                ready_items.look_ahead()

    def _forget_whole(self, id_: int) -> Item | None:
        item = self.whole.pop(id_, None)
        if item is not None:
            self.whole_bytes -= item.size
        return item

    def _count(self) -> None:
        ready, keys = self._state.ready, self.keys
        ready.blocked, ready.blocked_bytes = len(keys.blocked), keys.blocked_bytes
        ready.blocked_cost = self.cost

    # -- leases and nacks -------------------------------------------------------------------

    def lease(self, item: Item) -> None:
        """Count the key values of an item that is leased now."""
        keys = self.keys
        self.in_flight += len(keys.values(item.key)) if keys.matches_any else 1

    def unlease(self, item: Item) -> None:
        """Stop counting the key values of an item; its claims stay until it ends."""
        keys = self.keys
        self.in_flight -= len(keys.values(item.key)) if keys.matches_any else 1

    def hold_restored(self) -> None:
        """After replay, lock the keys of items leased by token or nacked with a delay."""
        for entry in self._state.leases.entries.values():
            if entry.key:
                self.keys.hold(entry.item, entry.key)
                self.in_flight += len(self.keys.values(entry.key))
        for id_, key in self._state.held_keys.items():
            self.keys.hold(id_, key)

    def clear(self, spared: IdSet) -> None:
        """Remove all claims but those of `spared`, which are leased: no item is ready or delayed
        any more."""
        trash = self._state.residency.trash
        trash.take(self.whole)
        if self.in_flight:
            self.keys.retain_only(spared, trash)
        else:
            self.keys.clear(trash)
        self.whole, self.whole_bytes = {}, 0
        self._state.retain_held_keys(spared)
        self._count()
