"""Many slices as one server: each request goes to the slice of its queue.

One rule: nothing is decided here; what a client hears comes from a slice.
"""

from kestrelpy.protocol.routing.mail import take_mail
from kestrelpy.protocol.routing.merging import RouterCounts, merged_word
from kestrelpy.protocol.routing.routed import RoutedConversation, RouterHost
from kestrelpy.protocol.routing.routed_login import IDLE, Waking
from kestrelpy.protocol.routing.routed_wire import (
    LATE,
    ONE,
    ROUTED_MAIL,
    ROUTED_MEMCACHE,
    Answers,
    Awaited,
    RoutedWire,
)
from kestrelpy.protocol.routing.routes import Names, queues_of
from kestrelpy.protocol.routing.sliced_queues import SlicedQueues, SlicedQueuesPort

__all__ = [
    "IDLE",
    "LATE",
    "ONE",
    "ROUTED_MAIL",
    "ROUTED_MEMCACHE",
    "Answers",
    "Awaited",
    "Names",
    "RoutedConversation",
    "RoutedWire",
    "RouterCounts",
    "RouterHost",
    "SlicedQueues",
    "SlicedQueuesPort",
    "Waking",
    "merged_word",
    "queues_of",
    "take_mail",
]
