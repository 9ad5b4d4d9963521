"""How long the process on the other side has been silent: a router listens to its slices, and a
slice to its router.

    beat ──1 s──▶ beat ──1 s──▶ ... nothing ──▶ the other side hangs

One rule: a time in which this side slept as well is no silence of the other one.
"""

from __future__ import annotations

from typing import Final

BEAT_SECONDS: Final = 1.0  # between two beats
_AWAKE_SECONDS_MAX: Final = 1.0  # between two looks of a side that is awake


class Pulse:
    """The silence of the other side, as far as this side was awake to hear it."""

    __slots__ = ("_looked_s", "_silent_s")

    def __init__(self, now_s: float) -> None:
        self._looked_s, self._silent_s = now_s, 0.0

    def beat(self, now_s: float) -> None:
        """Note that the other side has said something."""
        self._looked_s, self._silent_s = now_s, 0.0

    def silent_s(self, now_s: float) -> float:
        """Return how long the other side has been silent; look more often than once a second."""
        self._silent_s += min(now_s - self._looked_s, _AWAKE_SECONDS_MAX)
        self._looked_s = now_s
        return self._silent_s
