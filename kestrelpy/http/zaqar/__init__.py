"""The messaging API under /v2, as OpenStack Zaqar has it: queues, messages and claims."""

from kestrelpy.http.zaqar.projects import prefix_of
from kestrelpy.http.zaqar.routes import ROUTES, with_short_way

__all__ = ["ROUTES", "prefix_of", "with_short_way"]
