"""How long a failed item waits before it is tried again, and when it is a dead letter instead.

    attempts so far   0    1    2    3    4     5     6 and more
    delay             1s   2s   4s   8s   16s   32s   1m            ±10 %, with a first delay of 1s

One rule: attempts and chance come in as arguments, so that every delay can be tested.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

DELAY_MAX_MS: Final = 60_000
# Items that failed together, because of one cause, do not come back all at once.
SPREAD: Final = 0.1
# The pauses of a worker whose server is away or refuses, and of one whose items fail in a row.
BACKOFF_SECONDS_MIN: Final = 0.1
BACKOFF_SECONDS_MAX: Final = 5.0
FAILURE_PAUSE_SECONDS_MIN: Final = 0.05
FAILURE_PAUSE_SECONDS_MAX: Final = 2.0


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """The first delay (0: the queue's own settings decide), and the attempts (None: likewise)."""

    first_delay_ms: int
    attempts_max: int | None = None

    def is_last(self, attempts: int) -> bool:
        """True if an item that had this many attempts before this one is not to be tried again."""
        return self.attempts_max is not None and attempts + 1 >= self.attempts_max

    def words(self, attempts: int, chance: float) -> str:
        """Return the words that give an item back for another try."""
        delay_ms = retry_delay_ms(attempts, chance, self.first_delay_ms)
        return f"abort/delay={delay_ms}ms" if delay_ms else "abort"


def retry_delay_ms(attempts: int, chance: float, first_ms: int = 1000) -> int:
    """Return the delay of an item that failed, in milliseconds.

    `attempts` counts the failures before this one; `chance` is a random number from 0 to 1. The
    delay doubles with each attempt up to a minute, or stays at `first_ms` if that is longer.
    """
    longest_ms = max(DELAY_MAX_MS, first_ms)
    # A shift by a large number of attempts would make a very long number.
    delay_ms = min(first_ms << min(attempts, 16), longest_ms)
    return round(delay_ms * (1 - SPREAD + 2 * SPREAD * chance))


class Backoff:
    """Pauses that double from one failure in a row to the next."""

    __slots__ = ("_first", "_longest", "_next")

    def __init__(self, first_seconds: float, longest_seconds: float) -> None:
        self._first = self._next = first_seconds
        self._longest = longest_seconds

    def next_seconds(self) -> float:
        """Return the pause after one more failure."""
        pause = self._next
        self._next = min(2 * pause, self._longest)
        return pause

    def reset(self) -> None:
        """Begin again, after a success."""
        self._next = self._first
