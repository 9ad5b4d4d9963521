"""A restart: the queues of a data directory are replayed, each folder once, and registered."""

from kestrelpy.server.restart.adoption import RecoveredDirectory
from kestrelpy.server.restart.recovery import recover, why_not_opened

__all__ = ["RecoveredDirectory", "recover", "why_not_opened"]
