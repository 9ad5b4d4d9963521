"""Items and leases over HTTP, beside memcache on the same queues.

Promise: http-lease.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.support.http_client import web
from tests.support.running import Peer

ITEMS = "/queues/jobs/items"
LEASES = "/queues/jobs/leases"
RAW = {"Accept": "application/octet-stream"}


async def test_an_item_goes_in_over_one_wire_and_out_over_the_other(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        peer = await server.memcache()
        done = await server.client.post(f"{ITEMS}?flags=7", content=b"\0\xff\r\n")
        assert (done.status_code, done.json()) == (201, {"id": 1})
        assert await peer.ask(b"get jobs\r\n") == b"VALUE jobs 7 4\r\n"
        assert [await peer.line() for _ in range(3)] == [b"\0\xff\r\n", b"\r\n", b"END\r\n"]

        assert await peer.ask(b"set jobs 9 0 2\r\nhi\r\n") == b"STORED\r\n"
        got = await server.client.post(LEASES, headers=RAW)
        assert (got.status_code, got.content, got.headers["item-flags"]) == (200, b"hi", "9")
        gone = await server.client.delete(f"/queues/jobs/leases/{got.headers['lease-token']}")
        assert gone.status_code == 204
        assert await peer.ask(b"get jobs\r\n") == b"END\r\n"


async def test_leases_are_renewed_deferred_given_back_and_buried(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        client = server.client
        for number in range(4):
            await client.post("/queues/jobs/items", content=b"%d" % number)
        got = (await client.post("/queues/jobs/leases?count=9&lease=60s")).json()["leases"]
        assert [each["body"] for each in got] == ["0", "1", "2", "3"]
        tokens = [each["token"] for each in got]
        where = [f"/queues/jobs/leases/{token}" for token in tokens]
        assert (await client.patch(f"{where[0]}?lease=2h")).status_code == 204
        assert (await client.patch(f"{where[1]}?delay=1h")).status_code == 204
        assert (await client.delete(f"{where[2]}?abort")).status_code == 204
        assert (await client.delete(f"{where[3]}?bury=why")).status_code == 204
        for each in where[1:]:
            assert (await client.delete(each)).status_code == 404
        again = (await client.post("/queues/jobs/leases?count=9")).json()["leases"]
        assert [(each["body"], each["attempts"]) for each in again] == [("2", 1)]


@pytest.mark.parametrize("name", ["key", "%6bey", "k%65y", "%6B%65%79"])
async def test_a_key_counts_however_its_name_is_written(tmp_path: Path, name: str) -> None:
    async with web(tmp_path) as server:
        assert (await server.client.post(f"{ITEMS}?{name}=A%2CB,C", content=b"x")).is_success
        [item] = (await server.client.get("/admin/queues/jobs/items")).json()["items"]
        assert item["key"] == "A%2CB,C"


@pytest.mark.parametrize(("accept", "is_raw"), [
    (("application/octet-stream",), True), (("APPLICATION/Octet-Stream",), True),
    (("application/octet-stream;q=0",), False), (("application/octet-stream; q=0.000",), False),
    (("application/octet-stream;q=0.1, application/json",), False),
    (("application/octet-stream;q=0.9, application/json;q=0.5",), True),
    (("application/json", "application/octet-stream"), True),
    (("text/html", "application/octet-stream;v=1;q=0.2"), True),
    (("application/octet-stream-2",), False), (("*/*",), False), ((), False),
])  # fmt: skip
async def test_the_bare_body_comes_to_who_prefers_it(
    tmp_path: Path, accept: tuple[str, ...], is_raw: bool
) -> None:
    async with web(tmp_path) as server:
        await server.client.post(ITEMS, content=b"x")
        headers = [("Accept", each) for each in accept] or [("Accept", "")]
        got = await server.client.post(LEASES, headers=headers)
        assert (got.content == b"x") == is_raw
        assert ("lease-token" in got.headers) == is_raw


async def test_the_bare_body_comes_with_the_facts_of_its_lease(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        peer = await server.memcache()
        assert await peer.ask(b"set jobs 7 0 1\r\nx\r\n") == b"STORED\r\n"
        wanted = {"Accept": "application/octet-stream"}
        for attempts in ("0", "1"):
            got = await server.client.post(LEASES, headers=wanted)
            told = {name: got.headers[name] for name in ("item-id", "item-attempts", "item-flags")}
            assert told == {"item-id": "1", "item-attempts": attempts, "item-flags": "7"}
            done = await server.client.delete(f"{LEASES}/{got.headers['lease-token']}?abort")
            assert done.is_success


async def test_the_id_of_an_item_is_seen_once(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        said = [
            await server.client.post(ITEMS, content=b"x", headers={"Idempotency-Key": "a"}),
            await server.client.post(f"{ITEMS}?id=a", content=b"x"),
            await server.client.post(f"{ITEMS}?id=b", content=b"x"),
        ]
        assert [each.status_code for each in said] == [201, 200, 201]
        assert said[1].json() == {"duplicate": True, "id": said[0].json()["id"]}


async def test_a_wait_ends_with_an_item_or_with_its_time(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        empty = await server.client.post(f"{LEASES}?wait=50ms")
        assert (empty.status_code, empty.json()) == (200, {"leases": []})
        await server.client.post(ITEMS, content=b"first")
        await server.client.post(LEASES)
        waits = asyncio.ensure_future(server.client.post(f"{LEASES}?wait=20s"))
        peer = await server.memcache()
        await waiting(peer, 1)
        assert await peer.ask(b"set jobs 0 0 1\r\nx\r\n") == b"STORED\r\n"
        assert (await waits).json()["leases"][0]["body"] == "x"


async def test_a_client_that_hangs_up_while_it_waits_takes_nothing(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        peer = await server.memcache()
        assert await peer.ask(b"set jobs 0 0 5\r\nfirst\r\n") == b"STORED\r\n"
        await server.client.post(LEASES)
        _, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"POST /queues/jobs/leases?wait=60s HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await waiting(peer, 1)
        writer.close()
        await waiting(peer, 0)
        assert await peer.ask(b"set jobs 0 0 1\r\nx\r\n") == b"STORED\r\n"
        assert await peer.ask(b"get jobs\r\n") == b"VALUE jobs 0 1\r\n"


async def test_a_queue_that_is_deleted_as_it_serves_a_wait_takes_the_lease_along(
    tmp_path: Path,
) -> None:
    async with web(tmp_path) as server:
        wire = await server.memcache()
        assert await wire.ask(b"set jobs 0 0 5\r\nfirst\r\n") == b"STORED\r\n"
        await server.client.post(LEASES)
        waits = asyncio.ensure_future(server.client.post(f"{LEASES}?wait=1s"))
        await waiting(wire, 1)
        wire.writer.write(b"set jobs 0 0 1\r\nx\r\ndelete jobs\r\nset jobs 0 0 1\r\ny\r\n")
        answers = [await wire.line() for _ in range(3)]
        assert answers == [b"STORED\r\n", b"DELETED\r\n", b"STORED\r\n"]
        answer = await waits
        assert answer.status_code == 200
        assert [each["body"] for each in answer.json()["leases"]] in ([], ["y"])


async def waiting(peer: Peer, count: int, name: bytes = b"jobs") -> None:
    """Wait until `stats` says that `count` clients wait for this queue."""
    for _ in range(1000):
        said = b""
        peer.writer.write(b"stats\r\n")
        while not said.endswith(b"END\r\n"):
            said += await peer.line()
        if b"STAT queue_%b_waiters %d\r\n" % (name, count) in said:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(said)


async def test_bad_values_are_one_sentence(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        for url in (
            "/queues/a b/items", "/queues/jobs/items?flags=x", "/queues/jobs/items?delay=soon",
            "/queues/jobs/items?delay=1s&at=5", "/queues/jobs/items?at=x",
            "/queues/jobs/leases?count=0", "/queues/jobs/leases?count=101",
            "/queues/jobs/leases?lease=0s", "/queues/jobs/leases?wait=61s",
        ):
            done = await server.client.post(url, content=b"x")
            assert done.status_code == 400, url
            assert done.json()["title"] == "Bad Request"
            assert done.json()["description"], url
