"""One queue's limits and rules, frozen.

One rule: a policy is a value. A reload replaces it with another one, and decisions made under the
old one (a deadline, an expiry) stand.
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
    """None means no limit. `sync_ms`: 0 always, -1 never, else the longest time unsynced."""

    lease_ms: int | None = LEASE_MS
    max_items: int | None = None
    max_bytes: int | None = None
    max_item_bytes: int = ITEM_BYTES_MAX
    discard_old_when_full: bool = False
    max_age_ms: int | None = None
    max_queue_age_ms: int | None = None
    sync_ms: int = 0
    sync_in_turn: bool = False  # the whole server stops until a sync ends
    confirms_synced: bool = False
    durable: bool = True
    max_leased: int | None = None
    max_attempts: int | None = ATTEMPTS_MAX
    max_memory_bytes: int = MEMORY_BYTES_MAX  # of bodies held in memory
    retry_delay_ms: int = 0
    retry_backoff: float = 1.0  # at least 1: the factor from one attempt's delay to the next
    retry_delay_max_ms: int = RETRY_DELAY_MAX_MS
    keys: KeySettings = NAMED_ONLY
    expire_to: bytes = b""  # the queue where expired items go; empty: they end
    dead_letter_to: bytes = b""  # the queue for dead letters; empty: they stay in this one
    dead_letter_age_ms: int | None = None  # their life there; None: without an end
    archive_to: str = ""  # a directory for removed segments; "": they are deleted
    dedupe_same_body: bool = False  # a repeated id with another body is an error on every wire
    dedupe_window_ms: int | None = DEDUPE_WINDOW_MS  # None: ids are remembered for good
    scope_window_ms: int | None = SCOPE_WINDOW_MS  # since a scope's last use; None: for good
    retain_ms: int | None = 0  # how long done items stay readable; 0: not by time, None: for good
    retain_bytes: int = 0  # how much of them stays readable; 0: not by size
    fanout_only: bool = False  # the queue stores items for its children alone
    fanout_create: bool = True  # a client that names a child creates it
    children: tuple[bytes, ...] = ()  # named by the configuration, each without its parent

    @property
    def bounded(self) -> bool:
        """True if a set can find the queue full."""
        return self.max_items is not None or self.max_bytes is not None

    def never_fits(self, size: int) -> bool:
        """True if a body of this size has no room even in an empty queue."""
        return size > self.max_item_bytes or (self.max_bytes is not None and size > self.max_bytes)

    def why_never(self, name: bytes, size: int) -> str:
        """Return why a body of this size, which never fits, is refused by the queue `name`."""
        if size > self.max_item_bytes:
            return f"item too large ({size} bytes, limit {self.max_item_bytes})"
        word = name.decode("ascii")
        return f"object too large for cache ({size} bytes, max_bytes of {word} is {self.max_bytes})"

    @property
    def retains(self) -> bool:
        """True if done items stay readable."""
        return self.retain_ms != 0 or self.retain_bytes > 0

    def retry_ms(self, attempts: int) -> int:
        """Return the delay of an item whose `attempts`-th counted delivery came back."""
        delay_ms, most_ms = self.retry_delay_ms, self.retry_delay_max_ms
        if not delay_ms or delay_ms >= most_ms:
            return min(delay_ms, most_ms)
        times = max(attempts - 1, 0)
        if times * log(self.retry_backoff) >= log(most_ms / delay_ms):
            return most_ms
        return int(delay_ms * self.retry_backoff**times)
