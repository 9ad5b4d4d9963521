"""The end of a lease is asked for until it is answered: what each failure means.

    refused for good ────────────▶ the refusal itself
    the lease is over ───────────▶ LeaseLost
    no answer, refused for now ──▶ asked for again: at once the first time, then after growing
                                   pauses, until the lease is over

One rule: it sends nothing and does not sleep. `Worker` and `AsyncWorker` do, each in its way.
"""

from __future__ import annotations

from typing import Final

from kestrelpy.client.connection import reason
from kestrelpy.client.item import LeasedItem, LeaseLost
from kestrelpy.client.retry import BACKOFF_SECONDS_MAX, BACKOFF_SECONDS_MIN, Backoff


class EndAttempts:
    """The attempts to end one item; unless `insistent`, the second one is the last."""

    def __init__(self, item: LeasedItem, insistent: bool) -> None:
        self._item: Final = item
        self._insistent: Final = insistent
        self._pause: Final = Backoff(BACKOFF_SECONDS_MIN, BACKOFF_SECONDS_MAX)
        self._has_failed = False

    def pause_after(
        self, error: Exception, now: float, *, may_pass: bool, is_lease_over: bool
    ) -> float:
        """Return the seconds before the next attempt; `now` is on the monotonic clock.

        Raises the error if the refusal stays, LeaseLost if the lease is over, or if there is no
        time for another attempt.
        """
        if not may_pass and not is_lease_over:
            raise error
        why = reason(error)
        if is_lease_over and self._has_failed:
            why = "the connection broke meanwhile: it was done, or the lease is over"
        # Retry at least once: an idle connection may have been broken for long.
        is_last = self._has_failed and not self._insistent
        if is_lease_over or is_last or now > self._item._lease_ends:
            raise LeaseLost(f"{self._item.queue}: {why}") from error
        seconds = self._pause.next_seconds() if self._has_failed else 0.0
        self._has_failed = True
        return seconds
