"""Records, and the logs that the core appends them to."""

from kestrelpy.core.log.log import JournalLog, Log
from kestrelpy.core.log.memory_log import MemoryLog
from kestrelpy.core.log.records import packed
from kestrelpy.core.log.shared_log import Needs, SharedLog, on_disk

__all__ = ["JournalLog", "Log", "MemoryLog", "Needs", "SharedLog", "on_disk", "packed"]
