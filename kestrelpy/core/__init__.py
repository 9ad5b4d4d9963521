"""The meaning of a queue: pure, synchronous code that appends records to a log in memory.

One rule: the time is an argument. The core imports none of asyncio, os, time and logging, and it
never calls out.
"""

from kestrelpy.core.broker import Broker
from kestrelpy.core.clock import ClockOffset
from kestrelpy.core.counters import Histogram, QueueCounters, ServerCounters, WireCounters
from kestrelpy.core.fanout import Child
from kestrelpy.core.index import Delay, Holder, Lease, Waiter, Want
from kestrelpy.core.item import Item
from kestrelpy.core.key_rule import NO_KEY, KeySettings
from kestrelpy.core.log import JournalLog, Log, MemoryLog, on_disk
from kestrelpy.core.policy import Policy
from kestrelpy.core.queue import (
    ANY_VERSION,
    DUPLICATE,
    EXISTS,
    NOT_FOUND,
    REUSED,
    AckUpTo,
    Admin,
    AnyQueue,
    Browse,
    ChildQueue,
    ChildStart,
    Queue,
    refuse_beyond,
)
from kestrelpy.core.queue_life import QueueLife
from kestrelpy.core.registry import TOKENS_PER_MS
from kestrelpy.core.replay import Replay
from kestrelpy.core.schedules import CatchUp, Running, Schedule, Timetable
from kestrelpy.core.subscription import (
    ABORTED,
    DEFERRED,
    DELAYED,
    DONE,
    LEASED,
    READY,
    Subscription,
    Where,
    item_of,
)
from kestrelpy.core.transfer import (
    Arrival,
    HandOff,
    Letter,
    LetterAnswer,
    Peer,
    Permit,
    RemoteTransfer,
    RemoteTransfers,
    TransferRequest,
    TransferTarget,
)

__all__ = [
    "ABORTED",
    "ANY_VERSION",
    "DEFERRED",
    "DELAYED",
    "DONE",
    "DUPLICATE",
    "EXISTS",
    "LEASED",
    "NOT_FOUND",
    "NO_KEY",
    "READY",
    "REUSED",
    "TOKENS_PER_MS",
    "AckUpTo",
    "Admin",
    "AnyQueue",
    "Arrival",
    "Broker",
    "Browse",
    "CatchUp",
    "Child",
    "ChildQueue",
    "ChildStart",
    "ClockOffset",
    "Delay",
    "HandOff",
    "Histogram",
    "Holder",
    "Item",
    "JournalLog",
    "KeySettings",
    "Lease",
    "Letter",
    "LetterAnswer",
    "Log",
    "MemoryLog",
    "Peer",
    "Permit",
    "Policy",
    "Queue",
    "QueueCounters",
    "QueueLife",
    "RemoteTransfer",
    "RemoteTransfers",
    "Replay",
    "Running",
    "Schedule",
    "ServerCounters",
    "Subscription",
    "Timetable",
    "TransferRequest",
    "TransferTarget",
    "Waiter",
    "Want",
    "Where",
    "WireCounters",
    "item_of",
    "on_disk",
    "refuse_beyond",
]  # fmt: skip
