"""When the lease of an item needs an action, and which.

    leased ──half of the lease──▶ renew ──▶ half of it ──▶ renew ─ ─ ─▶
                                    ├─ no answer ─────▶ again, until the lease is over ──▶ lost
                                    └─ NOT_FOUND ─────▶ lost
    work_limit reached ──▶ asked to stop, no more renewals ──▶ deferred just before the lease ends

One rule: time comes in as an argument, on the monotonic clock, in seconds.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from kestrelpy.client.item import ItemState, LeasedItem

WENT_BACK: Final = "its lease ended, and it went back"
TOO_LONG: Final = "it was leased for too long (work_limit), and was deferred"


class Step(Enum):
    """What a lease needs."""

    FORGET = "forget"  # the item has ended
    RENEW = "renew"
    RENEW_AND_ASK_TO_STOP = "renew once more, so that there is time to stop"
    DEFER = "defer"


class LeaseTimes:
    """The times of one worker's leases."""

    __slots__ = ("lease_seconds", "limit_seconds", "nap_seconds")

    def __init__(self, lease_seconds: float, limit_seconds: float | None) -> None:
        self.lease_seconds: Final = lease_seconds
        self.limit_seconds: Final = limit_seconds
        # The longest sleep: the next item may come at any time.
        self.nap_seconds: Final = min(lease_seconds, limit_seconds or lease_seconds) / 8

    def begin(self, item: LeasedItem, opened_at: float) -> None:
        """Set the times of an item that was leased by a request sent after `opened_at`."""
        self.renewed(item, opened_at)
        if self.limit_seconds is not None:
            item._limit_at = opened_at + self.limit_seconds

    def renewed(self, item: LeasedItem, now: float) -> None:
        """Set the times of a lease that was renewed by a request sent after `now`."""
        item._lease_ends = now + self.lease_seconds
        item._renew_at = now + self.lease_seconds / 2

    def may_try_again(self, item: LeasedItem, now: float) -> bool:
        """After a renewal without an answer: set the time of the next try; False: it is over."""
        if now >= item._lease_ends:
            return False
        item._renew_at = now + self.nap_seconds
        return True

    def due(self, item: LeasedItem) -> float:
        """Return when the item needs a step."""
        if item._stopping:
            return item._lease_ends - self.lease_seconds / 4
        return min(item._renew_at, item._limit_at or item._renew_at)

    def step(self, item: LeasedItem, now: float) -> Step:
        """Return what an item needs that is due."""
        if item._state is not ItemState.LEASED:
            return Step.FORGET
        if item._stopping:
            return Step.DEFER
        if item._limit_at is not None and now >= item._limit_at:
            return Step.RENEW_AND_ASK_TO_STOP
        return Step.RENEW
