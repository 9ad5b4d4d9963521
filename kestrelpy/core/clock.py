"""The clocks of the core, as offsets to the monotonic clock.

    now_ms                 the monotonic clock: leases, waits and delays run on it
    now_ms + offset_ms     the wall clock: dates (stored, expires, at=). It may be set.
    now_ms + running_ms    the running clock: the wall clock, but it never steps back, over all
                           lives of a data directory. Records say by it when a duration ends.

The core is given one time, `now_ms`. The shell moves `offset_ms` when the wall clock steps; a test
moves it by hand. In one life the running clock is the monotonic clock, with an offset. A new life
continues it at the wall clock's time, or, if the wall clock was set back, at the last time that is
known of it: a duration has left what was left then, and a date stays a date.

One rule: the running clock goes forward only, and in one life it does not follow the wall clock.
"""

from __future__ import annotations


class ClockOffset:
    """The offsets, shared by all queues of a broker.

    `last_ms` is the latest end of a duration in any record, by the running clock.
    """

    __slots__ = ("last_ms", "offset_ms", "running_ms")

    def __init__(self, offset_ms: int = 0) -> None:
        self.offset_ms = offset_ms
        self.running_ms = offset_ms
        self.last_ms = 0

    def begin(self, heard_ms: int, now_ms: int) -> None:
        """Begin a life: continue the running clock after `heard_ms`, the last time known of it."""
        self.running_ms = max(heard_ms - now_ms, self.offset_ms)

    def hear(self, heard_ms: int, now_ms: int) -> None:
        """Note that the running clock was at `heard_ms` in an earlier life."""
        self.running_ms = max(heard_ms - now_ms, self.running_ms)

    def runs(self, end_ms: int) -> int:
        """Return the end of a duration, given by the monotonic clock, by the running clock."""
        runs_ms = end_ms + self.running_ms
        self.note(runs_ms)
        return runs_ms

    def note(self, runs_ms: int) -> None:
        """Note that a duration ends at this time of the running clock."""
        self.last_ms = max(self.last_ms, runs_ms)
