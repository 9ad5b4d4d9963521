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
from kestrelpy.operations.ports import PAUSE, ItemReader, Site
from kestrelpy.operations.queue_admin import QueueAdmin
from kestrelpy.operations.removal import Removal
from kestrelpy.operations.rests import Awaited, Gate, Rests

__all__ = [
    "PAUSE", "Awaited", "Gate", "Inspection", "ItemReader", "QueueAdmin", "Removal", "Rests",
    "Site", "check_assigned", "death_facts", "lease_facts", "marker_facts", "queue_facts",
    "schedule_facts", "server_facts", "state_of",
]  # fmt: skip
