"""Leases by token: any client that knows the token holds the item, so no hang-up ends the lease.

    grant ──▶ LEASED, in `Leases.entries` ──▶ renew: RENEWED ──▶ any end removes the entry
                        │
    a restart ──▶ the entries that replay found ──▶ grant_restored: the same leases and deadlines

After a restart the subscription knows an item leased by token by its entry alone: its id, its size,
its key, but no body. It reads the item again if the item comes back. A leased dead letter is dead
all the while, and goes back to the dead letters. In memory all leases by token of a subscription
have one holder.

One rule: an entry says the same as the log. A lease expires at its deadline even if no tick has
run: a token is never valid for longer than promised.
"""

from __future__ import annotations

from typing import Final

from journal.format import LeaseEntry
from kestrelpy.core.index import Lease
from kestrelpy.core.item import bare_item
from kestrelpy.core.key_rule import NO_KEY
from kestrelpy.core.subscription.state import SubscriptionState

_new: Final = tuple.__new__  # half the cost of calling a named tuple


class TokenLeases:
    """The leases by token of one subscription."""

    __slots__ = ("_state",)

    def __init__(self, state: SubscriptionState) -> None:
        self._state = state

    def begin(self, lease: Lease, lease_ms: int, grace_ms: int | None = None) -> None:
        """Make this lease, granted just now, a lease by token.

        With `grace_ms` an item that would expire before its deadline lives so long after it.
        """
        item, unix_ms, clock = lease.item, lease.began_ms, self._state.clock
        key = item.key if not lease.dead else NO_KEY  # its death released the key
        expiry_ms = 0
        if grace_ms is not None and 0 < item.expires_ms < unix_ms + lease_ms:
            expiry_ms = self._extend_life(lease, unix_ms + lease_ms + grace_ms)
        entry = _new(LeaseEntry, (
            item.id, lease.token, lease.attempts + 1, unix_ms, item.size, unix_ms,
            unix_ms + lease_ms, key, expiry_ms,
            clock.runs(unix_ms - clock.offset_ms + lease_ms), b"",
        ))  # fmt: skip
        self._state.leases.enter(lease, entry)
        lease.lsn = self._state.append(entry.leased())

    def _extend_life(self, lease: Lease, expiry_ms: int) -> int:
        """Let the item expire at this time, if it expires; return the time."""
        self._state.expiries[lease.item.id] = expiry_ms
        if lease.item.is_whole:  # else it is read again, and bound then
            lease.item = lease.item.ending(expiry_ms)
        return expiry_ms

    def renew(self, lease: Lease, lease_ms: int, now_ms: int, expiry_ms: int = 0) -> int:
        """Extend the lease to `lease_ms` from now; return the record to wait for.

        `expiry_ms`: the new expiry of its item; 0: it stays.
        """
        state = self._state
        unix_ms = now_ms + state.clock.offset_ms
        entries, id_ = state.leases.entries, lease.item.id
        if expiry_ms:
            self._extend_life(lease, expiry_ms)
        entry = entries[id_] = entries[id_].until(
            unix_ms, unix_ms + lease_ms, expiry_ms, state.clock.runs(now_ms + lease_ms)
        )
        return state.append(entry.renewal())

    def find(self, token: int, now_ms: int) -> Lease | None:
        """Return the lease with this token; None: there is none, or it has expired."""
        lease = self._state.leases.by_token(token)
        if lease is None or (lease.deadline_ms is not None and lease.deadline_ms <= now_ms):
            return None
        return lease

    def grant_restored(self, now_ms: int) -> None:
        """Grant again the leases that replay found.

        Each ends at its deadline by the running clock, and runs at most for the time that it was
        granted for. (Logs of version 7 and earlier have only a deadline by the wall clock.)
        """
        state, clock = self._state, self._state.clock
        unix_ms, running_ms = now_ms + clock.offset_ms, now_ms + clock.running_ms
        clock.note(max((e.runs_ms for e in state.leases.entries.values()), default=0))
        for left_ms, entry in sorted(
            ((min(e.runs_ms - running_ms if e.runs_ms else e.deadline_ms - unix_ms,
                  e.deadline_ms - e.since_ms), e)
            for e in state.leases.entries.values()),
            key=lambda each: (each[0], each[1].item),
        ):  # fmt: skip
            death = state.dead.deaths.get(entry.item)
            place = state.leases.places.pop(entry.item, entry.item)
            marker = state.markers.of(entry.item, place)
            if death is not None:
                place = death.order
                state.dead.lease(entry.item)
            lease = Lease(
                bare_item(entry.item, entry.body_bytes, marker, entry.key), place,
                state.token_holder, state, entry.token, entry.delivery - 1, entry.began_ms,
                now_ms + max(left_ms, 0),
            )  # fmt: skip
            lease.dead = death is not None
            state.leases.grant(lease)
            state.leases.enter(lease, entry)
            if entry.expiry_ms:
                state.expiries[entry.item] = entry.expiry_ms
