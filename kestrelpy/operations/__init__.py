"""What a request means, shared by every wire: it is decided here, and worded above."""

from kestrelpy.operations.facts import (
    LeaseFacts,
    MarkerFacts,
    QueueFacts,
    ScheduleFacts,
    ServerFacts,
    health,
    lease_facts,
    marker_facts,
    queue_facts,
    schedule_facts,
    server_facts,
    state_of,
)
from kestrelpy.operations.item_facts import (
    DeathFacts,
    GoneFacts,
    Inspection,
    ItemFacts,
    check_assigned,
    death_facts,
)

__all__ = [
    "DeathFacts", "GoneFacts", "Inspection", "ItemFacts", "LeaseFacts", "MarkerFacts",
    "QueueFacts", "ScheduleFacts", "ServerFacts", "check_assigned", "death_facts", "health",
    "lease_facts", "marker_facts", "queue_facts", "schedule_facts", "server_facts", "state_of",
]  # fmt: skip
