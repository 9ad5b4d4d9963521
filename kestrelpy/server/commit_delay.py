"""The commit delay: requests that come together share a write and a sync.

    bytes come ──▶ a batch gathers ──▶ over when a turn brings no more, after DELAY_MS_MAX at most
                                          │ its sync is awaited
                                          ▼
                        hurried for HURRY_MS: sync threads get the interpreter soon

One rule: a busy loop cannot starve a sync.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Final

from kestrelpy.server.process import SWITCH_SECONDS, SWITCH_SECONDS_HURRIED

# While requests keep coming in, a commit is delayed by at most this much.
DELAY_MS_MAX: Final = 3
# For this long after a small request a sync thread gets the interpreter sooner: a sync takes about
# half a millisecond.
HURRY_MS: Final = 3


class CommitDelay:
    """Owned by the turn. Heavy connections have no part in it."""

    __slots__ = ("_has_input", "_hurry_until_ms", "_since_ms", "_switch", "is_hurried")

    def __init__(self, switch: Callable[[float], None] = sys.setswitchinterval) -> None:
        """`switch` sets how long a thread waits for the interpreter, in seconds."""
        self._switch = switch
        self._has_input = False  # True if bytes have come in in this turn
        self._since_ms = 0  # 0: no commit is delayed
        self._hurry_until_ms = 0
        self.is_hurried = False

    def note_input(self, now_ms: int) -> None:
        """Note that bytes have come from a connection."""
        self._has_input = True
        self._hurry_until_ms = now_ms + HURRY_MS

    def is_over(self, now_ms: int) -> bool:
        """Return whether the pending records are written now; called in each turn that has some."""
        self._since_ms = self._since_ms or now_ms
        if self._has_input and now_ms - self._since_ms < DELAY_MS_MAX:
            return False
        self._since_ms = 0
        return True

    def end_turn(self, now_ms: int, is_crowded: bool, syncs: int) -> None:
        """End the turn's input, and decide whether sync threads get the interpreter soon.

        `is_crowded`: other connections use up their shares; `syncs` are in flight.
        """
        self._has_input = False
        if self.is_hurried is not (is_crowded and syncs > 0 and now_ms < self._hurry_until_ms):
            self.is_hurried = not self.is_hurried
            self._switch(SWITCH_SECONDS_HURRIED if self.is_hurried else SWITCH_SECONDS)
