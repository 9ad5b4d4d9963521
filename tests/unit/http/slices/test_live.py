"""The live views of the page over all slices: whole, then what changes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from journal.engine import Member
from kestrelpy.operations import Listening
from tests.support.sliced_web import SLICES, SlicedWeb, sliced_web

QUEUES = ("a", "c", "g")  # one in each slice


@pytest.fixture
async def web(tmp_path: Path) -> AsyncIterator[SlicedWeb]:
    async with sliced_web(tmp_path) as running:
        running.listening = Listening("127.0.0.1", 7, False, False)
        for at, name in enumerate(QUEUES, 1):
            for _ in range(at):
                await running.client.post(f"/queues/{name}/items", content="x")
        yield running


async def view(web: SlicedWeb, query: str) -> dict[str, Any]:
    said = await web.client.get(f"/views?view={query}")
    assert said.status_code == 200, said.text
    found: dict[str, Any] = said.json()
    return found


async def tick(web: SlicedWeb) -> None:
    for each in web.slices.values():
        assert each.daemon is not None
        listener = each.daemon._http._listener
        assert listener is not None
        await listener._at_open.__self__.tick()  # type: ignore[attr-defined]  # of Live


async def test_the_overview_adds_up_and_has_the_verdict_of_all(web: SlicedWeb) -> None:
    await tick(web)
    found = await view(web, "overview")
    assert found["queues"] == SLICES
    assert found["depth"]["ready"] == 6
    assert found["verdict"]["level"] == "ok"
    assert set(found["trouble"]["order"]) == set(QUEUES)
    assert found["server"]["memcache"]["port"] == 7
    assert len({len(each) for each in found["history"]["points"].values()}) == 1
    assert found["append"]["points"].keys() == found["history"]["points"].keys()


async def test_rows_of_queues_say_the_member_that_owns_their_slice(web: SlicedWeb) -> None:
    await tick(web)
    web.is_in_fleet = True
    web.elsewhere = {web.placement.slice_of(b"a"): Member("host-b", "host-b:1")}
    found = await view(web, "queues")
    rows = found["queues"]["rows"]
    assert [rows[name]["member"] for name in QUEUES] == ["host-b", "here", "here"]
    assert found["server"]["slices"] == SLICES
    assert (await view(web, "queue&queue=a"))["queue"]["member"] == "host-b"


async def test_rows_of_queues_say_their_slice_and_are_in_one_order(web: SlicedWeb) -> None:
    await tick(web)
    found = (await view(web, "queues&sort=items&order=down"))["queues"]
    assert found["order"] == ["g", "c", "a"]
    for name in QUEUES:
        assert found["rows"][name]["slice"] == web.placement.slice_of(name.encode())
    page = await view(web, "queues&sort=items&order=down&offset=1&limit=1")
    assert (page["queues"]["order"], page["total"]) == (["c"], 3)
    said = await web.client.get("/views?view=queues&offset=2000")
    assert said.status_code == 400


@pytest.mark.parametrize("kind", ["connections", "schedules", "journal"])
async def test_each_view_of_all_is_there(web: SlicedWeb, kind: str) -> None:
    assert (await view(web, kind))["verdict"]["level"] == "ok"


@pytest.mark.parametrize("kind", ["queue", "items", "leases", "keys", "dead"])
async def test_a_view_of_a_queue_is_that_of_its_slice(web: SlicedWeb, kind: str) -> None:
    for name in QUEUES:
        found = await view(web, f"{kind}&queue={name}")
        assert found["server"]["memcache"]["port"] == 7
        if kind == "queue":
            assert found["queue"]["slice"] == web.placement.slice_of(name.encode())
    assert (await web.client.get(f"/views?view={kind}&queue=none")).status_code == 404


async def test_a_bad_parameter_is_refused_as_by_a_server(web: SlicedWeb) -> None:
    for query in ("view=nothing", "view=overview&queue=a", "view=queues&offset=x"):
        assert (await web.client.get(f"/views?{query}")).status_code == 400
        assert (await web.client.get(f"/events?{query}")).status_code == 400


async def test_a_slice_that_is_away_is_a_line_of_the_verdict(web: SlicedWeb) -> None:
    await tick(web)
    await web.of("c").stop()
    found = await view(web, "queues")
    number = web.placement.slice_of(b"c")
    assert found["verdict"]["level"] == "bad"
    assert found["verdict"]["lines"][0]["text"] == (
        f"slice {number} does not serve: ended with code 1"
    )
    assert found["total"] == 2
    assert (await web.client.get("/views?view=queue&queue=c")).status_code == 503


class Events:
    """A stream of events, one after the other."""

    def __init__(self, lines: AsyncIterator[str]) -> None:
        self._lines = lines

    async def next(self) -> tuple[str, dict[str, Any]]:
        kind = ""
        async for line in self._lines:
            if line.startswith("event: "):
                kind = line.removeprefix("event: ")
            elif line.startswith("data: "):
                return kind, json.loads(line.removeprefix("data: "))
        raise EOFError


async def test_a_stream_sends_the_view_whole_then_what_changes_and_says_its_end(
    web: SlicedWeb,
) -> None:
    async with web.client.stream("GET", "/events?view=queues&sort=name&order=up") as answer:
        events = Events(answer.aiter_lines())
        kind, found = await events.next()
        assert kind == "whole"
        await web.client.post("/queues/c/items", content="x")
        while "queues" not in found or found["queues"]["rows"].get("c", {}).get("ready") != 3:
            kind, found = await events.next()
            assert kind in ("change", "whole")
        await web.of("g").stop()
        while found.get("verdict", {}).get("level") != "bad":
            _, found = await events.next()
        web.side.close()
        while kind != "end":
            kind, found = await events.next()
        assert found == {"why": "draining"}


async def test_a_stream_of_a_queue_that_is_not_there_says_so_and_goes_on(web: SlicedWeb) -> None:
    async with web.client.stream("GET", "/events?view=queue&queue=new") as answer:
        events = Events(answer.aiter_lines())
        assert (await events.next())[1]["error"]["status"] == 404
        await web.client.post("/queues/new/items", content="x")
        _, found = await events.next()
        while "queue" not in found:
            _, found = await events.next()
        assert found["queue"]["slice"] == web.placement.slice_of(b"new")


async def test_a_viewer_that_leaves_asks_no_more(web: SlicedWeb) -> None:
    async with web.client.stream("GET", "/events?view=overview") as answer:
        await Events(answer.aiter_lines()).next()
        assert web.side.connections == 1
    while web.side.connections > 1:
        await asyncio.sleep(0.01)
