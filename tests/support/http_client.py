"""A daemon in this process that speaks HTTP, and its clients."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from functools import cache
from pathlib import Path
from typing import Any

import httpx
from fastapi.routing import APIRoute
from pydantic import TypeAdapter
from starlette.routing import Match

from journal.files import Files
from kestrelpy.http.answers import JSON
from kestrelpy.http.app import all_routes
from kestrelpy.server import Daemon
from tests.support.running import ANSWER_SECONDS, Peer, Running


class Web:
    """One daemon with HTTP: `client` is an httpx client of it."""

    def __init__(self, server: Running, client: httpx.AsyncClient, port: int) -> None:
        self.server = server
        self.client = client
        self.port = port

    @property
    def daemon(self) -> Daemon:
        """The daemon, which runs."""
        assert self.server.daemon is not None
        return self.server.daemon

    async def raw(self, data: bytes) -> bytes:
        """Send these bytes on a connection of their own; what comes back until it is closed."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(data)
        answer = await asyncio.wait_for(reader.read(), ANSWER_SECONDS)
        writer.close()
        return answer

    async def memcache(self) -> Peer:
        """A raw client of the memcache port."""
        return await self.server.client()


def every_route() -> list[tuple[str, str]]:
    """Each method and path of the application, its parameters filled in."""
    found = list[tuple[str, str]]()
    for route in all_routes():
        found += [(method, filled(route.path)) for method in sorted(route.methods or ())]
    assert len(found) > 60
    return found


def filled(path: str) -> str:
    """A path of the application, its parameters filled in."""
    for name, value in (
        ("{queue}", "jobs"), ("{token}", "17"), ("{name:rest}", "jobs-1"), ("{name}", "jobs"),
    ):  # fmt: skip
        path = path.replace(name, value)
    return re.sub(r"\{[a-z:]+\}", "1", path)


async def check_shape(said: httpx.Response) -> None:
    """Fail if an answer in JSON is not as its route describes it."""
    if said.request.method == "HEAD" or said.headers.get("content-type") != JSON:
        return
    model = _model(said.request.method, said.request.url.path, said.status_code)
    if model is not None:
        model.validate_json(await said.aread())


@cache
def _model(method: str, path: str, status: int) -> TypeAdapter[Any] | None:
    """The shape that the route of this path describes for answers with this status."""
    scope = {"type": "http", "method": method, "path": path, "root_path": ""}
    for route in all_routes():
        if isinstance(route, APIRoute) and route.matches(scope)[0] is Match.FULL:
            first = route.status_code or 200
            found = route.responses.get(status, {}).get("model")
            if found is None and status in (first, 200, 202):
                found = route.response_model
            return None if found is None else TypeAdapter(found)
    return None


@contextlib.asynccontextmanager
async def web(
    folder: Path, config: str = "", files: Files | None = None
) -> AsyncIterator[Web]:
    """Run a daemon with HTTP on a free port."""
    server = await Running(folder, files, config=config, http_port="0").start()
    assert server.daemon is not None
    line = next(line for line in server.lines if line.startswith("listening: http "))
    port = int(line.rpartition(":")[2])
    try:
        async with httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{port}", timeout=ANSWER_SECONDS,
            event_hooks={"response": [check_shape]},
        ) as client:
            yield Web(server, client, port)
    finally:
        if not server.daemon.is_leaving:
            await server.daemon.stop()
