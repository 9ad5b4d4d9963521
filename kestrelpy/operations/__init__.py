"""What a request means, shared by every wire: it is decided here, and worded above."""

from kestrelpy.operations.actions import Action, Actions
from kestrelpy.operations.children import Children
from kestrelpy.operations.claiming import Claiming, claimed_by
from kestrelpy.operations.damage import DamageFacts, DamageFound
from kestrelpy.operations.item_facts import (
    GoneFacts,
    Inspection,
    ItemFacts,
    check_assigned,
    death_facts,
)
from kestrelpy.operations.item_life import ItemLife, LifeEvent, LifePart, LostPlace
from kestrelpy.operations.lease_end import LeaseEnd, ended
from kestrelpy.operations.leasing import Leasing
from kestrelpy.operations.lists import (
    ITEM_STATES,
    QUEUE_SORTS,
    ConnectionFacts,
    DeathFilter,
    DeathGroup,
    Deaths,
    DelayedFacts,
    HeldItem,
    Hit,
    ItemList,
    ItemPage,
    JournalFacts,
    KeyFacts,
    ListedDeath,
    ListedItem,
    Listening,
    QueueOrder,
    SegmentBucket,
    SegmentTotals,
    find,
    held_items,
    journal_facts,
    list_delayed,
    list_keys,
    list_leases,
    list_queues,
    survey,
    survey_segments,
    waited_for,
)
from kestrelpy.operations.modes import MODES, QUIESCENT, put_mode_in_force
from kestrelpy.operations.moving import MOVED_MAX, Moving
from kestrelpy.operations.names import check_name, parent_of, readable
from kestrelpy.operations.observing import Look, Observing, Seen, Sight, seen_of
from kestrelpy.operations.ports import PAUSE, Caller, Client, ItemReader, Site, Work
from kestrelpy.operations.preview import Preview
from kestrelpy.operations.queue_admin import QueueAdmin
from kestrelpy.operations.reading import PAGE_BYTES_MAX, LogReader, Page
from kestrelpy.operations.removal import Removal
from kestrelpy.operations.rests import Awaited, Gate, Rests
from kestrelpy.operations.stats_facts import (
    HEALTH_STATES,
    Health,
    LeaseFacts,
    QueueFacts,
    ScheduleFacts,
    ServerFacts,
    State,
    Totals,
    lease_facts,
    left_ms,
    marker_facts,
    queue_facts,
    queue_state,
    schedule_facts,
    server_facts,
    state_of,
)
from kestrelpy.operations.storing import Storing, Terms, why_reused
from kestrelpy.operations.streams import StreamStore, StreamWalk, check_stream

__all__ = [
    "HEALTH_STATES", "ITEM_STATES", "MODES", "MOVED_MAX", "PAGE_BYTES_MAX", "PAUSE", "QUEUE_SORTS",
    "QUIESCENT",
    "Action", "Actions",
    "Awaited", "Caller", "Children", "Claiming", "Client", "ConnectionFacts", "DamageFacts",
    "DamageFound", "DeathFilter", "DeathGroup", "Deaths", "DelayedFacts", "Gate", "GoneFacts",
    "Health", "HeldItem", "Hit", "Inspection", "ItemFacts", "ItemLife", "ItemList", "ItemPage",
    "ItemReader", "JournalFacts", "KeyFacts", "LeaseEnd", "LeaseFacts", "Leasing",
    "LifeEvent", "LifePart", "ListedDeath", "ListedItem", "Listening", "LogReader", "Look",
    "LostPlace",
    "Moving", "Observing", "Page", "Preview", "QueueAdmin", "QueueFacts", "QueueOrder",
    "Removal", "Rests", "ScheduleFacts", "Seen", "SegmentBucket", "SegmentTotals",
    "ServerFacts", "Sight", "Site", "State", "Storing", "StreamStore", "StreamWalk", "Terms",
    "Totals", "Work", "check_assigned", "check_name", "check_stream", "claimed_by",
    "death_facts", "ended", "find", "held_items", "journal_facts", "lease_facts", "left_ms",
    "list_delayed", "list_keys", "list_leases", "list_queues", "marker_facts", "parent_of",
    "put_mode_in_force", "queue_facts", "queue_state", "readable", "schedule_facts", "seen_of",
    "server_facts", "state_of", "survey", "survey_segments", "waited_for", "why_reused",
]  # fmt: skip
