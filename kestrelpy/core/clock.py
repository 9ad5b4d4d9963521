"""The offset between the wall clock and the monotonic clock.

The core is given one time, `now_ms`, on a monotonic clock: leases and waits run on it. Dates
(stored, expires) are wall clock: `now_ms + clock.offset_ms`. The shell moves the offset when the
wall clock steps; a test moves it by hand.
"""

from __future__ import annotations


class ClockOffset:
    """One offset, shared by all queues of a broker."""

    __slots__ = ("offset_ms",)

    def __init__(self, offset_ms: int = 0) -> None:
        self.offset_ms = offset_ms
