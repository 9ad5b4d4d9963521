"""HEAD answers wherever GET does: the same status and headers, at once, and no body."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kestrelpy.http.app import ROUTES, allowed_methods
from tests.support.http_client import filled, web
from tests.support.running import ANSWER_SECONDS
from tests.support.zaqar import CLIENT

MESSAGING = {"Client-ID": CLIENT, "X-Project-ID": "acme"}
NEEDED = {"/admin/find": "?text=x", "/views": "?view=overview", "/events": "?view=overview"}
# A HEAD of its own, older than GET's: 204, or 404.
OWN = {"/v2/queues/{queue}", "/v2/ping"}
PATHS = [
    each.path for each in ROUTES
    if each.is_checked and each.method == "GET" and each.path not in OWN
]  # fmt: skip
VARY = {"content-length", "transfer-encoding"}  # of figures and streams


async def test_head_answers_as_get_without_a_body(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        for path in ("/queues/jobs/items", "/streams/jobs-1"):
            await server.client.post(path, content=b"x")
        complaints = list[str]()
        for path in PATHS:
            url = filled(path) + NEEDED.get(path, "")
            headers = MESSAGING if path.startswith("/v2") else {}
            head = await server.client.head(url, headers=headers)
            async with server.client.stream("GET", url, headers=headers) as got:
                same = {k: v for k, v in got.headers.items() if k not in VARY}
            there = {k: v for k, v in head.headers.items() if k not in VARY}
            if (head.status_code, there, head.content) != (got.status_code, same, b""):
                complaints.append(f"{url}: {head.status_code} {there}, {got.status_code} {same}")
        assert not complaints, "\n".join(complaints)


@pytest.mark.parametrize(
    "url",
    ["/categories/jobs?wait=60s", "/v2/queues/mail/messages?wait=60", "/events?view=overview",
     "/stats.json"],
)  # fmt: skip
async def test_head_waits_for_nothing(tmp_path: Path, url: str) -> None:
    async with web(tmp_path) as server:
        headers = MESSAGING if url.startswith("/v2") else {}
        asking = server.client.head(url, headers=headers)
        head = await asyncio.wait_for(asking, ANSWER_SECONDS)
        assert (head.status_code, head.content) == (200, b"")
        again = await server.client.head("/health")  # the connection is as good as before
        assert (again.status_code, int(again.headers["content-length"]) > 0) == (200, True)


async def test_head_is_refused_where_there_is_no_get(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        said = await server.client.head("/queues/jobs/items")
        assert (said.status_code, said.headers["allow"]) == (405, "POST")
        assert (await server.client.head("/health?x=1")).status_code == 400


def test_allow_names_head() -> None:
    assert allowed_methods("/health") == "GET, HEAD"
    assert allowed_methods("/queues/jobs/items") == "POST"
