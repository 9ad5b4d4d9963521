"""Fan-out children in the file: `[queues."orders+audit"]`, a reader of the queue `orders`.

One rule: a child has limits of its own for what it lends; what is about the log, and what a set may
be, is its parent's, and stands there.
"""

from typing import Final

# By attribute: what a child shares with its parent.
SHARED: Final = frozenset({
    "max_item_bytes", "max_queue_age_ms", "sync", "durable", "key_format", "key",
    "key_matches_any", "key_unordered", "key_is_free", "dedupe_window_ms", "scope_window_ms",
    "retain", "fanout_only", "fanout_create", "archive_to",
})  # fmt: skip


def parent_of(name: str) -> str:
    """The queue that a child of this name reads; empty: it is a queue's name."""
    parent, plus, _ = name.partition("+")
    return parent if plus else ""


def why_no_child(name: str) -> str:
    """What is wrong with the + in a name; empty: nothing, or there is none."""
    parent, plus, child = name.partition("+")
    if not plus:
        return ""
    if "+" in child:
        return "a child has no children: a child's name is <queue>+<child>, with one +"
    if not parent or not child:
        return "a + names a fan-out child, <queue>+<child>, with a name on either side of it"
    return ""
