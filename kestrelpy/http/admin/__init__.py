"""Administration over HTTP: what the server says of itself, and what an operator does to it."""

from kestrelpy.http.admin import actions, find, health, items, jobs, moving, queues, server
from kestrelpy.http.admin.health import Readiness
from kestrelpy.http.admin.jobs import Jobs

ROUTES = [
    route
    for each in (health, queues, items, find, actions, moving, jobs, server)
    for route in each.router.routes
]

__all__ = ["ROUTES", "Jobs", "Readiness"]
