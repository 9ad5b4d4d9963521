"""Shared by the jobs: sessions, events, items, and the state of journals."""

from kestrelpy.spark.jobs.common import blocks, events
from kestrelpy.spark.jobs.common.baseline import (
    JournalState,
    Opening,
    begun_with,
    journals_in,
    older_snapshot,
    read_openings,
    read_states,
    reliable,
)
from kestrelpy.spark.jobs.common.children import MORE, events_of_each, items_of_children
from kestrelpy.spark.jobs.common.events import HOW, UNDERSTOOD, Events, Flush
from kestrelpy.spark.jobs.common.items import Items, Sorted, changes, latest_before, there
from kestrelpy.spark.jobs.common.job import (
    BREACH,
    HOLDS,
    UNUSABLE,
    Outcome,
    Progress,
    Request,
    counted,
    folders,
    parse,
    run,
)

__all__ = [
    "BREACH", "HOLDS", "HOW", "MORE", "UNDERSTOOD", "UNUSABLE", "Events", "Flush", "Items",
    "JournalState", "Opening", "Outcome", "Progress", "Request", "Sorted", "begun_with",
    "blocks", "changes", "counted", "events", "events_of_each", "folders", "items_of_children",
    "journals_in", "latest_before", "older_snapshot", "parse", "read_openings", "read_states",
    "reliable", "run", "there",
]  # fmt: skip
