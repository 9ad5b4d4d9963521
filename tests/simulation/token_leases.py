"""Leases by token, as the clients can know them.

    shown a token ─▶ held until ... ─▶ ended by its token, or over: refused from then on
                        │ hang-ups change nothing, restarts neither; a power cut makes it unsure

One rule: a token is certainly valid, certainly over, or in doubt. The checker complains only in the
first two cases.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.simulation.books import EARLY_US, LATE_US, NEVER, Thing
from tests.simulation.requests import Reply, Request


@dataclass(eq=False)
class Lease:
    """One lease. Times are microseconds of the run."""

    thing: Thing
    token: int
    asked_us: int
    until_us: int  # it may be over then ...
    over_us: int  # ... and surely is then
    shown_us: int
    unsure: bool = False  # an end of it is or was under way, or a power cut came


@dataclass
class TokenLeases:
    """Of one queue."""

    by_token: dict[int, Lease] = field(default_factory=dict)
    deleted_us: int = 0  # the last time that a delete came or ended

    def leased(self, request: Request, token: int, thing: Thing) -> Lease:
        """An item was shown with its token."""
        until_us = request.arrived_us + request.lease_us - EARLY_US
        over_us = request.left_us + request.lease_us
        lease = Lease(thing, token, request.arrived_us, until_us, over_us, request.left_us)
        self.by_token[token] = lease
        return lease

    def arrived(self, request: Request) -> bool:
        """Note that a request names a token; return True if its lease certainly lasts until now."""
        lease = self.by_token.get(request.token or request.hand_token)
        if lease is None:
            return False
        thing = lease.thing
        was_sure = thing.holder is lease and not lease.unsure and not thing.gone
        if request.verb == "touch":
            lease.until_us = min(
                lease.until_us, request.arrived_us + request.seconds * 1_000_000 - EARLY_US
            )
            lease.over_us = NEVER
            if thing.holder is lease:
                thing.held_until_us, thing.over_us = lease.until_us, NEVER
            return was_sure
        lease.unsure = True
        if thing.holder is lease:
            thing.holder, thing.ready_us = None, NEVER
        return was_sure

    def touched(self, request: Request, reply: Reply) -> Iterator[str]:
        """Yield the mistakes of the answer to a renewal."""
        lease = self.by_token.get(request.token)
        if lease is None:
            return
        if reply.word != "TOUCHED":
            if self._is_good(request, lease):
                yield f"{request} answered {reply}, but the lease of {lease.thing} is not over"
            lease.unsure = True
            return
        length_us = request.seconds * 1_000_000
        lease.until_us = request.arrived_us + length_us - EARLY_US
        lease.over_us = request.left_us + length_us
        if lease.thing.holder is lease:
            lease.thing.held_until_us, lease.thing.over_us = lease.until_us, lease.over_us

    def ended(self, request: Request, reply: Reply) -> Iterator[str]:
        """Yield the mistakes of an answer to a close, abort, defer, delete or hand-off by token."""
        lease = self.by_token.get(request.token or request.hand_token)
        if lease is None:
            return
        thing = lease.thing
        if reply.word in ("END", "DELETED", "VALUE", "STORED"):
            if lease.over_us + LATE_US < request.arrived_us:
                yield f"{request} ended the lease of {thing}, which was over"
            other = thing.holder
            leased_since = isinstance(other, Lease) and other.asked_us > lease.asked_us
            # Else this very end may have been what the other one was waiting for.
            leased_since = leased_since and other.shown_us < request.arrived_us
            if leased_since and request.left_us < thing.held_until_us:
                yield f"{request} ended a lease of {thing}, which another one holds"
        elif self._is_good(request, lease):
            yield f"{request} answered {reply}, but the lease of {thing} is not over"

    def _is_good(self, request: Request, lease: Lease) -> bool:
        """True if the lease certainly lasted while this request was under way."""
        is_over = request.left_us >= lease.until_us
        return request.was_sure and not is_over and self.deleted_us < lease.asked_us

    def end_life(self, how: str, now_us: int, lasting: set[Lease]) -> None:
        """Note that the server ended; `lasting` leases certainly lasted until just before."""
        for lease in self.by_token.values():
            thing = lease.thing
            if thing.gone or lease.over_us + LATE_US < now_us:
                continue
            lease.unsure |= how == "power" or lease not in lasting
            if not lease.unsure:
                thing.holder, thing.ready_us = lease, NEVER
                thing.held_until_us, thing.over_us = lease.until_us, lease.over_us
            elif thing.holder is None:
                thing.ready_us = max(thing.ready_us, min(lease.over_us + LATE_US, NEVER))

    def forget(self, now_us: int) -> None:
        """Note a delete of the queue: tokens may belong to the deleted queue or to the next one."""
        self.deleted_us = now_us
        for lease in self.by_token.values():
            lease.unsure = True
