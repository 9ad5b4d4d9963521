"""Records, and the logs that the core appends them to."""

from kestrelpy.core.log import records
from kestrelpy.core.log.log import JournalLog, Log, on_disk
from kestrelpy.core.log.memory_log import MemoryLog

__all__ = ["JournalLog", "Log", "MemoryLog", "on_disk", "records"]
