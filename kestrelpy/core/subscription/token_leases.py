"""Leases by token: lent to whoever knows a number, so no hang-up ends them and a restart goes on.

    lend ──▶ LEASED, in `Leases.entries` ──▶ renew: RENEWED ──▶ any end takes the entry away
                        │
    a restart ──▶ the entries that replay found ──▶ resume: the same leases, until their deadlines

After a restart nothing is known of such an item but its number and its size; it is read again if it
comes back. One that was lent from the dead line is dead all the while, and goes back there. In
memory all leases by token of a reader have one holder.

One rule: an entry says what the log says. A lease is over when its deadline has come, be it that no
tick has ended it yet: a token is never good for longer than was promised.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from journal.format.lease import LeaseEntry
from kestrelpy.core.index.leases import Lease
from kestrelpy.core.item import bare_item
from kestrelpy.core.key_rule import NO_KEY

if TYPE_CHECKING:
    from kestrelpy.core.subscription.subscription import Reader

_new: Final = tuple.__new__  # half the cost of calling a named tuple


def lend(reader: Reader, lease: Lease, lease_ms: int) -> None:
    """This lease, granted just now, is by token."""
    item, wall_ms = lease.item, lease.began_ms
    key = item.key if not lease.dead else NO_KEY  # death released it
    entry = _new(LeaseEntry, (
        item.id, lease.token, lease.attempts + 1, wall_ms, item.size, wall_ms,
        wall_ms + lease_ms, key,
    ))  # fmt: skip
    reader.leases.enter(lease, entry)
    lease.lsn = reader.log.leased(entry)


def renew(reader: Reader, lease: Lease, lease_ms: int, now_ms: int) -> int:
    """Its holder has `lease_ms` from now; returns the record to wait for."""
    wall_ms = now_ms + reader.wall.offset_ms
    entries, id_ = reader.leases.entries, lease.item.id
    entry = entries[id_] = entries[id_].until(wall_ms, wall_ms + lease_ms)
    return reader.log.renewed(entry)


def find(reader: Reader, token: int, now_ms: int) -> Lease | None:
    """The lease that this token stands for; None: there is none, or it is over."""
    lease = reader.leases.by_token(token)
    if lease is None or (lease.deadline_ms is not None and lease.deadline_ms <= now_ms):
        return None
    return lease


def resume(reader: Reader, now_ms: int) -> None:
    """Go on with what replay found: each until its deadline, at most as long as it was given."""
    reader.keyed.resume()
    wall_ms = now_ms + reader.wall.offset_ms
    for left_ms, entry in sorted(
        ((min(e.deadline_ms - wall_ms, e.deadline_ms - e.since_ms), e)
        for e in reader.leases.entries.values()),
        key=lambda each: (each[0], each[1].item),
    ):  # fmt: skip
        death = reader.dead.deaths.get(entry.item)
        place = reader.leases.places.pop(entry.item, entry.item)
        marker = reader.marks.of(entry.item, place)
        if death is not None:
            place = death.order
            reader.dead.lend(entry.item)
        lease = Lease(
            bare_item(entry.item, entry.body_bytes, marker, entry.key), place, reader.token_holder,
            reader, entry.token, entry.delivery - 1, entry.began_ms, now_ms + max(left_ms, 0),
        )  # fmt: skip
        lease.dead = death is not None
        reader.leases.grant(lease)
        reader.leases.enter(lease, entry)
