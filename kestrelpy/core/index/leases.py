"""The leases of one subscription: the holder and the deadline of each leased item.

Most leases of a queue have the same length, so they end in the order of their grants. A dict keeps
that order, and grants and ends a lease in constant time. A second dict does the same for renewed
leases, which mostly have one length. Leases with a deadline out of order go to a heap.

    granted    5 7 9 ...        by token   5: only leases with a token that a client was shown
    renewed    3 2 4 ...
    others     heap 1 8 ...

One rule: a lease is in exactly one of `granted`, `renewed` and `others` until it ends, and ends
once.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from itertools import chain, islice
from typing import NamedTuple

from journal.format import LeaseEntry
from journal.sets import IdSet
from kestrelpy.core.item import Item
from kestrelpy.core.timers import Entry, Timers
from kestrelpy.core.trash import Trash


class Holder:
    """A holder of leases: a connection, all clients with a token of one subscription, or the mover.

    `leases` are the holder's own, oldest first; any of them ends in constant time. Leases of the
    mover are not in it. `overdue` names, once per lease, the subscription of each lease that ended
    while this holder still had it.
    """

    __slots__ = ("leases", "name", "overdue")

    def __init__(self, name: str) -> None:
        self.name = name
        self.leases: OrderedDict[Lease, None] = OrderedDict()
        self.overdue: list[object] = []


class Lease:
    """One item leased to one holder. `attempts` are those before this delivery.

    `began_ms` is wall clock; `deadline_ms` is on the monotonic clock (None: no end). `dead`: the
    item is a dead letter, and a nack returns it to the dead letters. `by_token`: the log has the
    lease in the record `lsn` (0: from before this start), and any client with the token may end
    it. `is_moving`: only the mover or the end of the queue ends the lease, and it is not among the
    leases of its holder.
    """

    __slots__ = (
        "attempts", "began_ms", "by_token", "dead", "deadline_ms", "holder", "is_moving", "item",
        "lsn", "owner", "place", "timer", "token",
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
        self.is_moving = False
        self.lsn = 0
        self.timer: Entry[Lease] | None = None


class Former(NamedTuple):
    """What a lease was before the mover got it; `is_named`: its token names it."""

    holder: Holder
    deadline_ms: int | None
    is_named: bool


class _ByDeadline:
    """Leases by item, in the order of their deadlines. `latest_ms` is the latest one added."""

    __slots__ = ("latest_ms", "leases")

    def __init__(self) -> None:
        self.leases: dict[int, Lease] = {}
        self.latest_ms = 0

    @property
    def first_ms(self) -> int | None:
        """The earliest deadline; None: there is none."""
        first = next(iter(self.leases.values()), None)
        return None if first is None else first.deadline_ms


class Leases:
    """The leases of one subscription, by item, by deadline and by token.

    `moving` are the items leased to the mover, without dead letters.
    `entries` are the leases by token as the log has them, by item. Of these leases, `token_ids` are
    the items that are not dead letters, and `token_bytes` the size of their bodies.
    """

    __slots__ = (
        "_by_token", "_granted", "_others", "_renewed", "_timers", "entries", "moving", "places",
        "token_bytes", "token_ids",
    )  # fmt: skip

    def __init__(self) -> None:
        self.entries: dict[int, LeaseEntry] = {}
        self.token_ids = IdSet()
        self.token_bytes = 0
        self.moving = IdSet()
        self.places: dict[int, int] = {}  # after replay: by item, the places that are no id
        self._by_token: dict[int, Lease] = {}
        self._granted = _ByDeadline()
        self._renewed = _ByDeadline()
        self._others: dict[int, Lease] = {}
        self._timers: Timers[Lease] = Timers()

    def __len__(self) -> int:
        return len(self._granted.leases) + len(self._renewed.leases) + len(self._others)

    def __iter__(self) -> Iterator[Lease]:
        return iter(self.all())

    def all(self) -> list[Lease]:
        """Return all leases as a new list."""
        granted, renewed = self._granted.leases, self._renewed.leases
        return [*granted.values(), *renewed.values(), *self._others.values()]

    def some(self, start: int, most: int) -> list[Lease]:
        """Return the leases from this position on, `most` at most, in the order of `all`."""
        granted, renewed = self._granted.leases, self._renewed.leases
        each = chain(granted.values(), renewed.values(), self._others.values())
        return list(islice(each, start, start + most))

    def first_began_ms(self) -> int | None:
        """Return when the first of the leases with the earliest deadlines began, of those that were
        granted, renewed, or have no deadline; None: there is none."""
        groups = self._granted.leases, self._renewed.leases, self._others
        return min(
            (each.began_ms for group in groups for each in islice(group.values(), 1)), default=None
        )

    def without_token(self) -> list[Lease]:
        """Return the leases by connection, and the mover's leases that never were by token."""
        if len(self) == len(self.entries):
            return []
        return [lease for lease in self.all() if not lease.by_token]

    def __contains__(self, item_id: int) -> bool:
        return self.of(item_id) is not None

    def of(self, item_id: int) -> Lease | None:
        """Return the lease of this item, if it is leased."""
        return (
            self._granted.leases.get(item_id)
            or self._renewed.leases.get(item_id)
            or self._others.get(item_id)
        )

    def grant(self, lease: Lease) -> None:
        """Add a lease."""
        if lease.is_moving:
            self._move(lease)
            return
        lease.holder.leases[lease] = None
        granted, deadline_ms = self._granted, lease.deadline_ms
        if deadline_ms is not None and deadline_ms >= granted.latest_ms:  # nearly all
            granted.latest_ms = deadline_ms
            granted.leases[lease.item.id] = lease
        else:
            self._place(lease, granted)

    def enter(self, lease: Lease, entry: LeaseEntry) -> None:
        """Make it a lease by token; `entry` is the log's record of it."""
        lease.by_token = True
        self.entries[lease.item.id] = entry
        if lease.token:
            self._by_token[lease.token] = lease
        if not lease.dead:
            self.token_ids.add(lease.item.id)
            self.token_bytes += entry.body_bytes

    def leave(self, lease: Lease, entry: LeaseEntry) -> None:
        """Note what the log says of the mover's lease of an item that leaves for another server."""
        if not lease.by_token:
            lease.by_token = True
            if not lease.dead:
                self.token_ids.add(lease.item.id)
                self.token_bytes += entry.body_bytes
        self.entries[lease.item.id] = entry

    def forget(self, lease: Lease) -> None:
        """Note that the log does not have this lease any more."""
        lease.by_token = False
        del self.entries[lease.item.id]
        if not lease.dead:
            self.token_ids.discard(lease.item.id)
            self.token_bytes -= lease.item.size

    def show(self, lease: Lease) -> None:
        """Register the token for the holder to see: it names the lease from any connection."""
        if lease in lease.holder.leases:  # else it ended before its reply was sent
            self._by_token[lease.token] = lease

    def by_token(self, token: int) -> Lease | None:
        """Return the lease of this token, if a client was shown the token and the lease lasts."""
        return self._by_token.get(token)

    def end(self, lease: Lease) -> None:
        """Remove a lease from here and from its holder."""
        if lease.is_moving:
            del self._others[lease.item.id]  # it has no deadline, and no token names it
            self.moving.discard(lease.item.id)
        else:
            del lease.holder.leases[lease]
            self._displace(lease)
            if self._by_token:
                self._by_token.pop(lease.token, None)
        if lease.by_token:
            del self.entries[lease.item.id]
            if not lease.dead:
                self.token_ids.discard(lease.item.id)
                self.token_bytes -= lease.item.size

    def drop(self, tokens: Holder, trash: Trash) -> None:
        """Take all leases from their holders and hand them to `trash`: the queue is deleted.

        `tokens` is the holder of the leases by token.
        """
        for lease in self.without_token():
            if not lease.is_moving:
                del lease.holder.leases[lease]
        trash.take(
            tokens.leases, self.entries, self._by_token, self._granted.leases,
            self._renewed.leases, self._others, self._timers.take_all(),
        )  # fmt: skip
        tokens.leases = OrderedDict()

    def forward(self, lease: Lease, mover: Holder) -> Former:
        """Pass a lease to the mover: it has no deadline any more, and no token names it. Return
        what it was.

        A lease by token stays in `entries`: the log has it until the item ends.
        """
        former = Former(lease.holder, lease.deadline_ms, lease.token in self._by_token)
        del lease.holder.leases[lease]
        self._displace(lease)
        if self._by_token:
            self._by_token.pop(lease.token, None)
        lease.holder, lease.deadline_ms, lease.is_moving = mover, None, True
        self._move(lease)
        return former

    def hand_back(self, lease: Lease, former: Former) -> None:
        """Pass a lease back from the mover to the holder that had it."""
        del self._others[lease.item.id]
        self.moving.discard(lease.item.id)
        lease.holder, lease.deadline_ms, lease.is_moving = former.holder, former.deadline_ms, False
        if former.is_named:
            self._by_token[lease.token] = lease
        self.grant(lease)

    def _move(self, lease: Lease) -> None:
        self._others[lease.item.id] = lease
        if not lease.dead:
            self.moving.add(lease.item.id)

    def renew(self, lease: Lease, deadline_ms: int) -> None:
        """Give a lease another deadline."""
        self._displace(lease)
        lease.deadline_ms = deadline_ms
        self._place(lease, self._renewed)

    def next_due(self) -> int | None:
        """Return the earliest deadline; None: no lease has one."""
        due = [self._granted.first_ms, self._renewed.first_ms, self._timers.next_due()]
        return min((at_ms for at_ms in due if at_ms is not None), default=None)

    def over(self, now_ms: int, most: int) -> list[Lease]:
        """Return at most `most` leases that are past their deadline, in order.

        The caller ends them all. One call returns many, because a dict that is emptied from its
        front is slow to find its first entry.
        """
        over: list[Lease] = []
        while len(over) < most:
            lease = self._timers.pop_due(now_ms)
            if lease is None:
                break
            over.append(lease)
        for in_order in (self._granted, self._renewed):
            for lease in in_order.leases.values():
                if len(over) >= most or (lease.deadline_ms or 0) > now_ms:
                    break
                over.append(lease)
        over.sort(key=lambda lease: (lease.deadline_ms or 0, lease.place))
        return over

    def _place(self, lease: Lease, by_deadline: _ByDeadline) -> None:
        deadline_ms = lease.deadline_ms
        if deadline_ms is None:
            self._others[lease.item.id] = lease
        elif deadline_ms >= by_deadline.latest_ms or not by_deadline.leases:
            by_deadline.latest_ms = deadline_ms
            by_deadline.leases[lease.item.id] = lease
        else:
            self._others[lease.item.id] = lease
            lease.timer = self._timers.push(deadline_ms, lease)

    def _displace(self, lease: Lease) -> None:
        id_ = lease.item.id
        if self._granted.leases.pop(id_, None) is not None:
            return
        if self._renewed.leases.pop(id_, None) is not None:
            return
        del self._others[id_]
        if lease.timer is not None:
            self._timers.cancel(lease.timer)
            lease.timer = None
