"""A reader's ready line where it meets its log: what of it is in memory, what is read back, and
when what is in memory expires.

    keep ──▶ there is room: in memory ──▶ pop
        └──▶ there is none: left to the log ──▶ `hungry` ──▶ read ──▶ refill ──▶ in memory
    apart, no body: a stub ──▶ it is next: `hungry` ──▶ read by its id ──▶ fetched ──▶ in memory

One rule: the line in memory is a copy of the front of what is ready; letting go of a part of it, or
reading it again, changes neither what is ready nor its order.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from journal.errors import Damage
from journal.format import Record, decode_meta, said_of_put
from journal.format.item_header import item_header_of
from kestrelpy.core.index.disk_refs import pack
from kestrelpy.core.index.leases import Lease
from kestrelpy.core.index.ready_list import ITEM_COST, NO_FRONTIER
from kestrelpy.core.item import Item, bare_item
from kestrelpy.core.timers import Entry, Timers

if TYPE_CHECKING:
    from kestrelpy.core.subscription.subscription import Reader

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


class Line:
    """The bookkeeping between `Reader.ready` and `Reader.log`.

    `watched` are the items in memory, by id, that expire. `placings` say up to which place which
    record gave them, while that may not be stored.
    """

    __slots__ = ("_expiries", "_reader", "placings", "watched")

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self.placings: deque[tuple[int, int]] = deque()
        self._expiries: Timers[Item] = Timers()
        self.watched: dict[int, Entry[Item]] = {}

    # -- into memory, and out of it ---------------------------------------------------------

    @property
    def cost(self) -> int:
        """How much memory the line and the bodies of lent items take, in bytes."""
        ready = self._reader.ready
        resident = ready.resident_bytes + ready.resident * ITEM_COST
        return resident + ready.parked_cost + self._reader.lent_bytes

    def said(self, lease: Lease) -> None:
        """Its holder has the body of what was lent: if memory is scarce, only the log keeps it.

        (Whoever was shown the same item and has not said it yet keeps it as it is.)
        """
        reader, cost = self._reader, self.cost
        if (
            cost > reader.residency.allowed
            and not reader.residency.grow(cost)
            and reader.log.backlog is not None
        ):
            reader.lent_bytes -= len(lease.item.body)
            lease.item = lease.item.without_body()

    def keep(self, item: Item) -> None:
        """An arrival, into the line: in memory, or left to the log."""
        reader = self._reader
        ready = reader.ready
        cost = self.cost
        if ready.beyond or (
            cost >= reader.residency.allowed
            and not reader.residency.grow(cost)
            and reader.log.backlog is not None  # else it is nowhere but here
        ):
            ready.push_beyond(item.id, item.size)
            if item.expires_ms:
                reader.left(item.expires_ms)
            return
        ready.push(item)
        if item.expires_ms:
            self._watch_expiry(item)

    def take_back(self, item: Item, place: int) -> None:
        """It is back at its place; the youngest make room for it if need be.

        Without its body it is read again when it is next; so is one that stands apart and for
        which there is no room.
        """
        reader = self._reader
        ready = reader.ready
        is_apart = place != item.id or item.id in reader.elsewhere
        if not item.is_whole and (is_apart or place < ready.frontier):
            self.forget_expiry(item.id)
            self.stand(place, item.id, item.size)
            return
        if is_apart:
            reader.elsewhere.add(item.id)
        ready.give_back(place, item)
        if place >= ready.frontier:
            self.forget_expiry(item.id)
        elif item.expires_ms and item.id not in self.watched:
            self._watch_expiry(item)
        cost, allowed = self.cost, reader.residency.allowed
        if cost <= allowed + _SLACK_BYTES or reader.residency.grow(cost):
            return
        if reader.log.backlog is not None:
            most = allowed - allowed // _SPARE_PART - reader.lent_bytes - ready.parked_cost
            self._leave(ready.evict(most))

    def _leave(self, gone: list[Item]) -> None:
        """These are left to the log; what is read next is another item than was thought."""
        for item in gone:
            self.forget_expiry(item.id)
        if self._reader.log.backlog is not None:
            self._reader.log.backlog.reset()

    @property
    def is_cut_off(self) -> bool:
        """Will what waits behind the frontier never be written?"""
        reader, backlog = self._reader, self._reader.log.backlog
        if reader.log.failure is None or reader.is_hungry or reader.unread or backlog is None:
            return False
        is_reading = backlog.is_reading or reader.ready.stubs.is_fetching
        return not (is_reading or backlog.has_more)

    def begin(self, stubs: list[int], apart_bytes: int) -> None:
        """After replay: what is neither lent nor dead is left to the log, and read as needed.

        `apart_bytes` are those of all bodies elsewhere, `stubs` those of them that are ready.
        """
        reader = self._reader
        ready = reader.ready
        ready.clear(reader.residency.trash)
        deaths, apart = reader.dead.deaths, reader.elsewhere
        entries = reader.leases.entries.values()
        leased = [entry for entry in entries if entry.item not in deaths]
        ready.beyond = len(reader.live) - len(deaths) - len(leased) - len(apart)
        if ready.beyond:
            lent_bytes = sum(entry.body_bytes for entry in leased)
            ready.beyond_bytes = max(
                reader.live_bytes - reader.dead.bytes - lent_bytes - apart_bytes, 0
            )
            ready.frontier = self._next_plain(1)
        ready.stubs.begin(stubs)

    def clear(self) -> None:
        """Nothing is ready any more."""
        trash = self._reader.residency.trash
        self._reader.ready.clear(trash)
        trash.take(self._expiries.take_all(), self.watched)
        self.watched = {}
        if self._reader.log.backlog is not None:
            self._reader.log.backlog.reset()

    # -- reading back -----------------------------------------------------------------------

    def has_room(self, most: int = REFILL_ITEMS) -> bool:
        """Is there more to read back, and room for it?"""
        return self._reader.ready.beyond > 0 and self._may_read(most)

    def _may_read(self, most: int = REFILL_ITEMS) -> bool:
        """Is there room for what is read back? (For the first item there always is.)"""
        ready = self._reader.ready
        if ready.resident >= most:
            return False
        cost, residency = self.cost, self._reader.residency
        return not ready.resident or cost < residency.allowed or residency.grow(cost)

    def refill(self, wall_ms: int, most: int = REFILL_ITEMS) -> None:
        """Take what has been read back into the line, up to `most` items, and ask for more."""
        reader = self._reader
        backlog, ready = reader.log.backlog, reader.ready
        if backlog is None:
            return
        reader.catch_up()  # what is taken here must be known: it is not read twice
        for _ in range(_TAKES_MAX):
            if not self.has_room(most):
                break
            records = backlog.take(ready.frontier, REFILL_ITEMS)
            if not records:
                break
            for record in records:
                self._take_in(record, wall_ms)
        if not ready.beyond:
            backlog.rest()
            reader.residency.shrink(self.cost)
        elif self.has_room(most):
            reader.ask()
        if ready.stubs.count:
            self.look_ahead()  # one that expires may stand behind what was read

    def _take_in(self, record: Record, wall_ms: int) -> None:
        reader, id_ = self._reader, record.item
        ready = reader.ready
        if id_ < ready.frontier:
            return
        if id_ > ready.frontier:
            self.pass_over(id_ - 1)
        if not self._is_plain(id_) or id_ not in reader.live:
            ready.advance(id_ + 1)
            return
        item = reader.bound(item_of(record))
        ready.drop_beyond(item.size)
        ready.advance(id_ + 1)
        if 0 < item.expires_ms <= wall_ms:
            reader.expire(item, wall_ms)
            return
        ready.push(item)
        if item.expires_ms:
            self._watch_expiry(item)

    def pass_over(self, last: int) -> None:
        """Items from the frontier up to `last` are not in the log any more: damaged, and named.

        They stay among those that are there, so that their segment does; a start tries again.
        """
        reader = self._reader
        ready, first = reader.ready, reader.ready.frontier
        if last >= reader.live.last:
            last, lost = max(reader.live.last, first), ready.beyond
        else:
            lost = self.count_unlent(first, last)
        if lost:
            ready.drop_beyond(ready.beyond_bytes * lost // ready.beyond, lost)
            self.name_unreadable(lost, reader.live.first_from(first), last)
            for id_ in reader.keyed.keys.holders(first, last):
                if id_ in reader.live and self._is_plain(id_):
                    reader.keyed.drop_unread(id_, 0)  # whoever waits for it goes on
        ready.advance(last + 1)

    def count_unlent(self, first: int, last: int) -> int:
        """How many of these are there, and in the plain line."""
        reader = self._reader
        live, leases = reader.live, reader.leases
        if last - first < _FEW_IDS:
            return sum(i in live and self._is_plain(i) for i in range(first, last + 1))
        loose = leases.without_token()
        apart = sum(first <= lease.item.id <= last for lease in loose if not lease.dead)
        apart += leases.token_ids.count_between(first, last)
        apart += reader.dead.ids.count_between(first, last)
        apart += reader.elsewhere.count_between(first, last)
        return live.count_between(first, last) - apart

    def _is_plain(self, id_: int) -> bool:
        """Does this item, if it is there, stand in the plain line?"""
        reader = self._reader
        return not (id_ in reader.leases or id_ in reader.dead.deaths or id_ in reader.elsewhere)

    def _next_plain(self, id_: int) -> int:
        """The first item of the plain line that is not below `id_`."""
        live = self._reader.live
        found = live.first_from(id_)
        while found and not self._is_plain(found):
            found = live.first_from(found + 1)
        return found

    def pop_any(self, wall_ms: int) -> Item | None:
        """The head, out of the line; if only the log knows it, its size is a guess.

        It has its key, or waits for it, until the caller drops it.
        """
        ready = self._reader.ready
        if ready.beyond and ready.resident < REFILL_ITEMS:
            self.refill(wall_ms)
        if ready.parked:
            oldest = self._reader.keyed.oldest(ready.first_place())
            if oldest is not None:
                return oldest
        found = ready.pop()
        if found is not None:
            return found[1]
        return self._unread_first() if ready.beyond or ready.stubs.count else None

    def _unread_first(self) -> Item:
        ready = self._reader.ready
        id_ = self._next_plain(ready.frontier) if ready.beyond else NO_FRONTIER
        if ready.stubs.count and ready.stubs.first_place() < id_:
            _, id_, size = ready.stubs.pop()
            return bare_item(id_, size)
        body = bytes(ready.beyond_bytes // ready.beyond)
        ready.drop_beyond(len(body))
        ready.advance(id_ + 1)
        return Item(id_, id_, body, 0, 0, 0, 1)

    def name_unreadable(self, count: int, first: int, last: int) -> None:
        """Items that are there by what the log says, and that it does not hold any more."""
        where, what = f"queue {self._reader.name.decode('ascii')}", f"{count} not readable"
        self._reader.damages.append(Damage("corrupt", where, 0, 0, what, 1, 1, first, last))

    # -- the dead ---------------------------------------------------------------------------

    def revive(self, record: Record) -> None:
        """The body of the first dead item has been read back."""
        dead = self._reader.dead
        if record.item in dead.deaths and record.item not in self._reader.leases:
            dead.take_in(item_of(record, self._reader.marks.of(record.item, 0)))

    def hide(self, id_: int) -> None:
        """The body of this dead item is not readable: named, and not offered until a start."""
        dead = self._reader.dead
        if id_ == dead.sought:
            dead.hide(id_)
            self.name_unreadable(1, id_, id_)

    # -- what stands apart ------------------------------------------------------------------

    def stand(self, place: int, id_: int, body_bytes: int) -> None:
        """This one is ready at its place, and only the log has its body."""
        self._reader.elsewhere.add(id_)
        self._reader.ready.stubs.push(pack(place, id_, body_bytes))

    def placed(self, place: int, lsn: int) -> None:
        """The record `lsn` gave this place, higher than any before: it is shown when that is."""
        placed, stored = self.placings, self._reader.log.lsn_stored
        while placed and placed[0][1] <= stored:
            placed.popleft()
        placed.append((place, lsn))

    def _lsn_of(self, place: int) -> int:
        """The record that gave this place, if it may not be stored yet; else 0."""
        at = bisect_left(self.placings, (place, 0))
        found = self.placings[at] if at < len(self.placings) else (0, 0)
        return found[1] if found[0] == place else 0

    def look_ahead(self) -> None:
        """Ask for the next stubs where they are needed soon."""
        ready = self._reader.ready
        if ready.stubs.is_fetching or ready.stubs.first_in_line() >= ready.frontier:
            return
        if ready.resident < REFILL_ITEMS or ready.is_held_up:
            self._reader.ask()

    def begin_fetch(self) -> list[int]:
        """Ids of items that stand apart and are to be read now; give them to `fetched`."""
        reader, stubs = self._reader, self._reader.ready.stubs
        if not stubs.count or stubs.is_fetching:
            return []
        if not (self._may_read() or reader.ready.is_held_up):
            return []  # it comes when it is next
        cost = self.cost
        if cost + _FETCHED_BYTES_MAX > reader.residency.allowed:
            reader.residency.grow(cost)
        left = min(max(reader.residency.allowed - cost, 0), _FETCHED_BYTES_MAX)
        return stubs.begin_fetch(reader.ready.frontier, REFILL_ITEMS, left)

    def fetched(self, records: Iterable[Record]) -> None:
        """These were read, and are in memory at their places."""
        reader = self._reader
        ready = reader.ready
        for record in records:
            place = ready.stubs.fetched(record.item)
            if not place:
                continue  # it is gone
            item = reader.bound(item_of(record, reader.marks.of(record.item, place)))
            item.lsn = max(item.lsn, self._lsn_of(place))
            ready.give_back(place, item)
            if item.expires_ms and place < ready.frontier:
                self._watch_expiry(item)
        self.look_ahead()

    def hide_stub(self, id_: int) -> None:
        """This one's body is not readable: named, and not offered until a start."""
        reader = self._reader
        reader.keyed.drop_unread(id_, 0)  # whoever waits for it goes on
        if reader.ready.stubs.fetched(id_) and reader.log.failure is None:
            self.name_unreadable(1, id_, id_)  # else it was never written, most likely

    # -- expiry -----------------------------------------------------------------------------

    def next_expiry(self) -> int | None:
        """When the next item in memory expires, wall clock; None: none does."""
        return self._expiries.next_due()

    def pop_expired(self, wall_ms: int) -> Item | None:
        """The next item that is past its expiry, be it lent; None: there is none in memory."""
        item = self._expiries.pop_due(wall_ms)
        if item is not None:
            self.watched.pop(item.id, None)
        return item

    def _watch_expiry(self, item: Item) -> None:
        self.watched[item.id] = self._expiries.push(item.expires_ms, item)
        self._reader.alarm.need(item.expires_ms - self._reader.wall.offset_ms)

    def forget_expiry(self, id_: int) -> None:
        """It does not expire, or is not in memory any more."""
        entry = self.watched.pop(id_, None) if self.watched else None
        if entry is not None:
            self._expiries.cancel(entry)


def item_of(record: Record, marker: int = 0) -> Item:
    """The item that this put stored; its marker is its id, unless it has another one."""
    meta = record.meta
    said = decode_meta(meta) if meta else {}
    expires_ms, key, _ = said_of_put(meta, said)
    return Item(
        record.item, marker or record.number, record.body, record.small, record.time_ms, expires_ms,
        record.lsn, key, item_header_of(meta, 0, said),
    )  # fmt: skip
