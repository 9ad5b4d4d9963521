"""Many processes, one data directory in an engine: who owns it, and who waits."""

from journal.engine import SLICE
from kestrelpy.fleet.member import FleetMember
from kestrelpy.fleet.membership import NOT_LOOKED, Membership

NEEDS_EXTRA = "needs the extra fleet: pip install 'kestrelpy[fleet]'"

__all__ = ["NEEDS_EXTRA", "NOT_LOOKED", "SLICE", "FleetMember", "Membership"]
