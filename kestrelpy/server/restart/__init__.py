"""A restart: the queues of a data directory are replayed, each folder once, and registered."""

from kestrelpy.server.restart.adoption import RecoveredDirectory
from kestrelpy.server.restart.recovery import recover, why_not_opened
from kestrelpy.server.restart.replayed import Replayed

__all__ = ["RecoveredDirectory", "Replayed", "recover", "why_not_opened"]
