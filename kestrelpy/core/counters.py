"""Plain integers with one schema for stats, HTTP and metrics.

One rule: a counter starts at 0 with the process and only grows. Numbers that can shrink (items,
leases) are counted by the structures that hold them.
"""

from __future__ import annotations


class QueueCounters:
    """The events of one queue."""

    __slots__ = (
        "cancelled", "closes_without_open", "discarded", "duplicates", "expired", "flushes", "gaps",
        "lease_expired", "opened", "redelivered",
    )  # fmt: skip

    def __init__(self) -> None:
        self.expired = 0
        self.discarded = 0
        self.opened = 0
        self.cancelled = 0
        self.flushes = 0
        self.redelivered = 0
        self.lease_expired = 0
        self.closes_without_open = 0
        self.duplicates = 0  # puts of an id that was seen before: nothing was stored
        self.gaps = 0  # answers to observers whose marker was older than the first retained item


class ServerCounters:
    """The events of all queues, and of the server's connections."""

    __slots__ = (
        "bytes_read", "bytes_written", "cmd_get", "cmd_peek", "cmd_set", "connections",
        "connections_total", "get_hits", "get_misses", "queue_creates", "queue_deletes",
        "queue_expires", "refused_quietly",
    )  # fmt: skip

    def __init__(self) -> None:
        self.bytes_read = 0
        self.bytes_written = 0
        self.cmd_get = 0
        self.cmd_peek = 0
        self.cmd_set = 0
        self.connections = 0
        self.connections_total = 0
        self.get_hits = 0
        self.get_misses = 0
        self.queue_creates = 0
        self.queue_deletes = 0
        self.queue_expires = 0
        self.refused_quietly = 0
