"""Fan-out children in the file: `[queues."orders+audit"]`, a subscription of the queue `orders`.

One rule: a child has limits of its own for its leases; settings of the log and of sets belong to
its parent.
"""

from typing import Final

# By attribute: the settings that a child shares with its parent.
SHARED: Final = frozenset({
    "max_item_bytes", "max_queue_age_ms", "sync", "sync_in_turn", "durable", "key_format",
    "key",
    "key_matches_any", "key_unordered", "key_is_free", "dedupe_same_body", "dedupe_window_ms",
    "scope_window_ms", "retain", "fanout_only", "fanout_create", "archive_to",
})  # fmt: skip


def parent_of(name: str) -> str:
    """Return the queue that a child of this name reads; empty if it is no child."""
    parent, plus, _ = name.partition("+")
    return parent if plus else ""


def why_no_child(name: str) -> str:
    """Return the mistake in the + of a name; empty if there is none."""
    parent, plus, child = name.partition("+")
    if not plus:
        return ""
    if "+" in child:
        return "a child has no children: a child's name is <queue>+<child>, with one +"
    if not parent or not child:
        return "a + names a fan-out child, <queue>+<child>, with a name on either side of it"
    return ""
