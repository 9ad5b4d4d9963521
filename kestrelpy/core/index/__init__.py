"""Data structures for ready, delayed, leased, dead and locked items."""

from kestrelpy.core.index.dead_letters import DeadLetters
from kestrelpy.core.index.dedupe import Scope, SeenIds
from kestrelpy.core.index.delayed import Delay, Delays
from kestrelpy.core.index.disk_refs import pack
from kestrelpy.core.index.expiry_watch import ExpiryWatch, LoggedExpiries
from kestrelpy.core.index.key_locks import Blocked, KeyLocks
from kestrelpy.core.index.leases import Former, Holder, Lease, Leases
from kestrelpy.core.index.markers import MarkerIndex, Release
from kestrelpy.core.index.memory_budget import UNLIMITED, MemoryBudget, MemoryShare
from kestrelpy.core.index.ready_list import ITEM_COST, NO_FRONTIER, Ready
from kestrelpy.core.index.retained_ids import RetainedIds
from kestrelpy.core.index.sorted_table import ENTRY, DueTimes
from kestrelpy.core.index.token_range import TokenRange
from kestrelpy.core.index.versions import NEVER, Versions, Written
from kestrelpy.core.index.waiters import Waiter, Waiters, Want

__all__ = [
    "ENTRY",
    "ITEM_COST",
    "NEVER",
    "NO_FRONTIER",
    "UNLIMITED",
    "Blocked",
    "DeadLetters",
    "Delay",
    "Delays",
    "DueTimes",
    "ExpiryWatch",
    "Former",
    "Holder",
    "KeyLocks",
    "Lease",
    "Leases",
    "LoggedExpiries",
    "MarkerIndex",
    "MemoryBudget",
    "MemoryShare",
    "Ready",
    "Release",
    "RetainedIds",
    "Scope",
    "SeenIds",
    "TokenRange",
    "Versions",
    "Waiter",
    "Waiters",
    "Want",
    "Written",
    "pack",
]  # fmt: skip
