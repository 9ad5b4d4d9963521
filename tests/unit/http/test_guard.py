"""The guard: which clients may ask, and from which pages."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import httpx
import pytest

from tests.support.http_client import every_route, web

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


async def test_an_event_stream_is_asked_for_by_pages_of_this_server_alone(tmp_path: Path) -> None:
    stream = {"Accept": "text/event-stream"}
    async with web(tmp_path) as server:
        for more, status in (
            ({}, 200), ({"Sec-Fetch-Site": "same-origin"}, 200),
            ({"Sec-Fetch-Site": "cross-site"}, 403), ({"Origin": "http://elsewhere.example"}, 403),
        ):  # fmt: skip
            said = await server.client.get("/health", headers={**stream, **more})
            assert said.status_code == status, more
        page = await server.client.get("/health", headers={"Sec-Fetch-Site": "cross-site"})
        assert page.status_code == 200


async def test_every_answer_has_the_headers_of_safety(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        heads = [
            (await server.client.request(method, path)).headers for method, path in every_route()
            if "connections/" not in path  # it would close this one
        ]
        heads += [(await server.client.get("/nothing")).headers]
        for path, more in (
            ("/", b"Host: elsewhere\r\n"), ("/", b""), ("/%zz", b"Host: localhost\r\n"),
            ("/" + "x" * 9000, b"Host: localhost\r\n"), ("/", b"a: %b\r\n" % (b"x" * 33_000)),
            ("/ /", b""), ("/", b"Host: localhost\r\nContent-Length: 99999999\r\n"),
        ):  # fmt: skip
            said = await server.raw(
                b"GET %b HTTP/1.1\r\nConnection: close\r\n%b\r\n" % (path.encode(), more)
            )
            lines = said.partition(b"\r\n\r\n")[0].decode().split("\r\n")[1:]
            heads.append(httpx.Headers([tuple(line.split(": ", 1)) for line in lines]))
        for head in heads:
            policy = head["content-security-policy"]
            assert policy.startswith("default-src 'none'")
            assert "frame-ancestors 'none'" in policy
            assert head["x-content-type-options"] == "nosniff"
            assert head["referrer-policy"] == "no-referrer"
            assert head["cross-origin-resource-policy"] == "same-origin"
            is_page = "trusted-types" in policy  # its files say nothing of the queues
            assert head["cache-control"] == ("no-cache" if is_page else "no-store")
            assert "set-cookie" not in head
            assert not [name for name in head if name.startswith("access-control")]


async def test_a_refused_method_is_answered_with_those_that_the_path_has(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        for method, path, allow in (
            ("PUT", "/queues/jobs/items", "POST"), ("OPTIONS", "/queues/jobs/items", "POST"),
            ("PUT", "/v2/queues/jobs/messages", "DELETE, GET, HEAD, POST"),
            ("PUT", "/health", "GET, HEAD"), ("TRACE", "/nothing", ""),
        ):
            said = await server.client.request(method, path)
            assert (said.status_code, said.headers["allow"]) == (405, allow), path


async def test_a_path_with_one_more_slash_is_another_path(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        for path in ("/health/", "/queues/jobs/items/", "/v2/queues/jobs/messages/1/"):
            assert (await server.client.get(path)).status_code == 404, path


async def test_an_empty_name_in_a_path_is_a_mistake(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        for path in ("/v2/queues/", "/v2/queues//stats", "/admin/queues/", "/categories/"):
            said = await server.client.get(path)
            assert said.status_code == 400, path
            assert "a name in the path is empty" in said.json()["description"]


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


async def test_a_client_that_hangs_up_in_its_body_is_no_mistake_and_stores_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    head = b"POST /queues/jobs/items HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n"
    async with web(tmp_path) as server:
        _, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(head + b"some")
        await writer.drain()
        while server.daemon._http.is_empty:
            await asyncio.sleep(0)
        writer.close()
        while not server.daemon._http.is_empty:
            await asyncio.sleep(0)
        assert b"jobs" not in server.daemon.broker.queues
        assert server.daemon.broker.counters.http_statuses == {}
    assert [each for each in caplog.records if each.levelno >= logging.ERROR] == []
