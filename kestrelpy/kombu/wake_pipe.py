"""A pipe that wakes a thread out of a wait for sockets, from any other thread.

One rule: wakes that come before the thread looks are one.
"""

from __future__ import annotations

import contextlib
import os
from typing import Final

_READ_BYTES: Final = 4096


class WakePipe:
    """Goes with its last user; `fileno` is what that wait takes."""

    def __init__(self) -> None:
        self._ends = os.pipe()
        for end in self._ends:
            os.set_blocking(end, False)

    def fileno(self) -> int:
        """Return the file descriptor that is readable after a wake."""
        return self._ends[0]

    def wake(self) -> None:
        """Wake the thread that waits, or will."""
        with contextlib.suppress(OSError):  # full is as good
            os.write(self._ends[1], b"x")

    def clear(self) -> None:
        """Forget the wakes so far."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._ends[0], _READ_BYTES)

    def __del__(self) -> None:
        for end in getattr(self, "_ends", ()):
            with contextlib.suppress(OSError):
                os.close(end)
