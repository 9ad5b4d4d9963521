"""One queue's limits and rules, frozen. Spec, section 4.

One rule: a policy is a value; a reload puts another one in its place, and whatever was decided
under the old one (a deadline, an expiry) stays decided.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import Final

from kestrelpy.core.key_rule import NAMED_ONLY, KeySettings

ITEM_BYTES_MAX: Final = 8 << 20
MEMORY_BYTES_MAX: Final = 64 << 20
LEASE_MS: Final = 30 * 60 * 1000
ATTEMPTS_MAX: Final = 100
RETRY_DELAY_MAX_MS: Final = 60 * 60 * 1000
DEDUPE_WINDOW_MS: Final = 24 * 60 * 60 * 1000
SCOPE_WINDOW_MS: Final = 30 * 24 * 60 * 60 * 1000


@dataclass(frozen=True, slots=True)
class Policy:
    """None means: no limit. `sync_ms`: 0 always, -1 never, else at most this long unsynced."""

    lease_ms: int | None = LEASE_MS
    max_items: int | None = None
    max_bytes: int | None = None
    max_item_bytes: int = ITEM_BYTES_MAX
    discard_old_when_full: bool = False
    max_age_ms: int | None = None
    max_queue_age_ms: int | None = None
    sync_ms: int = 0
    confirms_synced: bool = False
    durable: bool = True
    max_leased: int | None = None
    max_attempts: int | None = ATTEMPTS_MAX
    max_memory_bytes: int = MEMORY_BYTES_MAX  # of bodies that are kept in memory
    retry_delay_ms: int = 0
    retry_backoff: float = 1.0  # at least 1: each attempt waits so many times as long
    retry_delay_max_ms: int = RETRY_DELAY_MAX_MS
    keys: KeySettings = NAMED_ONLY
    expire_to: bytes = b""  # the queue where expired items go; empty: they are gone
    dead_letter_to: bytes = b""  # the queue where dead items go; empty: they stay in the dead line
    archive_to: str = ""  # a directory for segments that go; "": they just go
    dedupe_window_ms: int | None = DEDUPE_WINDOW_MS  # None: ids are remembered for good
    scope_window_ms: int | None = SCOPE_WINDOW_MS  # since a scope's last use; None: for good
    retain_ms: int | None = 0  # how long done items stay readable; 0: not by time, None: for good
    retain_bytes: int = 0  # how much of them stays readable; 0: not by size
    fanout_only: bool = False  # it stores nothing for itself, only for its children
    fanout_create: bool = True  # who mentions a child makes it
    children: tuple[bytes, ...] = ()  # those the configuration names, each without its parent

    @property
    def bounded(self) -> bool:
        """Can a set find the queue full?"""
        return self.max_items is not None or self.max_bytes is not None

    @property
    def retains(self) -> bool:
        """Does anything that is done stay readable?"""
        return self.retain_ms != 0 or self.retain_bytes > 0

    def retry_ms(self, attempts: int) -> int:
        """How long an item waits that came back for the nth time, counted."""
        delay_ms, most_ms = self.retry_delay_ms, self.retry_delay_max_ms
        if not delay_ms or delay_ms >= most_ms:
            return min(delay_ms, most_ms)
        times = max(attempts - 1, 0)
        if times * log(self.retry_backoff) >= log(most_ms / delay_ms):
            return most_ms
        return int(delay_ms * self.retry_backoff**times)
