"""The two clocks: one that never steps, for leases and waits, and the wall, for dates.

One rule: this is the only place that asks what time it is.
"""

from __future__ import annotations

import time
from typing import Final

# Suspended time counts: a lease does not last longer because a laptop slept.
_STEADY: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
# The wall is followed in steps of this size, so that the jitter of reading two clocks one after
# the other moves nothing.
OFFSET_STEP_MS: Final = 10

# Seconds on a clock that never steps: how long something took.
elapsed: Final = time.perf_counter


def now_ms() -> int:
    """Milliseconds on the clock that never goes back."""
    return time.clock_gettime_ns(_STEADY) // 1_000_000


def wall_clock_offset_ms() -> int:
    """What to add to `now_ms` to get milliseconds since 1970."""
    return time.time_ns() // 1_000_000 - now_ms()
