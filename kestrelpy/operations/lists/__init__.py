"""Lists for operators: queues, items, leases, keys, dead letters, each page with a limit."""

from kestrelpy.operations.lists.connections import (
    ConnectionFacts,
    HeldItem,
    Listening,
    held_items,
    waited_for,
)
from kestrelpy.operations.lists.deaths import DeathFilter, DeathGroup, Deaths, ListedDeath
from kestrelpy.operations.lists.delays import DelayedFacts, list_delayed
from kestrelpy.operations.lists.finding import FoundItems, Hit, find
from kestrelpy.operations.lists.items import ITEM_STATES, ItemList, ItemPage, ListedItem
from kestrelpy.operations.lists.journals import (
    JournalFacts,
    SegmentBucket,
    SegmentTotals,
    journal_facts,
    survey_segments,
)
from kestrelpy.operations.lists.keys import KeyFacts, KeyPage, list_keys
from kestrelpy.operations.lists.leases import list_leases
from kestrelpy.operations.lists.queues import QUEUE_SORTS, QueueOrder, QueuePage, list_queues
from kestrelpy.operations.lists.survey import survey

__all__ = [
    "ITEM_STATES", "QUEUE_SORTS", "ConnectionFacts", "DeathFilter", "DeathGroup", "Deaths",
    "DelayedFacts", "FoundItems", "HeldItem", "Hit", "ItemList", "ItemPage", "JournalFacts",
    "KeyFacts", "KeyPage", "ListedDeath", "ListedItem", "Listening", "QueueOrder",
    "QueuePage", "SegmentBucket", "SegmentTotals", "find", "held_items", "journal_facts",
    "list_delayed", "list_keys", "list_leases", "list_queues", "survey", "survey_segments",
    "waited_for",
]  # fmt: skip
