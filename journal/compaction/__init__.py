"""Compaction: which segments are rewritten, how, and how the old ones are removed."""

from journal.compaction.compaction import CompactionJob, DamagedInput
from journal.compaction.maintenance import Maintenance
from journal.compaction.reclaim import Reclaim
from journal.compaction.retire import archived_path, recycled_path, retire

__all__ = [
    "CompactionJob",
    "DamagedInput",
    "Maintenance",
    "Reclaim",
    "archived_path",
    "recycled_path",
    "retire",
]
