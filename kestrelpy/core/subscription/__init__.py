"""One subscription: its ready items, leases, nacks and outbox."""

from kestrelpy.core.subscription.outbox import AT_ONCE_MS, onward
from kestrelpy.core.subscription.placed import Placed
from kestrelpy.core.subscription.ready_items import item_of
from kestrelpy.core.subscription.restore import OutOfOrder
from kestrelpy.core.subscription.state import Needs
from kestrelpy.core.subscription.subscription import (
    ABORTED,
    DEFERRED,
    HUNG_UP,
    Subscription,
)
from kestrelpy.core.subscription.where import DELAYED, DONE, LEASED, READY, Where

__all__ = [
    "ABORTED", "AT_ONCE_MS", "DEFERRED", "DELAYED", "DONE", "HUNG_UP", "LEASED", "READY", "Needs",
    "OutOfOrder", "Placed", "Subscription", "Where", "item_of", "onward",
]  # fmt: skip
