"""Plain integers with one schema for stats, HTTP and metrics.

One rule: a counter starts at 0 with the process and only grows. Numbers that can shrink (items,
leases) are counted by the structures that hold them.
"""

from __future__ import annotations

from typing import Final

# A value of a histogram has fewer bits: milliseconds since 1970 have 41 until the year 2039.
HISTOGRAM_BITS: Final = 48


def new_histogram() -> list[int]:
    """Return an empty histogram of whole numbers: the hot path counts into the list itself.

    Entry b counts the values with b bits: those below 2**b, and not below 2**(b-1). The last entry
    is the sum of all values. `histogram[value.bit_length()] += 1; histogram[-1] += value` counts
    a value, which is neither negative nor longer than HISTOGRAM_BITS - 1 bits.
    """
    return [0] * (HISTOGRAM_BITS + 1)


class Histogram:
    """Whole numbers from 0 on, counted by their bits (`new_histogram`)."""

    __slots__ = ("counts",)

    def __init__(self) -> None:
        self.counts = new_histogram()

    def add(self, value: int) -> None:
        """Count a value; one that is out of bounds is counted as the nearest."""
        counts = self.counts
        if value <= 0:
            counts[0] += 1
            return
        bits = value.bit_length()
        counts[bits if bits < HISTOGRAM_BITS else HISTOGRAM_BITS - 1] += 1
        counts[-1] += value

    @property
    def count(self) -> int:
        """The number of values."""
        return sum(self.counts[:-1])


class QueueCounters:
    """The events of one queue."""

    __slots__ = (
        "cancelled", "closes_without_open", "confirmed", "dead", "discarded", "duplicates",
        "expired", "flushes", "gaps", "lease_expired", "opened", "redelivered", "service_ms",
        "waiting_ms",
    )  # fmt: skip

    def __init__(self) -> None:
        self.expired = 0
        self.discarded = 0
        self.opened = 0
        self.cancelled = 0
        self.confirmed = 0  # deliveries that a confirm ended, one by one
        self.dead = 0  # items that became dead letters
        self.flushes = 0
        self.redelivered = 0
        self.lease_expired = 0
        self.closes_without_open = 0
        self.duplicates = 0  # puts of an id that was seen before: nothing was stored
        self.gaps = 0  # answers to observers whose marker was older than the first retained item
        # Histograms, made with the first value: from being stored to the first delivery, and from
        # a delivery to its confirm.
        self.waiting_ms: list[int] | None = None
        self.service_ms: list[int] | None = None

    def begin(self) -> tuple[list[int], list[int]]:
        """Make the histograms; return that of waiting and that of service."""
        self.waiting_ms, self.service_ms = both = new_histogram(), new_histogram()
        return both

    def count_confirm(self, served_ms: int) -> None:
        """Count a confirm of a delivery that took this long."""
        self.confirmed += 1
        service_ms = self.service_ms or self.begin()[1]
        if served_ms > 0:
            service_ms[served_ms.bit_length()] += 1
            service_ms[-1] += served_ms
        else:
            service_ms[0] += 1


class WireCounters:
    """The requests of one wire whose refusals have two classes."""

    __slots__ = ("client_errors", "commands", "server_errors")

    def __init__(self) -> None:
        self.commands = 0
        self.client_errors = 0
        self.server_errors = 0


class ServerCounters:
    """The events of all queues, and of the server's connections."""

    __slots__ = (
        "batch_records", "bytes_read", "bytes_written", "cmd_get", "cmd_peek", "cmd_set",
        "connections", "connections_total", "get_hits", "get_misses", "http_statuses",
        "loop_lag_us", "queue_creates", "queue_deletes", "queue_expires", "refused_quietly",
        "sync_us", "wires",
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
        self.http_statuses: dict[int, int] = {}  # answers by status
        self.wires: dict[str, WireCounters] = {}  # by the names of the wires
        self.sync_us = Histogram()
        self.batch_records = Histogram()
        self.loop_lag_us = Histogram()  # how late the loop is, once a second

    def wire(self, name: str) -> WireCounters:
        """Return the counters of a wire."""
        return self.wires.setdefault(name, WireCounters())
