"""From files to a journal again: find segments, replay, name damage, reopen."""

from journal.recovery.bodies import BodyCheck, lost_items_text, runs
from journal.recovery.live_set import LiveSet, ReaderItems, lost_items
from journal.recovery.recovery import MISSING_BEFORE, MISSING_BEHIND, SHORTER, Recovery
from journal.recovery.reopen import SET_ASIDE_FOLDER, recovered_journal, set_aside
from journal.recovery.segment_order import SegmentFile, SegmentOrder

__all__ = [
    "MISSING_BEFORE",
    "MISSING_BEHIND",
    "SET_ASIDE_FOLDER",
    "SHORTER",
    "BodyCheck",
    "LiveSet",
    "ReaderItems",
    "Recovery",
    "SegmentFile",
    "SegmentOrder",
    "lost_items",
    "lost_items_text",
    "recovered_journal",
    "runs",
    "set_aside",
]
