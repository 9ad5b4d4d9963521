"""The messaging API under /v2, as OpenStack Zaqar has it: queues, messages and claims."""

from kestrelpy.http.zaqar.projects import prefix_of
from kestrelpy.http.zaqar.routes import BUSY, ROUTES

__all__ = ["BUSY", "ROUTES", "prefix_of"]
