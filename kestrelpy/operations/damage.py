"""The damage found in journals since the start: its kind, its place and its time.

One rule: the newest damage stays here, and all of it is counted; the log has every sentence.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final, NamedTuple

from journal.errors import OF_QUEUE, Damage
from kestrelpy.core import ClockOffset

NEWEST_MAX: Final = 50
_TORN: Final = "torn"  # the rest of a crash: no promise was broken


class DamageFacts(NamedTuple):
    """One damaged place. `at_ms`, on the wall clock, is when it was found; `bytes` are set aside,
    except those of a foreign file, which stay where they are."""

    at_ms: int
    kind: str
    what: str
    bytes: int


class DamageFound:
    """The damage of one server. `count` counts places, except those that a crash tore after the
    last sync."""

    __slots__ = ("_clock", "count", "first_ms", "newest")

    def __init__(self, clock: ClockOffset) -> None:
        self._clock = clock
        self.newest: deque[DamageFacts] = deque(maxlen=NEWEST_MAX)
        self.count = 0
        self.first_ms: int | None = None  # steady time

    def note(self, damages: Iterable[Damage], now_ms: int) -> None:
        """Note damage that was found now; damage noted before is left out."""
        for each in damages:
            sentence = each.sentence()
            if any(sentence == known.what for known in self.newest):
                continue
            # A queue that misses items is damaged itself: the place where they were is counted.
            if each.kind != _TORN and not each.path.startswith(OF_QUEUE):
                self.count += 1
                self.first_ms = now_ms if self.first_ms is None else self.first_ms
            size = max(each.end - each.offset, 0)
            at_ms = now_ms + self._clock.offset_ms
            self.newest.append(DamageFacts(at_ms, each.kind, sentence, size))
