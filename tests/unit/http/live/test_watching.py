"""Live views over a real daemon: whole first, then changes; gaps, many streams, the end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from kestrelpy.http.live import watching
from kestrelpy.http.live.sampler import SERVER_SERIES, Sampler
from kestrelpy.http.live.views import Rendered
from kestrelpy.server import clock
from tests.support.http_client import Web, web
from tests.support.running import ANSWER_SECONDS

Event = tuple[str, str, dict[str, Any]]


class Events:
    """One open stream of events."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self._lines = response.aiter_lines()
        self.view: dict[str, Any] = {}

    async def next(self) -> Event:
        """The next event: its id, its kind, its data; `view` follows."""
        found: dict[str, str] = {}
        async with asyncio.timeout(ANSWER_SECONDS):
            async for line in self._lines:
                name, _, value = line.partition(": ")
                if line:
                    found[name] = value
                elif "event" in found:
                    break
                else:
                    found.clear()
        data = json.loads(found["data"])
        if found["event"] == "whole":
            self.view = data
        elif found["event"] == "change":
            self.view = merged(self.view, data)
        return found["id"], found["event"], data

    async def until(self, *path: str, value: Any) -> None:
        """Read on until this member has this value."""
        while at(self.view, path) != value:
            assert (await self.next())[1] != "end"


def at(view: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        view = view.get(name) if isinstance(view, dict) else None
    return view


def merged(before: Any, patch: Any) -> Any:
    """RFC 7396, as the page does it."""
    if not isinstance(patch, dict):
        return patch
    made = dict(before) if isinstance(before, dict) else {}
    for name, value in patch.items():
        if value is None:
            made.pop(name, None)
        else:
            made[name] = merged(made.get(name), value)
    return made


@asynccontextmanager
async def events(server: Web, query: str) -> AsyncIterator[Events]:
    async with server.client.stream("GET", f"/events?{query}") as response:
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        yield Events(response)


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "TICK_SECONDS", 0.05)


async def test_a_set_by_another_client_comes_as_a_change(tmp_path: Path) -> None:
    async with web(tmp_path) as server, events(server, "view=overview") as stream:
        first = await stream.next()
        assert first[1] == "whole"
        assert stream.view["verdict"] == {"level": "ok", "lines": []}
        assert "stored" in stream.view["history"]["points"]
        client = await server.memcache()
        assert await client.ask(b"set jobs 0 0 1\r\nx\r\n") == b"STORED\r\n"
        await stream.until("depth", "ready", value=1)
        await stream.until("trouble", "order", value=["jobs"])
        assert "history" in stream.view, "a change does not carry it, and does not remove it"
        assert first[0].rpartition("-")[0] in (await stream.next())[0]


