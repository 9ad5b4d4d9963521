"""Settings of the interpreter and of the machine's allocator.

One rule: they change no reply, only its time.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import signal
import sys
from collections.abc import Iterator
from typing import Final

# Each collection examines the objects made since the last one of its kind, which may be waiting
# items: 2,500 take 0.5 to 1 ms, and 10,000, after four such, 3 to 7. An object is examined twice
# whatever the numbers are, so smaller ones cost no more. A full collection comes after 50 million.
GARBAGE_THRESHOLDS: Final = (2_500, 3, 7000)
# How long a sync thread may have to wait for a busy loop. It must be shorter than a part of a turn
# (`shares.LINE_SECONDS`): the loop releases the interpreter in each turn, and takes it back before
# a thread wakes up; a thread that waits for longer than this interval is sure to get it. With 0.5
# ms a sync waited for 100 ms beside one flooding connection.
SWITCH_SECONDS: Final = 0.0001
# The same while a small request waits for its sync beside a heavy connection: a hand-over takes
# time itself, so the interval is not always this short.
SWITCH_SECONDS_HURRIED: Final = 0.00001
# Blocks above this size go back to the system as soon as they are free. glibc raises the threshold
# by itself to 32 MiB, and keeps smaller blocks in an arena that shrinks only from its end: after
# 200 bodies of 8 MiB 1.6 GiB stayed with the process.
_MMAP_THRESHOLD_BYTES: Final = 1 << 20
_PR_SET_PDEATHSIG: Final = 1  # its number in Linux's prctl.h
_M_MMAP_THRESHOLD: Final = -3  # its number in glibc's malloc.h


@contextlib.contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the garbage collector: during recovery all objects stay, and a collection would take as
    long as making them.

    The code inside must leave no reference cycles, which would stay for good.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def tune_interpreter() -> None:
    """Freeze the objects made so far, which live until the process ends, and collect seldom.

    A request makes no reference cycles, so a collection among a million items finds nothing.
    """
    gc.freeze()
    gc.set_threshold(*GARBAGE_THRESHOLDS)
    sys.setswitchinterval(SWITCH_SECONDS)


def return_large_memory() -> None:
    """Let large blocks go back to the system at once, if glibc is the allocator."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _MMAP_THRESHOLD_BYTES)


def end_with_parent(pid: int) -> None:
    """Let the kernel kill this process when its parent is gone, if it is Linux: no client can
    connect to it any more, and the next start needs its lock."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != pid:  # it is gone already
        os.kill(os.getpid(), signal.SIGKILL)


def trim_memory() -> None:
    """Give free memory back to the system, if glibc is the allocator. Blocks: tens of ms."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
