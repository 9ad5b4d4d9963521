"""The connections of a slice to the others, for items that move between them, and to its router."""

from kestrelpy.server.mail.couriers import Couriers
from kestrelpy.server.mail.pulse import BEAT_SECONDS, Pulse
from kestrelpy.server.mail.router_watch import SILENT_AFTER, RouterWatch

__all__ = ["BEAT_SECONDS", "SILENT_AFTER", "Couriers", "Pulse", "RouterWatch"]
