"""What the process asks of the machine and of its interpreter.

One rule: nothing here changes what anybody is answered, only how soon.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import sys
from collections.abc import Iterator
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
# The same while a small request waits for its sync beside a heavy connection: a hand-over takes
# some time itself, so it is not always so short.
SWITCH_SECONDS_HURRIED: Final = 0.00001
# Larger pieces of memory go back to the system as soon as they are free. glibc raises this by
# itself to 32 MiB, and keeps what is below in an arena that shrinks only from its end: after 200
# bodies of 8 MiB 1.6 GiB stayed with the process.
_MMAP_THRESHOLD_BYTES: Final = 1 << 20
_M_MMAP_THRESHOLD: Final = -3  # its number in glibc's malloc.h


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


def return_large_memory() -> None:
    """Have large pieces of memory go back to the system at once, where glibc is the allocator."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _MMAP_THRESHOLD_BYTES)


def trim_memory() -> None:
    """Give free memory back to the system, where glibc is the allocator. Blocks: tens of ms."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
