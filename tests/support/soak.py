"""Searching for examples that no run has seen, for a given time.

    @pytest.mark.soak
    def test_no_item_is_lost_for_long(soak: Soak) -> None:
        for seed in soak.seeds():
            search(seed)

`make soak TIME=30m` shares its time among these tests, and prints the seed that it begins with;
`make soak SEED=...` begins there again.

One rule: everything random in a round follows from its seed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from kestrelpy.durations import parse_duration_ms

SEED_MAX = 1 << 32
# Between the first seeds of two tests; no test has as many rounds.
_STEP = 1_000_000


@dataclass
class Soak:
    """The share of one test: its first seed, and its time in seconds."""

    first: int
    seconds: float
    tried: list[int] = field(default_factory=list)

    def seeds(self) -> Iterator[int]:
        """Yield seeds until the time is over, one at least. Each is printed."""
        end = time.monotonic() + self.seconds
        seed = self.first
        while not self.tried or time.monotonic() < end:
            print(f"seed {seed}")
            self.tried.append(seed)
            yield seed
            seed += 1

    def __str__(self) -> str:
        last = self.tried[-1] if self.tried else self.first
        return f"{len(self.tried)} rounds, seeds {self.first} to {last}"


def whole_time() -> float:
    """Return the seconds that all tests of a soak have together."""
    return parse_duration_ms(os.environ.get("KESTRELPY_SOAK_TIME", "30m")) / 1000


def share(seed: int, seconds: float, nth: int, of: int) -> Soak:
    """Return the share of test `nth` of `of` tests."""
    return Soak(seed + nth * _STEP, seconds / max(of, 1))
