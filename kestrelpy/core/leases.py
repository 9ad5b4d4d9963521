"""Who holds what until when.

Most leases of a queue last equally long, so they end in the order they were granted: a dict keeps
that order and grants and ends a lease in constant time. Those with a deadline out of order (the
policy changed, the lease was renewed) go to a heap beside it.

    by item    5 7 9 ...        by token   5: only leases whose token somebody was shown

One rule: a lease is in exactly one of `in_order` and `others` until it ends, and ends once.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

from journal.lending import LeaseEntry
from kestrelpy.core.item import Item
from kestrelpy.core.timers import Entry, Timers


class Holder:
    """Whoever items are lent to: one connection, or all who know a token of one reader.

    `leases` are its own, oldest first (ended in constant time, whichever it is).
    `overdue` names the readers whose leases ended under this holder's hands, once for each.
    """

    __slots__ = ("leases", "name", "overdue")

    def __init__(self, name: str) -> None:
        self.name = name
        self.leases: OrderedDict[Lease, None] = OrderedDict()
        self.overdue: list[object] = []


class Lease:
    """One item lent to one holder. `attempts` are those before this delivery.

    `began_ms` is wall clock; `deadline_ms` runs on the clock that never steps (None: no end).
    `dead`: it was lent from the dead line and goes back there. `by_token`: it is in the log, by the
    record `lsn` (0: since before this start), and whoever knows the token may end it.
    """

    __slots__ = (
        "attempts", "began_ms", "by_token", "dead", "deadline_ms", "holder", "item", "lsn", "owner",
        "place", "timer", "token",
    )  # fmt: skip

    def __init__(
        self,
        item: Item,
        place: int,
        holder: Holder,
        owner: object,
        token: int,
        attempts: int,
        began_ms: int,
        deadline_ms: int | None,
    ) -> None:
        self.item = item
        self.place = place
        self.holder = holder
        self.owner = owner
        self.token = token
        self.attempts = attempts
        self.began_ms = began_ms
        self.deadline_ms = deadline_ms
        self.dead = False
        self.by_token = False
        self.lsn = 0
        self.timer: Entry[Lease] | None = None


class Leases:
    """The leases of one reader, by item, by deadline and by token.

    `entries` are those by token as the log has them, by item. (The dict itself stays the same.)
    """

    __slots__ = ("_by_token", "_in_order", "_latest_ms", "_others", "_timers", "entries", "places")

    def __init__(self) -> None:
        self.entries: dict[int, LeaseEntry] = {}
        self.places: dict[int, int] = {}  # after replay: of those that are no id
        self._by_token: dict[int, Lease] = {}
        self._in_order: dict[int, Lease] = {}
        self._others: dict[int, Lease] = {}
        self._timers: Timers[Lease] = Timers()
        self._latest_ms = 0

    def __len__(self) -> int:
        return len(self._in_order) + len(self._others)

    def __iter__(self) -> Iterator[Lease]:
        yield from self._in_order.values()
        yield from self._others.values()

    def __contains__(self, item_id: int) -> bool:
        return item_id in self._in_order or item_id in self._others

    def of(self, item_id: int) -> Lease | None:
        """The lease of this item, if it is lent."""
        return self._in_order.get(item_id) or self._others.get(item_id)

    def grant(self, lease: Lease) -> None:
        """It is lent from now on."""
        lease.holder.leases[lease] = None
        self._place(lease)

    def enter(self, lease: Lease, entry: LeaseEntry) -> None:
        """It is by token, and the log says so."""
        lease.by_token = True
        self.entries[lease.item.id] = entry
        self._by_token[lease.token] = lease

    def show(self, lease: Lease) -> None:
        """Its holder is told the token, which names it from any connection while it lasts."""
        if lease in lease.holder.leases:  # else it ended before who waited for it was told
            self._by_token[lease.token] = lease

    def by_token(self, token: int) -> Lease | None:
        """The lease of this token, if somebody was shown it and it has not ended."""
        return self._by_token.get(token)

    def end(self, lease: Lease) -> None:
        """It is not lent any more; whose it was no longer has it."""
        del lease.holder.leases[lease]
        self._displace(lease)
        if self._by_token:
            self._by_token.pop(lease.token, None)
            if lease.by_token:
                del self.entries[lease.item.id]

    def renew(self, lease: Lease, deadline_ms: int) -> None:
        """Another deadline."""
        self._displace(lease)
        lease.deadline_ms = deadline_ms
        self._place_other(lease)

    def next_due(self) -> int | None:
        """The earliest deadline; None: no lease has one."""
        lease = self._first()
        return None if lease is None else lease.deadline_ms

    def over(self, now_ms: int, most: int) -> list[Lease]:
        """Leases whose deadline has come, at most `most`, in order; the caller ends them all.

        Many at once: a dict that is emptied from its front is slow to show its first entry.
        """
        over: list[Lease] = []
        while len(over) < most:
            lease = self._timers.pop_due(now_ms)
            if lease is None:
                break
            over.append(lease)
        for lease in self._in_order.values():
            if len(over) >= most or (lease.deadline_ms or 0) > now_ms:
                break
            over.append(lease)
        over.sort(key=lambda lease: (lease.deadline_ms or 0, lease.place))
        return over

    def _first(self) -> Lease | None:
        in_order = next(iter(self._in_order.values()), None)
        entry = self._timers.first()
        if entry is None or entry.thing is None:
            return in_order
        if in_order is None or in_order.deadline_ms is None:
            return entry.thing
        return in_order if in_order.deadline_ms <= entry.due_ms else entry.thing

    def _place(self, lease: Lease) -> None:
        deadline_ms = lease.deadline_ms
        if deadline_ms is not None and (
            deadline_ms >= self._latest_ms or not self._in_order
        ):
            self._latest_ms = deadline_ms
            self._in_order[lease.item.id] = lease
            return
        self._place_other(lease)

    def _place_other(self, lease: Lease) -> None:
        self._others[lease.item.id] = lease
        if lease.deadline_ms is not None:
            lease.timer = self._timers.push(lease.deadline_ms, lease)

    def _displace(self, lease: Lease) -> None:
        if self._in_order.pop(lease.item.id, None) is not None:
            return
        del self._others[lease.item.id]
        if lease.timer is not None:
            self._timers.cancel(lease.timer)
            lease.timer = None
