"""Many processes, one data directory in an engine: who owns it, and who waits."""

from kestrelpy.fleet.member import SLICE, FleetMember
from kestrelpy.fleet.membership import NOT_LOOKED, Membership

__all__ = ["NOT_LOOKED", "SLICE", "FleetMember", "Membership"]
