"""What a request means, shared by every wire: it is decided here, and worded above."""

from kestrelpy.operations.children import Children
from kestrelpy.operations.claiming import Claiming, claimed_by
from kestrelpy.operations.facts import (
    lease_facts,
    left_ms,
    marker_facts,
    queue_facts,
    schedule_facts,
    server_facts,
    state_of,
)
from kestrelpy.operations.item_facts import Inspection, check_assigned, death_facts
from kestrelpy.operations.lease_end import LeaseEnd, ended
from kestrelpy.operations.leasing import Leasing
from kestrelpy.operations.moving import MOVED_MAX, Moving
from kestrelpy.operations.names import check_name, parent_of, readable
from kestrelpy.operations.observing import Look, Observing, Seen, Sight, seen_of
from kestrelpy.operations.ports import PAUSE, Caller, Client, ItemReader, Site, Work
from kestrelpy.operations.queue_admin import QueueAdmin
from kestrelpy.operations.reading import PAGE_BYTES_MAX, LogReader, Page
from kestrelpy.operations.removal import Removal
from kestrelpy.operations.rests import Awaited, Gate, Rests
from kestrelpy.operations.storing import Storing, Terms

__all__ = [
    "MOVED_MAX",
    "PAGE_BYTES_MAX",
    "PAUSE",
    "Awaited",
    "Caller",
    "Children",
    "Claiming",
    "Client",
    "Gate",
    "Inspection",
    "ItemReader",
    "LeaseEnd",
    "Leasing",
    "LogReader",
    "Look",
    "Moving",
    "Observing",
    "Page",
    "QueueAdmin",
    "Removal",
    "Rests",
    "Seen",
    "Sight",
    "Site",
    "Storing",
    "Terms",
    "Work",
    "check_assigned",
    "check_name",
    "claimed_by",
    "death_facts",
    "ended",
    "lease_facts",
    "left_ms",
    "marker_facts",
    "parent_of",
    "queue_facts",
    "readable",
    "schedule_facts",
    "seen_of",
    "server_facts",
    "state_of",
]  # fmt: skip