async def test_each_event_names_the_date_at_which_the_server_started(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    offset_ms = 1_700_000_000_000  # a step of the real clock would change what is expected
    monkeypatch.setattr(clock, "wall_clock_offset_ms", lambda: offset_ms)
    async with web(tmp_path) as server, events(server, "view=overview") as stream:
        ids = [(await stream.next())[0] for _ in range(2)]
        date_ms = server.daemon.started_ms + offset_ms
        assert [each.rpartition("-")[0] for each in ids] == [str(date_ms)] * 2
        assert stream.view["started_ms"] == date_ms


async def test_the_free_disk_is_known_after_one_tick(tmp_path: Path) -> None:
    async with web(tmp_path) as server, events(server, "view=overview") as stream:
        for _ in range(2):
            await stream.next()
        assert server.live.samples.ticks < 10
        assert stream.view["disk_free"] > 0


async def test_a_change_makes_what_the_whole_view_shows(tmp_path: Path) -> None:
    async with web(tmp_path) as server, events(server, "view=queue&queue=jobs") as stream:
        await stream.next()
        assert stream.view["error"]["status"] == 404
        client = await server.memcache()
        await client.ask(b"set jobs 0 0 1\r\nx\r\n")
        await stream.until("queue", "ready", value=1)
        await stream.until("error", value=None)
        await client.ask(b"delete jobs\r\n")
        await stream.until("error", "status", value=404)
        assert "queue" not in stream.view


def test_a_viewer_from_before_the_first_sample_misses_no_change() -> None:
    watched = watching.Watched()
    watched.renew(1, Rendered({"depth": 0}))  # for the first viewer, before any sample
    seen = watched.tick
    watched.renew(1, Rendered({"depth": 1}))  # with the first sample
    assert watched.tick > seen
    assert (watched.before, watched.change) == (seen, b'{"depth":1}')


async def test_a_view_is_rendered_once_for_all_who_watch_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with web(tmp_path) as server:
        live, rendered = server.live, list[str]()
        real = live.render

        async def counted(view: Any, call: Any) -> Any:
            rendered.append(view.view)
            return await real(view, call)

        monkeypatch.setattr(live, "render", counted)
        await asyncio.sleep(0.2)
        assert not rendered, "no client watches"
        async with events(server, "view=queues") as one, events(server, "view=queues") as two:
            await one.next()
            await two.next()
            rendered.clear()
            begin = live.samples.ticks
            while live.samples.ticks < begin + 5:
                await one.next()
            assert len(rendered) <= live.samples.ticks - begin + 1
        while live._watched:
            await asyncio.sleep(0.01)


async def test_a_view_that_is_ready_after_a_tick_has_what_every_view_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with web(tmp_path) as server:
        live, real = server.live, watching.render

        async def late(*of: Any) -> Rendered:
            rendered = await real(*of)
            await live.tick()
            return rendered

        monkeypatch.setattr(watching, "render", late)
        shown = (await server.client.get("/views?view=journal")).json()
        assert shown.keys() >= {"now_ms", "started_ms", "verdict", "server", "health"}


async def test_streams_are_bounded_and_end_with_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "STREAMS_MAX", 1)
    async with web(tmp_path) as server:
        async with events(server, "view=schedules") as stream:
            await stream.next()
            refused = await server.client.get("/events?view=overview")
            assert refused.status_code == 503
            assert "1 live views are open" in refused.json()["description"]
            stopping = asyncio.create_task(server.daemon.stop())
            kind, data = "", {}
            while kind != "end":
                _, kind, data = await stream.next()
            assert data == {"why": "draining"}
        await stopping


async def test_a_watcher_that_skipped_a_tick_gets_the_whole_view(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        live = server.live
        async with events(server, "view=journal") as stream:
            await stream.next()
            (watched,) = live._watched.values()
            watched.before = -1  # as if two ticks had passed while it was sending
            kinds = [(await stream.next())[1] for _ in range(3)]
            assert "change" in kinds
            watched.before = -1
            watched.tick += 1
            for call in watched.watchers:
                call.flush(0)
            while (await stream.next())[1] != "whole":
                pass


async def test_a_mode_is_in_the_verdict_with_its_beginning_before_anybody_looked(
    tmp_path: Path,
) -> None:
    async with web(tmp_path) as server:
        await server.client.patch("/admin/mode", json={"mode": "readonly"})
        first = (await server.client.get("/views?view=overview")).json()
        (line,) = first["verdict"]["lines"]
        assert (line["code"], line["link"]) == ("readonly", "#/journal")
        assert first["started_ms"] <= line["since_ms"] <= first["now_ms"]
        async with events(server, "view=overview") as stream:
            for _ in range(2):
                await stream.next()
        (later,) = (await server.client.get("/views?view=overview")).json()["verdict"]["lines"]
        assert later == line


async def test_the_disk_is_full_where_nothing_new_is_stored(tmp_path: Path) -> None:
    async with web(tmp_path, '[server]\nmin_disk_free = "1GiB"\n') as server:
        live, mib = server.live, 1 << 20
        samples = live.samples = Sampler()
        for number in range(20):  # 10 GiB, and 100 MiB less every ten seconds
            figures = dict.fromkeys(SERVER_SERIES, 0.0)
            figures["disk_free"] = (10_240 - 100 * number) * mib
            samples.rings.add(number * 10_000, list(figures.values()))
        # 8,340 MiB are left, 7,316 of them for new items: full in 731 s, said in whole minutes.
        assert live._when_disk_is_full() == 12 * 60_000
