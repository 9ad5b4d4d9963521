"""`/views` and `/events`: what they take, what they refuse, what every view has."""

from __future__ import annotations

from pathlib import Path

import pytest

from kestrelpy.http.live.changes import changes
from tests.support.http_client import web


@pytest.mark.parametrize("query", [
    "view=nothing", "", "view=queues&limit=101", "view=queues&sort=up", "view=overview&range=2h",
    "view=overview&unknown=1",
])  # fmt: skip
async def test_a_view_that_there_is_not_is_refused(tmp_path: Path, query: str) -> None:
    async with web(tmp_path) as server:
        for path in ("/views", "/events"):
            answer = await server.client.get(f"{path}?{query}")
            assert answer.status_code == 400
            assert set(answer.json()) == {"title", "description"}


async def test_another_site_opens_no_stream(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        answer = await server.client.get(
            "/events?view=overview", headers={"sec-fetch-site": "cross-site"}
        )
        assert answer.status_code == 403


@pytest.mark.parametrize("view", [
    "overview", "queues", "queue&queue=jobs", "items&queue=jobs", "leases&queue=jobs",
    "keys&queue=jobs", "dead&queue=jobs", "connections", "schedules", "journal",
])  # fmt: skip
async def test_each_view_has_what_every_view_has(tmp_path: Path, view: str) -> None:
    async with web(tmp_path) as server:
        client = await server.memcache()
        for key in (b"", b"/key=a", b"/key=a", b"/delay=1h"):
            await client.ask(b"set jobs%b 0 0 1\r\nx\r\n" % key)
        await client.ask(b"get jobs/open\r\n")
        answer = await server.client.get(f"/views?view={view}")
        assert answer.status_code == 200, answer.text
        shown = answer.json()
        assert {"now_ms", "started_ms", "verdict", "server"} <= set(shown)
        assert not changes(shown, shown)
        if view.startswith("items"):
            assert [shown["rows"]["rows"][i]["body"] for i in shown["rows"]["order"]] == ["x"] * 3
        if view.startswith("leases"):
            assert len(shown["rows"]["order"]) == 1
