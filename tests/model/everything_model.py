"""The spec's rules of queues, children, keys, leases, delays, dead letters, ids and versions.

Written from the spec, not from the code. Times are wall clock. Where the spec leaves freedom the
model says so with the word "may": `Town.transfers` holds the items that have left one queue and
show up in another when that one is looked at.

One rule: a method here changes only the model; the machines compare the server's answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count

from tests.model.everything_lines import FOREVER, Id, Item, Line, Place, Rules, Store
from tests.model.everything_schedules import Beat
from tests.model.everything_waits import Waits


@dataclass(eq=False)
class Transfer:
    """An item that has left a queue for another one."""

    target: str
    item: Item
    keeps_expiry: bool
    source: str
    may_be_late: bool = False  # a child sees the expiry of what came back when it is next
    life_ms: int = 0  # of a dead letter, from when it comes; 0: it does not expire


class Town:
    """All queues of a server."""

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self.stores: dict[str, Store] = {}
        self.transfers: list[Transfer] = []
        self.over: list[tuple[str, str]] = []  # (connection, line) whose lease has ended
        self.beats: list[Beat] = []
        self.expired = 0
        self.waits = Waits(self.lend)
        self._deaths = count(1)

    def line(self, name: str) -> Line:
        return self.stores[name.partition("+")[0]].lines[name]

    def store(self, name: str) -> Store:
        return self.stores[name.partition("+")[0]]

    def lines(self) -> list[Line]:
        return [line for store in self.stores.values() for line in store.lines.values()]

    def is_expired(self, item: Item | Place) -> bool:
        return 0 < item.expires_ms <= self.now_ms

    # -- storing ----------------------------------------------------------------------------

    def put(
        self, name: str, body: bytes, expires_ms: int = 0, due_ms: int = 0, key: str = "",
        id_: Id | None = None,
    ) -> bool:  # fmt: skip
        """Store it for the queue and its children, or for one child; False: it is full."""
        store, line = self.store(name), self.line(name)
        own_takes = not (line.rules.fanout_only and name == store.name)
        most = line.rules.max_bytes if line.rules.max_bytes is not None else FOREVER
        # A body above the limit: the spec does not say that `fanout_only` lets it pass.
        if not self._make_room(line, len(body)) if own_takes else len(body) > most:
            return False
        store.exists = True
        for_all = name == store.name
        store.last = next(store.numbers)
        item = Item(store.last, body, self.now_ms, expires_ms, key, for_all=for_all)
        item.id = id_.text if id_ else ""
        item.due_ms = due_ms if due_ms > self.now_ms else 0
        if not item.due_ms:
            item.marker = item.number
        readers = list(store.lines.values()) if for_all else [line]
        for reader in readers:
            if reader is line and not own_takes:
                continue
            self._take(store, reader, item)
        if for_all:
            if store.own.rules.retain_ms:
                store.retained.append(item)
                item.may_be_gone |= not own_takes  # the spec does not say
            if id_:
                store.remember(id_, item, self.now_ms)
            if key:
                store.versions[store.stream(key)] = (
                    store.version(key, self.now_ms) + 1, self.now_ms
                )  # fmt: skip
        store.newest = item
        self.sweep()
        return True

    def has_room_for(self, beat: Beat) -> bool:
        """True if the queue of this schedule takes its next item."""
        line, size = self.line(beat.queue), len(beat.body)
        if line.rules.fanout_only:
            return line.rules.max_bytes is None or size <= line.rules.max_bytes
        return line.may_take(size)

    def beat(self, beat: Beat, stored_ms: int) -> bool:
        """Note that a schedule put an item then; False if that is one too many."""
        max_age_ms = self.line(beat.queue).rules.max_age_ms
        expires_ms = stored_ms + max_age_ms if max_age_ms is not None else 0
        is_due = beat.may > 0 and stored_ms <= self.now_ms
        beat.put(stored_ms)
        is_in = is_due and self.put(beat.queue, beat.body, expires_ms)
        newest = self.stores[beat.queue].newest
        if is_in and newest is not None:
            newest.stored_ms = stored_ms
        return is_in

    def _take(self, store: Store, line: Line, item: Item) -> None:
        """Put it into this line; a full child drops the newest for itself, or its oldest."""
        if not self._make_room(line, len(item.body)):
            return
        line.places.append(Place(item, item.marker, item.due_ms))

    def _make_room(self, line: Line, size: int) -> bool:
        """Drop first items until there is room; delayed items stay, and none is dropped in vain."""
        if not line.may_take(size):
            return False
        while not line.has_room(size) and line.ready:
            self._gone(line, line.ready[0], surely_retained=False)
        return line.has_room(size)

    def _gone(self, line: Line, place: Place, surely_retained: bool = True) -> None:
        """Take the item from its reader; it is retained as done, surely or not."""
        line.places.remove(place)
        if not surely_retained:
            place.item.may_be_gone = True

    # -- leases -----------------------------------------------------------------------------

    def lend(self, line: Line, place: Place, holder: str, lease_ms: int | None) -> None:
        """Lease it to a connection, or to any client with the token."""
        place.holder, place.was_leased = holder, True
        lease_ms = lease_ms if lease_ms is not None else line.rules.lease_ms
        place.until_ms = None if lease_ms is None else self.now_ms + lease_ms

    def confirm(self, line: Line, place: Place) -> None:
        self._gone(line, place)

    def give_back(self, line: Line, place: Place, how: str, delay_ms: int | None = None) -> None:
        """`how`: abort, dead, defer."""
        place.holder, place.until_ms, place.token = "", None, 0
        if place.died:
            return
        if how != "defer":
            place.attempts += 1
            if how == "dead" or place.attempts >= line.rules.max_attempts:
                self._die(line, place)
                return
            if delay_ms is None:
                delay_ms = self._retry_delay(line.rules, place.attempts)
        if delay_ms:
            place.rank, place.due_ms, place.held = 0, self.now_ms + delay_ms, True
        self.sweep()

    def _retry_delay(self, rules: Rules, attempts: int) -> int:
        wait_ms = rules.retry_delay_ms * rules.retry_backoff ** (attempts - 1)
        return int(min(wait_ms, rules.retry_delay_max_ms))

    def _die(self, line: Line, place: Place) -> None:
        place.died, place.rank, place.held = next(self._deaths), 0, False
        if line.rules.dead_letter_to:
            self.leave(line, place, line.rules.dead_letter_to, False)
            self.transfers[-1].life_ms = line.rules.dead_letter_age_ms or 0

    def leave(self, line: Line, place: Place, target: str, keeps_expiry: bool) -> None:
        """Move an item to another queue."""
        self._gone(line, place, surely_retained=False)
        may_be_late = "+" in line.name and place.was_leased and not place.died
        keeps_expiry &= not place.ageless
        self.transfers.append(Transfer(target, place.item, keeps_expiry, line.name, may_be_late))

    def arrive(self, transfer: Transfer, stored_ms: int) -> None:
        """Store the item of a transfer as a new arrival. A moved item keeps the rest of its expiry,
        and a dead letter may get another."""
        self.transfers.remove(transfer)
        expires_ms = transfer.item.expires_ms if transfer.keeps_expiry else 0
        expires_ms = expires_ms if expires_ms > self.now_ms else 0
        if transfer.life_ms:
            age_ms = self.now_ms - stored_ms
            assert 0 <= age_ms < transfer.life_ms, f"{transfer} came at {stored_ms}"
            expires_ms = stored_ms + transfer.life_ms
        self.put(transfer.target, transfer.item.body, expires_ms, key=transfer.item.key)

    # -- ends of everything -----------------------------------------------------------------

    def flush(self, line: Line) -> None:
        """Remove the ready and delayed items; the leased and dead ones stay."""
        for place in [*line.ready, *line.delayed]:
            self._gone(line, place)

    def up_to(self, line: Line, marker: int) -> None:
        """Confirm everything up to a marker, also leased items; delayed and dead ones stay."""
        for place in line.places[:]:
            if place.state in ("ready", "lent") and not place.died and place.item.marker <= marker:
                if place.holder not in ("", "token"):
                    self.over.append((place.holder, line.name))
                self._gone(line, place)

    def redrive(self, line: Line, place: Place) -> None:
        """Make a dead letter available again, at the end of its own line."""
        place.died, place.attempts, place.ageless = 0, 0, True
        store = self.store(line.name)
        store.last = place.rank = next(store.numbers)
        self.sweep()

    def purge(self, line: Line, place: Place) -> None:
        """Remove a dead letter; the spec does not say whether it is retained then."""
        self._gone(line, place, surely_retained=False)
        self.sweep()

    def hang_up(self, who: str) -> None:
        self.waits.all = [wait for wait in self.waits.all if wait.who != who]
        for line in self.lines():
            for place in [p for p in line.leased if p.holder == who]:
                self.give_back(line, place, "abort")

    def restart(self, forgotten: str = "") -> None:
        """Leases by connection end and count no attempt; those by token go on.

        `forgotten`: a queue in memory that is gone.
        """
        for beat in self.beats:
            beat.restart(beat.queue == forgotten)
        for line in self.lines():
            for place in line.leased:
                if place.holder != "token":
                    place.holder, place.until_ms, place.token = "", None, 0
        self.over.clear()
        self.waits.all.clear()
        self.sweep()

    # -- time -------------------------------------------------------------------------------

    def pass_time(self, ms: int) -> None:
        """Let everything happen that is due on the way."""
        end = self.now_ms + ms
        while (due := self.next_due()) <= end:
            self.now_ms = max(self.now_ms, due)
            for beat in self.beats:
                beat.had_room = self.has_room_for(beat)
            self.waits.end_first(self.now_ms)
            self._release_due()
            self._end_leases()
            self.sweep()
            self.serve()
            for line in self.lines():
                self.waits.end_last(line, self.now_ms)
            for beat in self.beats:
                beat.come(self.now_ms)
        self.now_ms = end

    def serve(self) -> None:
        """Serve all waiting clients with the available items."""
        for line in self.lines():
            self.waits.serve(line, self.store(line.name))

    def next_due(self) -> int:
        """Return when something happens next."""
        dues = [FOREVER, *self.waits.next_ms(), *(beat.next_ms for beat in self.beats)]
        for line in self.lines():
            dues += [p.due_ms for p in line.delayed]
            dues += [p.until_ms for p in line.leased if p.until_ms is not None]
            waiting = [*line.ready, *line.delayed]
            dues += [p.expires_ms for p in waiting if p.expires_ms]
        return min(dues)

    def _release_due(self) -> None:
        for store in self.stores.values():
            due = [
                p for line in store.lines.values() for p in line.delayed if p.due_ms <= self.now_ms
            ]
            for place in sorted(due, key=lambda p: (p.due_ms, p.item.number)):
                if not place.rank:
                    self._release(store, place)

    def _release(self, store: Store, place: Place) -> None:
        """For the first time it is released in all lines at once, else in its own."""
        item = place.item
        store.last = number = next(store.numbers)
        again = [place]
        if not item.marker:
            item.marker, item.released_ms = number, self.now_ms
            places = [p for line in store.lines.values() for p in line.delayed]
            again = [p for p in places if p.item is item]
        for each in again:
            each.rank, each.due_ms = number, 0

    def overtake(self, store: Store, item: Item) -> None:
        """Place this item after the others of the moment in which its delay ended."""
        store.last = item.marker = next(store.numbers)
        for line in store.lines.values():
            for place in line.places:
                if place.item is item and place.rank:
                    place.rank = item.marker

    def retry(self, line: Line, place: Place) -> None:
        """Make a delayed item available now."""
        self._release(self.store(line.name), place)
        self.sweep()

    def _end_leases(self) -> None:
        for line in self.lines():
            over = [p for p in line.leased if p.until_ms is not None and p.until_ms <= self.now_ms]
            for place in sorted(over, key=lambda p: (p.until_ms, p.died or p.rank)):
                if place.holder != "token":
                    self.over.append((place.holder, line.name))
                self.give_back(line, place, "abort")

    def sweep(self) -> None:
        """Remove expired ready and delayed items, or move them to `expire_to`."""
        for line in self.lines():
            for place in [*line.ready, *line.delayed]:
                if not self.is_expired(place):
                    continue
                self.expired += 1
                if line.rules.expire_to:
                    self.leave(line, place, line.rules.expire_to, False)
                else:
                    self._gone(line, place, surely_retained=False)
        for store in self.stores.values():
            retain_ms = store.own.rules.retain_ms
            for item in store.retained:
                item.may_be_gone |= item.stored_ms + retain_ms <= self.now_ms
