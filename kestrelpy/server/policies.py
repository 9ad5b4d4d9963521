"""Settings as a file has them to policies as the core knows them.

One rule: nothing is decided here; every default stands in the configuration.
"""

from __future__ import annotations

from kestrelpy.config import QueueSettings
from kestrelpy.core.policy import Policy


def policy_of(settings: QueueSettings) -> Policy:
    """A queue's settings as the core knows them."""
    sync = settings.sync
    return Policy(
        lease_ms=settings.lease_ms,
        max_items=settings.max_items,
        max_bytes=settings.max_bytes,
        max_item_bytes=settings.max_item_bytes,
        discard_old_when_full=settings.discard_old_when_full,
        max_age_ms=settings.max_age_ms,
        max_queue_age_ms=settings.max_queue_age_ms,
        sync_ms=sync if isinstance(sync, int) else (0 if sync == "always" else -1),
        confirms_synced=settings.confirms_synced,
        durable=settings.durable,
        max_leased=settings.max_leased,
        max_attempts=settings.max_attempts,
        max_memory_bytes=settings.max_memory_bytes,
        archive_to=str(settings.archive_to or ""),
    )
