"""Fan-out children: the state of each, and the notes that they share."""

from kestrelpy.core.fanout.child import Child
from kestrelpy.core.fanout.unseen import UNSEEN_MAX, Arrivals, Unseen

__all__ = ["UNSEEN_MAX", "Arrivals", "Child", "Unseen"]
