"""Going back in time over HTTP: from a time or marker on, by key and text, bounded."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from kestrelpy.operations.lists import items
from tests.support.http_client import Web, web

RETAINED = '[queues.jobs]\nretain = "forever"\n'


async def at(server: Web, query: str) -> dict[str, Any]:
    said = await server.client.get(f"/admin/queues/jobs/at?{query}")
    assert said.status_code == 200, said.text
    page: dict[str, Any] = said.json()
    return page


def ids(page: dict[str, Any]) -> list[int]:
    return [each["id"] for each in page["items"]]


async def still(server: Web) -> tuple[Any, ...]:
    """Return the facts that a look at the past must not change."""
    queue = (await server.client.get("/admin/queues/jobs")).json()
    facts = {name: value for name, value in queue["facts"].items() if name != "age"}
    return facts, queue["markers"], queue["journal"]["records_appended"]


async def ten_items(server: Web) -> None:
    """Put items 1 to 10 and confirm the first three; the even ones have a key."""
    for number in range(1, 11):
        key = "" if number % 2 else "?key=even"
        await server.client.post(f"/queues/jobs/items{key}", content=b"body %d" % number)
    client = await server.memcache()
    for _ in range(3):
        await client.ask(b"get jobs\r\n")
        for _ in range(2):
            await client.line()


async def test_items_are_shown_from_a_marker_on_and_nothing_changes(tmp_path: Path) -> None:
    async with web(tmp_path, RETAINED) as server:
        await ten_items(server)
        before = await still(server)
        page = await at(server, "limit=4")
        assert ids(page) == [1, 2, 3, 4]
        assert [each["state"] for each in page["items"]] == ["done", "done", "done", "ready"]
        assert (page["looked"], page["is_whole"]) == (4, True)
        assert (page["marker_earliest"], page["marker_latest"]) == (1, 10)
        page = (await server.client.get(page["next"])).json()
        assert ids(page) == [5, 6, 7, 8]
        assert ids(await at(server, "after=8")) == [9, 10]
        assert (await at(server, "after=8"))["next"] is None
        assert ids(await at(server, "key=even&limit=2&after=2")) == [4, 6]
        assert ids(await at(server, "text=body+1")) == [1, 10]
        assert ids(await at(server, "text=nothing")) == []
        assert await still(server) == before


async def test_items_are_shown_from_a_time_on_over_pages_and_a_restart(tmp_path: Path) -> None:
    async with web(tmp_path, RETAINED) as server:
        await ten_items(server)
        last_ms = (await at(server, "after=9"))["items"][0]["stored_ms"]
        assert ids(await at(server, f"ms={last_ms + 1}")) == []
        later_ms = last_ms
        while later_ms <= last_ms:  # until the clock of the server has gone on
            await asyncio.sleep(0.001)
            await server.client.post("/queues/jobs/items", content=b"later")
            later_ms = (await at(server, "text=later&limit=100"))["items"][-1]["stored_ms"]
        expected = ids(await at(server, "text=later&limit=100"))
        shown = await at(server, f"ms={later_ms}&limit=1")
        assert shown["items"][0]["stored_ms"] == later_ms
        assert ids(shown) == expected[-1:]
        page = await at(server, "ms=1&limit=3")
        assert ids(page) == [1, 2, 3]
        assert ids((await server.client.get(page["next"])).json()) == [4, 5, 6]
    async with web(tmp_path, RETAINED) as server:
        assert ids(await at(server, f"ms={later_ms}")) == expected[-1:]


@pytest.mark.parametrize("bound", ["LOOKED_MAX", "LOOKED_BYTES_MAX"])
async def test_a_page_that_looked_at_enough_says_how_far_it_got(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    monkeypatch.setattr(items, bound, 4)
    monkeypatch.setattr(items, "_PER_READ", 4)
    async with web(tmp_path, RETAINED) as server:
        await ten_items(server)
        page = await at(server, "text=body+9")
        assert (ids(page), page["looked"], page["is_whole"]) == ([], 4, False)
        parts = 1
        while not page["items"]:
            page, parts = (await server.client.get(page["next"])).json(), parts + 1
        assert (ids(page), parts) == ([9], 3)


async def test_a_queue_that_is_not_there_and_bad_values_are_refused(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        assert (await server.client.get("/admin/queues/no/at")).status_code == 404
        await server.client.post("/queues/jobs/items", content=b"x")
        for query in ("ms=-1", "after=x", "limit=0", "text=" + "x" * 257):
            said = await server.client.get(f"/admin/queues/jobs/at?{query}")
            assert said.status_code == 400, query
