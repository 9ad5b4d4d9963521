"""Where each route goes: to one slice, to several, or nowhere.

    /queues/{queue}/items, /streams/account-1, /v2/queues/{queue}/claims     the slice of the queue
    /admin/queues, /stats.json, /health, POST /admin/reload                  all, and one answer
    /admin/jobs/{job}                                                        the slice of its number
    /docs, /openapi.json, a path that is none                                any slice
    /, /page/{name}                                                          answered here

One rule: each route has a row; a route that has none goes nowhere, and a test says so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from kestrelpy.http.routing import Route
from kestrelpy.http.slices import merging
from kestrelpy.http.slices.asked import Asked, SliceAnswer
from kestrelpy.http.zaqar import prefix_of

MergeAway = Callable[[Asked, list[SliceAnswer], dict[int, str]], SliceAnswer]


class OfQueue(NamedTuple):
    """To the slice of this queue."""

    name: Callable[[Asked], bytes | None]  # None: any slice


class Anywhere(NamedTuple):
    """To any slice that serves: all say the same."""


class Here(NamedTuple):
    """Answered by the router: a file of the page."""


class OfAll(NamedTuple):
    """To all slices, whose answers `merge` makes one. With `by_number` its cursor is a number that
    each slice counts itself."""

    merge: merging.Merge
    by_number: bool = False


class OfAllThere(NamedTuple):
    """To all slices that serve; `merge` names those that are away."""

    merge: MergeAway


class Numbered(NamedTuple):
    """To the slice of the number in this part of the path."""

    part: str


class StartsJob(NamedTuple):
    """To the slice of the queue; its answer has the number of a job."""


class Metrics(NamedTuple):
    """To all slices, whose texts are added up."""


class FleetView(NamedTuple):
    """A slice checks the rights, and the router answers."""


class ReloadAll(NamedTuple):
    """To all slices, and the router reads the configuration as well."""


class Drain(NamedTuple):
    """A slice checks the rights, and the router ends."""


class LiveView(NamedTuple):
    """A view of the page: of one queue, or of all slices together; `is_stream`: as it changes."""

    is_stream: bool = False


Row = (
    OfQueue | Anywhere | Here | OfAll | OfAllThere | Numbered | StartsJob | Metrics | FleetView
    | ReloadAll | Drain | LiveView
)  # fmt: skip


def queue_of(asked: Asked) -> bytes:
    """Return the queue in the path."""
    return asked.parts["queue"].encode("utf-8", "surrogatepass")


def _queue_of_project(asked: Asked) -> bytes:
    return prefix_of(asked.project, asked.router.default_project) + queue_of(asked)


def _queue_of_stream(asked: Asked) -> bytes:
    return asked.parts["name"].partition("-")[0].encode("utf-8", "surrogatepass")


def _category(asked: Asked) -> bytes:
    return asked.parts["name"].encode("utf-8", "surrogatepass")


def _queue_of_schedule(asked: Asked) -> bytes | None:
    return asked.router.queue_of_schedule(asked.parts["name"])


_QUEUE: Final = OfQueue(queue_of)
_PROJECT: Final = OfQueue(_queue_of_project)
# By path, or by method and path.
ROWS: Final[dict[str, Row]] = {
    "/v2": Anywhere(), "/v2/": Anywhere(), "/v2/ping": Anywhere(),
    "/v2/health": OfAll(merging.messaging_health),
    "/v2/queues": OfAll(merging.project_queues),
    "/v2/queues/{queue}": _PROJECT, "/v2/queues/{queue}/purge": _PROJECT,
    "/v2/queues/{queue}/stats": _PROJECT, "/v2/queues/{queue}/messages": _PROJECT,
    "/v2/queues/{queue}/messages/{message}": _PROJECT, "/v2/queues/{queue}/claims": _PROJECT,
    "/v2/queues/{queue}/claims/{claim}": _PROJECT,
    "/v2/queues/{queue}/subscriptions": Anywhere(),
    "/v2/queues/{queue}/subscriptions/{rest}": Anywhere(), "/v2/queues/{queue}/share": Anywhere(),
    "/v2/pools": Anywhere(), "/v2/pools/{rest}": Anywhere(), "/v2/flavors": Anywhere(),
    "/v2/flavors/{rest}": Anywhere(),
    "/queues/{queue}/items": _QUEUE, "/queues/{queue}/leases": _QUEUE,
    "/queues/{queue}/leases/{token}": _QUEUE,
    "/streams/{name}": OfQueue(_queue_of_stream), "/categories/{name}": OfQueue(_category),
    "/metrics": Metrics(), "/health": OfAllThere(merging.health),
    "/ready": OfAllThere(merging.ready), "/stats.json": OfAll(merging.stats),
    "/admin/queues": OfAll(merging.queues), "/admin/queues/{queue}": _QUEUE,
    "/admin/queues/{queue}/leases": _QUEUE, "/admin/queues/{queue}/leases/{number}": _QUEUE,
    "/admin/queues/{queue}/delayed": _QUEUE, "/admin/queues/{queue}/keys": _QUEUE,
    "/admin/queues/{queue}/items": _QUEUE, "/admin/queues/{queue}/items/{item}": _QUEUE,
    "/admin/queues/{queue}/items/{item}/retry": _QUEUE,
    "/admin/queues/{queue}/items/{item}/body": _QUEUE,
    "/admin/queues/{queue}/items/{item}/life": _QUEUE, "/admin/queues/{queue}/at": _QUEUE,
    "/admin/queues/{queue}/dead": _QUEUE, "/admin/queues/{queue}/dead/reasons": _QUEUE,
    "/admin/queues/{queue}/pause": _QUEUE, "/admin/queues/{queue}/resume": _QUEUE,
    "/admin/queues/{queue}/flush": _QUEUE, "/admin/queues/{queue}/acknowledge": _QUEUE,
    "/admin/queues/{queue}/redrive": StartsJob(), "/admin/queues/{queue}/purge": StartsJob(),
    "/admin/queues/{queue}/move": StartsJob(),
    "/admin/find": OfAll(merging.find), "/admin/jobs": OfAll(merging.jobs),
    "/admin/jobs/{job}": Numbered("job"), "/admin/schedules": OfAll(merging.schedules),
    "/admin/schedules/{name}/run": OfQueue(_queue_of_schedule),
    "/admin/connections": OfAll(merging.connections, by_number=True),
    "/admin/connections/{connection}": Numbered("connection"),
    "/admin/journal": OfAll(merging.journal), "/admin/mode": OfAll(merging.mode),
    "/admin/fleet": FleetView(), "/admin/reload": ReloadAll(), "/admin/drain": Drain(),
    "/admin/me": Anywhere(),
    "/views": LiveView(), "/events": LiveView(is_stream=True),
    "/docs": Anywhere(), "/docs/start.js": Anywhere(), "/docs/{name}": Anywhere(),
    "/openapi.json": Anywhere(), "/": Here(), "/page/{name}": Here(),
}  # fmt: skip


def row_of(route: Route | None) -> Row:
    """Return where a route goes; None: the path is none of ours, and any slice says so."""
    return Anywhere() if route is None else ROWS[route.path]
