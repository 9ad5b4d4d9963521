"""Administration over HTTP: what the server says of itself, and what an operator does to it."""

from kestrelpy.http.admin import (
    actions,
    find,
    health,
    items,
    jobs,
    leases,
    moving,
    queues,
    schedules,
    server,
)
from kestrelpy.http.admin.common import find_queue, text_of
from kestrelpy.http.admin.health import Readiness, totals_of
from kestrelpy.http.admin.items import row_of_item
from kestrelpy.http.admin.jobs import Jobs
from kestrelpy.http.admin.models import shown
from kestrelpy.http.admin.queues import members_of_queue
from kestrelpy.http.admin.schedules import rows_of_schedules
from kestrelpy.http.admin.server import (
    members_of_connection,
    members_of_fleet,
    members_of_journals,
)

ROUTES = [
    route
    for each in (
        health, queues, items, find, actions, leases, moving, jobs, schedules, server
    )
    for route in each.router.routes
]

__all__ = [
    "ROUTES", "Jobs", "Readiness", "find_queue", "members_of_connection", "members_of_fleet",
    "members_of_journals", "members_of_queue", "row_of_item", "rows_of_schedules", "shown",
    "text_of", "totals_of",
]  # fmt: skip
