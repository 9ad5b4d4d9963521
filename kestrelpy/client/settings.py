"""The settings of a worker, checked, and the requests that they make.

One rule: durations are texts like "30s" or numbers of seconds, and a wrong one is refused with one
sentence before anything is fetched.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from kestrelpy.client.retry import RetryPolicy
from kestrelpy.durations import MAX_DURATION_MS, format_duration_ms, parse_duration_ms, shown
from kestrelpy.wire.names import NAME_FORM, is_name

Duration = str | int | float  # "30s", or a number of seconds

DEFAULT_LEASE: Final = "30s"
DEFAULT_WAIT: Final = "5s"
DEFAULT_RETRY_DELAY: Final = "1s"


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """What a worker asks for: `limit_seconds` None means no limit."""

    queue: str
    wait_ms: int
    lease_seconds: int
    limit_seconds: float | None
    retry: RetryPolicy

    def open_key(self, *, by_connection: bool = False) -> str:
        """Return the key of a fetch that waits."""
        lease = "" if by_connection else f"/lease={self.lease_seconds}s"
        return f"{self.queue}/open{lease}/full/t={self.wait_ms}"

    def confirm_and_open_key(self, token: int, *, by_connection: bool = False) -> str:
        """Return the key that confirms a lease and fetches the next item, without a wait."""
        lease = "" if by_connection else f"/lease={self.lease_seconds}s"
        return f"{self.queue}/close/open/token={token}{lease}/full"


def parse_settings(
    queue: str,
    wait: Duration,
    lease: Duration,
    work_limit: Duration | None,
    retry_delay: Duration,
    max_attempts: int | None,
) -> WorkerSettings:
    """Return the settings; raise ValueError with one sentence about the wrong one."""
    if not is_name(queue):
        why = f"is not a queue's name: it must be {NAME_FORM} or /"
        raise ValueError(f"queue: {shown(queue)} {why}")
    wait_ms, lease_ms = duration_ms(wait, "wait"), duration_ms(lease, "lease")
    limit_ms = duration_ms(work_limit, "work_limit") if work_limit is not None else None
    if wait_ms < 1:
        raise ValueError("wait must be at least 1ms")
    if lease_ms < 1000:
        raise ValueError("lease must be at least 1s: the server counts it in whole seconds")
    if limit_ms is not None and limit_ms < 1000:
        raise ValueError("work_limit must be at least 1s")
    if max_attempts is not None and max_attempts < 1:
        raise ValueError("max_attempts must be at least 1")
    return WorkerSettings(
        queue, wait_ms, -(-lease_ms // 1000), limit_ms / 1000 if limit_ms is not None else None,
        RetryPolicy(duration_ms(retry_delay, "retry_delay"), max_attempts),
    )  # fmt: skip


def duration_ms(value: Duration, name: str = "") -> int:
    """Return the milliseconds of "30s" or of a number of seconds.

    Raises ValueError that begins with the name of the setting.
    """
    prefix = f"{name}: " if name else ""
    if isinstance(value, str):
        try:
            return parse_duration_ms(value)
        except ValueError as error:
            raise ValueError(f"{prefix}{error}") from None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise ValueError(
            f"{prefix}{shown(value)} is not a duration: it must be a text like \"30s\", or a "
            "number of seconds that is not negative"
        )
    if value * 1000 > MAX_DURATION_MS:
        longest = format_duration_ms(MAX_DURATION_MS)
        raise ValueError(f"{prefix}{shown(value)} seconds are too long: at most {longest}")
    return math.ceil(value * 1000)
