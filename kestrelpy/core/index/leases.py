"""Who holds what until when.

Most leases of a queue last equally long, so they end in the order they were granted: a dict keeps
that order and grants and ends a lease in constant time. Another one does so for those renewed,
mostly for equally long, too. Those with a deadline out of order go to a heap beside them.

    granted    5 7 9 ...        by token   5: only leases whose token somebody was shown
    renewed    3 2 4 ...
    others     heap 1 8 ...

One rule: a lease is in exactly one of `granted`, `renewed` and `others` until it ends, and ends
once.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

from journal.format.lease import LeaseEntry
from journal.sets.id_set import IdSet
from kestrelpy.core.item import Item
from kestrelpy.core.timers import Entry, Timers
from kestrelpy.core.trash import Trash


class Holder:
    """Whoever items are lent to: one connection, all who know a token of one reader, or the mover.

    `leases` are its own, oldest first (ended in constant time, whichever it is); not the mover's.
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
    record `lsn` (0: since before this start), and whoever knows the token may end it. `is_moving`:
    only the mover ends it (or the end of the queue), and it is not among the leases of its holder.
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


class _InOrder:
    """Leases by item, in the order of their deadlines. `latest_ms` was the latest."""

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
    """The leases of one reader, by item, by deadline and by token.

    `entries` are those by token as the log has them, by item. Of the same leases, `token_ids` are
    the items that are not dead, and `token_bytes` the size of their bodies.
    """

    __slots__ = (
        "_by_token", "_granted", "_others", "_renewed", "_timers", "entries", "places",
        "token_bytes", "token_ids",
    )  # fmt: skip

    def __init__(self) -> None:
        self.entries: dict[int, LeaseEntry] = {}
        self.token_ids = IdSet()
        self.token_bytes = 0
        self.places: dict[int, int] = {}  # after replay: of those that are no id
        self._by_token: dict[int, Lease] = {}
        self._granted = _InOrder()
        self._renewed = _InOrder()
        self._others: dict[int, Lease] = {}
        self._timers: Timers[Lease] = Timers()

    def __len__(self) -> int:
        return len(self._granted.leases) + len(self._renewed.leases) + len(self._others)

    def __iter__(self) -> Iterator[Lease]:
        return iter(self.all())

    def all(self) -> list[Lease]:
        """All of them, as a list of its own."""
        granted, renewed = self._granted.leases, self._renewed.leases
        return [*granted.values(), *renewed.values(), *self._others.values()]

    def moving(self) -> list[Lease]:
        """Those of the mover but for dead items."""
        return [each for each in self._others.values() if each.is_moving and not each.dead]

    def without_token(self) -> list[Lease]:
        """Those by connection, and those of the mover that never were by token."""
        if len(self) == len(self.entries):
            return []
        return [lease for lease in self.all() if not lease.by_token]

    def __contains__(self, item_id: int) -> bool:
        return self.of(item_id) is not None

    def of(self, item_id: int) -> Lease | None:
        """The lease of this item, if it is lent."""
        return (
            self._granted.leases.get(item_id)
            or self._renewed.leases.get(item_id)
            or self._others.get(item_id)
        )

    def grant(self, lease: Lease) -> None:
        """It is lent from now on."""
        if lease.is_moving:
            self._others[lease.item.id] = lease
            return
        lease.holder.leases[lease] = None
        granted, deadline_ms = self._granted, lease.deadline_ms
        if deadline_ms is not None and deadline_ms >= granted.latest_ms:  # nearly all
            granted.latest_ms = deadline_ms
            granted.leases[lease.item.id] = lease
        else:
            self._place(lease, granted)

    def enter(self, lease: Lease, entry: LeaseEntry) -> None:
        """It is by token, and the log says so."""
        lease.by_token = True
        self.entries[lease.item.id] = entry
        self._by_token[lease.token] = lease
        if not lease.dead:
            self.token_ids.add(lease.item.id)
            self.token_bytes += entry.body_bytes

    def show(self, lease: Lease) -> None:
        """Its holder is told the token, which names it from any connection while it lasts."""
        if lease in lease.holder.leases:  # else it ended before who waited for it was told
            self._by_token[lease.token] = lease

    def by_token(self, token: int) -> Lease | None:
        """The lease of this token, if somebody was shown it and it has not ended."""
        return self._by_token.get(token)

    def end(self, lease: Lease) -> None:
        """It is not lent any more; whose it was no longer has it."""
        if lease.is_moving:
            del self._others[lease.item.id]  # no time ends it, no token names it
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
        """The queue is deleted: nobody holds any of them, nor asks for them here.

        `tokens` is the holder of those by token.
        """
        for lease in self.without_token():
            if not lease.is_moving:
                del lease.holder.leases[lease]
        trash.take(
            tokens.leases, self.entries, self._by_token, self._granted.leases,
            self._renewed.leases, self._others, self._timers.take_all(),
        )  # fmt: skip
        tokens.leases = OrderedDict()

    def forward(self, lease: Lease, mover: Holder) -> None:
        """It is the mover's from now on, and no time ends it; no token names it any more.

        One by token stays in `entries`: the log has it until the item ends.
        """
        del lease.holder.leases[lease]
        self._displace(lease)
        if self._by_token:
            self._by_token.pop(lease.token, None)
        lease.holder, lease.deadline_ms, lease.is_moving = mover, None, True
        self._others[lease.item.id] = lease

    def renew(self, lease: Lease, deadline_ms: int) -> None:
        """Another deadline."""
        self._displace(lease)
        lease.deadline_ms = deadline_ms
        self._place(lease, self._renewed)

    def next_due(self) -> int | None:
        """The earliest deadline; None: no lease has one."""
        due = [self._granted.first_ms, self._renewed.first_ms, self._timers.next_due()]
        return min((at_ms for at_ms in due if at_ms is not None), default=None)

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
        for in_order in (self._granted, self._renewed):
            for lease in in_order.leases.values():
                if len(over) >= most or (lease.deadline_ms or 0) > now_ms:
                    break
                over.append(lease)
        over.sort(key=lambda lease: (lease.deadline_ms or 0, lease.place))
        return over

    def _place(self, lease: Lease, in_order: _InOrder) -> None:
        deadline_ms = lease.deadline_ms
        if deadline_ms is None:
            self._others[lease.item.id] = lease
        elif deadline_ms >= in_order.latest_ms or not in_order.leases:
            in_order.latest_ms = deadline_ms
            in_order.leases[lease.item.id] = lease
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
