"""What the process asks of the machine and of its interpreter.

One rule: nothing here changes what anybody is answered, only how soon.
"""

from __future__ import annotations

import contextlib
import gc
import resource
import sys
from typing import Final

# Each collection looks through what was made since the last one of its kind, which may be waiting
# items: 10,000 take 2 to 5 ms, and 50,000, after four such, 10 to 20. Everything is looked through
# after 50 millions.
GARBAGE_THRESHOLDS: Final = (10_000, 3, 1700)
# How long a sync thread may have to wait for a busy loop. It has to be less than a part of a turn
# takes (`shares.LINE_SECONDS`): the loop gives the interpreter away in each turn, and takes it back
# before a thread wakes up; a thread that waits for longer than that interval is sure to get it.
# With 0.5 ms a sync waited for 100 ms beside one flooding connection.
SWITCH_SECONDS: Final = 0.0001
_FILES_WANTED: Final = 65536


def settle_down() -> None:
    """What was made so far lives as long as the process, and what a request makes holds no circles:
    looking for garbage among a million waiting items would only cost time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GARBAGE_THRESHOLDS)
    sys.setswitchinterval(SWITCH_SECONDS)


def raise_file_limit() -> None:
    """One descriptor per connection and per segment: ask for as many as we may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES_WANTED if hard == resource.RLIM_INFINITY else min(_FILES_WANTED, hard)
    if soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
