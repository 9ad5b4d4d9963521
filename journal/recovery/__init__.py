"""From files to a journal again: find segments, replay, name damage, reopen."""

from journal.recovery.bodies import BodyCheck, lost_items_text, runs
from journal.recovery.chain import Chain, SegmentFile
from journal.recovery.live_set import LiveSet, ReaderItems, lost_items
from journal.recovery.recovery import MISSING_BEFORE, MISSING_BEHIND, SHORTER, Recovery
from journal.recovery.reopen import SET_ASIDE_FOLDER, recovered_journal, set_aside

__all__ = [
    "MISSING_BEFORE",
    "MISSING_BEHIND",
    "SET_ASIDE_FOLDER",
    "SHORTER",
    "BodyCheck",
    "Chain",
    "LiveSet",
    "ReaderItems",
    "Recovery",
    "SegmentFile",
    "lost_items",
    "lost_items_text",
    "recovered_journal",
    "runs",
    "set_aside",
]
