"""The messaging API under /v2, as OpenStack Zaqar has it: queues, messages and claims."""

from typing import Final

from kestrelpy.http.routing import Route
from kestrelpy.http.zaqar import claims, home, messages, queues
from kestrelpy.http.zaqar.projects import prefix_of

ROUTES: Final[list[Route]] = [
    route for each in (messages, claims, queues, home) for route in each.router.routes
]

__all__ = ["ROUTES", "prefix_of"]
