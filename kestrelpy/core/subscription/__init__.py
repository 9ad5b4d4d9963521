"""One subscription: its ready line, leases, nacks and outbox."""

from kestrelpy.core.subscription.outbox import AT_ONCE_MS, onward
from kestrelpy.core.subscription.placed import Placed
from kestrelpy.core.subscription.ready_line import item_of
from kestrelpy.core.subscription.restore import OutOfOrder
from kestrelpy.core.subscription.state import Needs
from kestrelpy.core.subscription.subscription import (
    ABORTED,
    DEFERRED,
    DELAYED,
    DONE,
    HUNG_UP,
    LENT,
    READY,
    Subscription,
)

__all__ = [
    "ABORTED", "AT_ONCE_MS", "DEFERRED", "DELAYED", "DONE", "HUNG_UP", "LENT", "READY", "Needs",
    "OutOfOrder", "Placed", "Subscription", "item_of", "onward",
]  # fmt: skip
