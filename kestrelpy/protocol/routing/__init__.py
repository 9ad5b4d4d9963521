"""Many slices as one server: each request goes to the slice of its queue.

One rule: nothing is decided here; what a client hears comes from a slice.
"""

from kestrelpy.protocol.routing.merging import RouterCounts
from kestrelpy.protocol.routing.routed import RoutedConversation, RouterHost
from kestrelpy.protocol.routing.routed_login import IDLE, Waking

__all__ = ["IDLE", "RoutedConversation", "RouterCounts", "RouterHost", "Waking"]
