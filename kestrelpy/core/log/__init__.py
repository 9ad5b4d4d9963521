"""Records, and the logs that the core appends them to."""

from typing import TypeAlias

from kestrelpy.core.log.log import JournalLog
from kestrelpy.core.log.memory_log import MemoryLog
from kestrelpy.core.log.records import packed
from kestrelpy.core.log.shared_log import Needs, SharedLog, on_disk

# The log of one queue: all of them are as the Protocol `kestrelpy.core.log.log.Log` says. Their
# names let mypyc call them directly.
Log: TypeAlias = JournalLog | MemoryLog | SharedLog

__all__ = ["JournalLog", "Log", "MemoryLog", "Needs", "SharedLog", "on_disk", "packed"]
