"""What a request means, shared by every wire: it is decided here, and worded above."""

from kestrelpy.operations.facts import (
    lease_facts,
    marker_facts,
    queue_facts,
    schedule_facts,
    server_facts,
    state_of,
)
from kestrelpy.operations.item_facts import Inspection, check_assigned, death_facts
from kestrelpy.operations.lease_end import LeaseEnd, ended
from kestrelpy.operations.moving import MOVED_MAX, Moving
from kestrelpy.operations.ports import PAUSE, ItemReader, Site
from kestrelpy.operations.queue_admin import QueueAdmin
from kestrelpy.operations.removal import Removal
from kestrelpy.operations.rests import Awaited, Gate, Rests

__all__ = [
    "MOVED_MAX", "PAUSE", "Awaited", "Gate", "Inspection", "ItemReader", "LeaseEnd", "Moving",
    "QueueAdmin", "Removal", "Rests", "Site", "check_assigned", "death_facts", "ended",
    "lease_facts", "marker_facts", "queue_facts", "schedule_facts", "server_facts", "state_of",
]  # fmt: skip
