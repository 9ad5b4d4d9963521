"""Administration over HTTP: what the server says of itself, and what an operator does to it."""

from fastapi import APIRouter

from kestrelpy.http.admin import actions, health, items, jobs, moving, queues, server
from kestrelpy.http.admin.health import Readiness
from kestrelpy.http.admin.jobs import Jobs

router = APIRouter()
for each in (health, queues, items, actions, moving, jobs, server):
    router.include_router(each.router)

__all__ = ["Jobs", "Readiness", "router"]
