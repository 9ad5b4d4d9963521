"""A daemon in this process that speaks HTTP, and its clients."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import time
from collections.abc import AsyncIterator
from functools import cache
from pathlib import Path
from typing import Any, cast

import httpx
import msgspec

from journal.files import Files
from kestrelpy.http.answers import JSON
from kestrelpy.http.app import ROUTES, openapi
from kestrelpy.http.live.watching import Live
from kestrelpy.http.routing.openapi import parts_of
from kestrelpy.server import Daemon
from tests.support.running import ANSWER_SECONDS, Peer, Running

# Members of answers: moments are milliseconds since 1970, spans are lengths.
MOMENTS = frozenset({
    "at_ms", "began_ms", "died_ms", "due_ms", "ended_ms", "ends_ms", "expires_ms", "first_ms",
    "last_backup_ms", "last_ms", "now_ms", "since_ms", "started_ms", "stored_ms",
})  # fmt: skip
SPANS = frozenset({
    "age_ms", "beat_age_ms", "disk_full_in_ms", "idle_ms", "lease_left_ms", "oldest_ms",
    "service_p50_ms", "service_p99_ms", "step_ms", "sync_p50_ms", "sync_p99_ms", "took_ms",
    "wait_p50_ms", "wait_p99_ms",
})  # fmt: skip
_YEARS_MS = 20 * 365 * 86_400_000
_UNTIL = re.compile(r"\buntil (\d+)")  # in a note: a moment as well


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

    @property
    def live(self) -> Live:
        """Return the part that samples the figures of this daemon and feeds `/events`."""
        listener = self.daemon._http._listener
        assert listener is not None
        return cast(Live, cast(Any, listener._at_open).__self__)

    async def raw(self, data: bytes) -> bytes:
        """Send these bytes on a connection of their own; return all bytes until it is closed."""
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
    found = [(route.method, filled(route.path)) for route in ROUTES]
    assert len(found) > 60
    return found


def filled(path: str) -> str:
    """A path of the application, its parameters filled in."""
    for name, value in (
        ("{queue}", "jobs"), ("{token}", "17"), ("/streams/{name}", "/streams/jobs-1"),
        ("{name}", "jobs"),
    ):  # fmt: skip
        path = path.replace(name, value)
    return re.sub(r"\{[a-z]+\}", "1", path)


async def check_times(said: httpx.Response) -> None:
    """Fail if a member of an answer in JSON is a time of another clock than its name says."""
    if said.request.method == "HEAD" or said.headers.get("content-type") != JSON:
        return
    wrong = wrong_times(json.loads(await said.aread()), int(time.time() * 1000))
    assert not wrong, f"{said.request.url}: {wrong}"


def wrong_times(answer: Any, unix_ms: int) -> list[str]:
    """Return the members whose name says another kind of time than they have; 0: none."""
    found = list[str]()
    todo = [answer]
    while todo:
        each = todo.pop()
        if isinstance(each, list):
            todo += each
        elif isinstance(each, str):
            moments = map(int, _UNTIL.findall(each))
            found += [each for moment in moments if abs(moment - unix_ms) >= _YEARS_MS]
        elif isinstance(each, dict):
            todo += each.values()
            for name, value in each.items():
                if not name.endswith("_ms") or type(value) not in (int, float):
                    continue
                is_moment = abs(value - unix_ms) < _YEARS_MS
                if name not in MOMENTS | SPANS:
                    found.append(f"{name}: neither among MOMENTS nor SPANS")
                elif value < 0 or (value and is_moment != (name in MOMENTS)):
                    found.append(f"{name}: {value}")
    return found


async def check_status(said: httpx.Response) -> None:
    """Fail if a route answers with a status that it does not declare, other than that of a bug."""
    method, path, status = said.request.method, said.request.url.path, said.status_code
    declared = _statuses(method, path)
    assert not declared or status in {*declared, 500}, f"{method} {path}: {status} is not declared"


@cache
def _statuses(method: str, path: str) -> frozenset[int]:
    """Return the statuses that the interface names for this path; none: it does not name it."""
    for route in ROUTES:
        if route.method == method and route.pattern.fullmatch(path):
            said = _described()["paths"].get(route.path, {}).get(method.lower(), {})
            return frozenset(map(int, said.get("responses", ())))
    return frozenset()


@cache
def _described() -> dict[str, Any]:
    return openapi()


async def check_shape(said: httpx.Response) -> None:
    """Fail if an answer in JSON is not as its route describes it."""
    if said.request.method == "HEAD" or said.headers.get("content-type") != JSON:
        return
    body = await said.aread()
    shapes = _shapes(said.request.method, said.request.url.path, said.status_code)
    wrong = list[str]()
    for shape in shapes:
        try:
            msgspec.json.decode(body, type=shape)
            return
        except msgspec.ValidationError as error:
            wrong.append(str(error))
    assert not wrong, f"{said.request.method} {said.request.url}: {wrong} {body[:500]!r}"


@cache
def _shapes(method: str, path: str, status: int) -> tuple[Any, ...]:
    """Return the shapes that an answer of this path with this status may have."""
    for route in ROUTES:
        if route.method == method and route.pattern.fullmatch(path):
            model = route.responses.get(status, {}).get("model")
            if model is None and status in (route.status, 200, 202):
                model = route.model
            return parts_of(model)
    return ()


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
            event_hooks={"response": [check_status, check_shape, check_times]},
        ) as client:
            yield Web(server, client, port)
    finally:
        if not server.daemon.is_leaving:
            await server.daemon.stop()
