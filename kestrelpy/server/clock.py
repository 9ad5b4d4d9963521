"""The two clocks: a monotonic one for leases and waits, and the wall clock for dates.

One rule: no other module reads the time.
"""

from __future__ import annotations

import time
from typing import Final

# Suspended time counts: a lease does not last longer because a laptop slept.
_STEADY: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
# The wall clock is followed in steps of this size, so that the jitter between reading two clocks
# has no effect.
OFFSET_STEP_MS: Final = 10

# Seconds on a clock that never steps, for measuring durations.
elapsed: Final = time.perf_counter


def now_ms() -> int:
    """Return milliseconds on the monotonic clock."""
    return time.clock_gettime_ns(_STEADY) // 1_000_000


def wall_clock_offset_ms() -> int:
    """Return the clock offset: `now_ms` plus it gives milliseconds since 1970."""
    return time.time_ns() // 1_000_000 - now_ms()
