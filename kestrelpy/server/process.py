"""What the process asks of the machine and of its interpreter.

One rule: nothing here changes what anybody is answered, only how soon.
"""

from __future__ import annotations

import contextlib
import gc
import resource
import sys
from collections.abc import Iterator
from typing import Final

# Each collection looks through what was made since the last one of its kind, which may be waiting
# items: 10,000 take 2 to 5 ms, and 50,000, after four such, 10 to 20. Everything is looked through
# after 50 millions.
GARBAGE_THRESHOLDS: Final = (10_000, 3, 1700)
# How long a sync thread that is done may have to wait for a busy loop before it can say so; the
# interpreter's own 5 ms would be longer than many syncs.
SWITCH_SECONDS: Final = 0.0005
_FILES_WANTED: Final = 65536


@contextlib.contextmanager
def collecting_nothing() -> Iterator[None]:
    """Look for no garbage: what is made stays, and looking through it takes as long as making it.

    It must leave no circles, which would stay for good.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def settle_down() -> None:
    """What was made so far lives as long as the process, and what a request makes holds no circles:
    looking for garbage among a million waiting items would only cost time.
    """
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
