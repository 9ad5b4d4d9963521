"""The routes, put together: from a request to a handler, from an exception to an answer.

One rule: every error is `{title, description}`, whoever raised it.
"""

from __future__ import annotations

from functools import cache
from typing import Final, NamedTuple, cast

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

import kestrelpy
from kestrelpy.errors import Refused
from kestrelpy.http import admin, docs, metrics, simple, streams, zaqar
from kestrelpy.http.answers import JSON, MISTAKE, HttpError, error_body, refused
from kestrelpy.http.door import Admission, App, Door, Receive, Scope, Send
from kestrelpy.http.guard import Guard
from kestrelpy.http.ports import HttpHost
from kestrelpy.http.short_way import with_short_way

# The largest item may be larger; its queue's own limit is checked by the handler.
_ITEM_BYTES_MAX: Final = 64 << 20
_BODY_BYTES_MAX: Final = 1 << 20

_PAGE: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>kestrelpy</title></head>
<body><h1>kestrelpy</h1><ul>
<li><a href="/docs">The HTTP interface</a></li>
<li><a href="/metrics">Metrics</a></li>
<li><a href="/stats.json">Figures</a></li>
</ul></body></html>
"""


class Shared(NamedTuple):
    """What the requests to one server share."""

    jobs: admin.Jobs
    scrapes: metrics.Scrapes
    readiness: admin.Readiness

    def close(self) -> None:
        """End what is under way: the server stops."""
        self.jobs.close()
        self.scrapes.close()


def open_door(host: HttpHost, admission: Admission, allowed_hosts: frozenset[str]) -> Door:
    """Return the door of this server, which does not listen yet."""
    app = with_short_way(cast(App, make_app()), (*zaqar.BUSY, *simple.BUSY))
    shared = Shared(admin.Jobs(), metrics.Scrapes(), admin.Readiness())

    async def of_this_server(scope: Scope, receive: Receive, send: Send) -> None:
        scope["shared"] = shared
        await app(scope, receive, send)

    return Door(Guard(of_this_server, host, allowed_hosts, body_bytes_max), admission, shared.close)


@cache
def make_app() -> FastAPI:
    """Return the application with all routes, for every server of this process.

    A request brings its `Call`, and what its server shares, in its scope.
    """
    app = FastAPI(
        title="kestrelpy", version=kestrelpy.__version__, docs_url=None, redoc_url=None,
        openapi_url=None,
        exception_handlers={
            Refused: _refused, HttpError: _refused, RequestValidationError: _invalid,
            HTTPException: _http_exception, Exception: _bug,
        },
    )  # fmt: skip
    app.state.openapi = b""
    app.include_router(zaqar.router)
    app.include_router(simple.router)
    app.include_router(streams.router)
    app.include_router(metrics.router)
    app.include_router(admin.router)
    app.include_router(docs.router)
    app.add_api_route("/", _page, include_in_schema=False)
    return app


def body_bytes_max(path: str) -> int:
    """Return the limit of a request's body, by its path."""
    is_item = path.startswith("/queues/") and path.endswith("/items")
    if is_item or path.startswith("/streams/"):
        return _ITEM_BYTES_MAX
    return _BODY_BYTES_MAX


async def _page() -> Response:
    return HTMLResponse(_PAGE)


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, Refused | HttpError)
    return refused(error)


async def _invalid(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(each) for each in first["loc"][1:]) or str(first["loc"][0])
    return Response(error_body(400, f"{where}: {first['msg']}"), 400, None, JSON)


async def _http_exception(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        text = "there is nothing at this path; /docs lists what there is"
    elif error.status_code == 405:
        text = f"{request.method} is not possible here; /docs lists what is"
    else:
        text = str(error.detail)
    headers = dict(error.headers) if error.headers else None
    return Response(error_body(error.status_code, text), error.status_code, headers, JSON)


async def _bug(_: Request, error: Exception) -> Response:
    # The guard logs it.
    return Response(error_body(500, MISTAKE), 500, None, JSON)
