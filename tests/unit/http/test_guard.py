"""Who may ask, and from where."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.http_client import web

URL = "/queues/jobs/items"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 201),
        ({"Host": "localhost:99"}, 201),
        ({"Host": "queue.example"}, 201),
        ({"Host": "rebound.example"}, 421),
        ({"Host": "127.0.0.1.example"}, 421),
        ({"Sec-Fetch-Site": "same-origin"}, 201),
        ({"Sec-Fetch-Site": "none"}, 201),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://elsewhere.example"}, 403),
        ({"Host": "localhost:1", "Origin": "http://localhost:1"}, 201),
        ({"Host": "localhost:1", "Origin": "http://localhost:2"}, 403),
        ({"Host": "localhost:1", "Origin": "https://localhost:1"}, 403),
    ],
)
async def test_only_pages_of_this_server_and_programs_may_change_something(
    tmp_path: Path, headers: dict[str, str], status: int
) -> None:
    config = '[server]\nhttp_allowed_hosts = ["queue.example"]\n'
    async with web(tmp_path, config) as server:
        done = await server.client.post(URL, content=b"x", headers=headers)
        assert done.status_code == status, done.text
        peer = await server.memcache()
        there = await peer.ask(b"get jobs\r\n")
        assert there.startswith(b"VALUE") == (status == 201)


async def test_every_answer_has_the_headers_of_safety(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        for url in ("/", "/nothing", "/queues/jobs/items"):
            said = (await server.client.get(url)).headers
            assert said["content-security-policy"].startswith("default-src 'none'")
            assert said["x-content-type-options"] == "nosniff"
            assert said["referrer-policy"] == "no-referrer"
            assert said["cache-control"] == "no-store"
            assert "access-control-allow-origin" not in said


async def test_methods_paths_and_bodies_that_are_not_allowed(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        for method in ("OPTIONS", "TRACE", "PROPFIND"):
            assert (await server.client.request(method, "/")).status_code == 405
        assert (await server.client.put(URL)).status_code == 405
        head = b"GET /%b HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        assert (await server.raw(head % b"%ff")).startswith(b"HTTP/1.1 400 ")
        assert (await server.raw(head % b"%00")).startswith(b"HTTP/1.1 400 ")
        no_host = b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n"
        assert (await server.raw(no_host)).startswith(b"HTTP/1.1 400 ")
        large = await server.client.post("/queues/jobs/leases", content=b"x" * (1 << 20 | 1))
        assert large.status_code == 413
        item = await server.client.post(URL, content=b"x" * (9 << 20))
        assert item.status_code == 413
