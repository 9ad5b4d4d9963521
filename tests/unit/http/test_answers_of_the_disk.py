"""An answer about an item waits until that item is on disk, whichever the answer: stored, a
repetition of an id, an id with another body, or no room."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from kestrelpy.http.call import Call
from tests.support.disks import HeldDisk
from tests.support.http_client import Web, web
from tests.support.zaqar import CLIENT

ITEMS = "/queues/jobs/items"
ONE = '[queues.jobs]\nmax_items = 1\n[queues."acme:jobs"]\nmax_items = 1\n'
SAME_BODY = '[queues.jobs]\ndedupe = "same body"\n'
HEADERS = {"Client-ID": CLIENT, "X-Project-ID": "acme"}


async def answers_after_the_sync(server: Web, disk: HeldDisk, first: Any, second: Any) -> int:
    """Ask twice while nothing is synced: neither is answered. Return the second status."""
    disk.go.clear()
    try:
        asked = asyncio.ensure_future(first)
        while not disk.waits:
            await asyncio.sleep(0)
        again = asyncio.ensure_future(second)
        for _ in range(50):
            assert (await server.client.get("/admin/mode")).status_code == 200
        assert not (asked.done() or again.done())
    finally:
        disk.go.set()
    assert (await asked).status_code == 201
    return int((await again).status_code)


@pytest.mark.parametrize(
    ("config", "query", "body", "status"),
    [
        ("", "", b"2", 201),
        ("", "?id=7", b"1", 200),
        (SAME_BODY, "?id=7", b"2", 422),
        (ONE, "", b"2", 503),
    ],
    ids=["stored", "seen", "seen with another body", "full"],
)
async def test_an_answer_about_an_item(
    config: str, query: str, body: bytes, status: int, tmp_path: Path
) -> None:
    disk = HeldDisk()
    async with web(tmp_path, config, disk) as server:
        post = server.client.post
        first = post(f"{ITEMS}?id=7", content=b"1")
        second = post(f"{ITEMS}{query}", content=body)
        assert await answers_after_the_sync(server, disk, first, second) == status


@pytest.mark.parametrize(("config", "status"), [("", 201), (ONE, 503)], ids=["stored", "full"])
async def test_an_answer_about_a_message(config: str, status: int, tmp_path: Path) -> None:
    disk = HeldDisk()
    async with web(tmp_path, config, disk) as server:
        messages = {"messages": [{"body": 1}]}
        posts = [
            server.client.post("/v2/queues/jobs/messages", json=messages, headers=HEADERS)
            for _ in range(2)
        ]
        assert await answers_after_the_sync(server, disk, *posts) == status


ITEM, EVENT, MESSAGES = ITEMS, "/streams/acc-1", "/v2/queues/jobs/messages"
# The path of a post, and a request that asks for the stored item before it is on disk.
ASKS = [
    (ITEM, "GET", "/admin/queues/jobs/items/1"),
    (ITEM, "GET", "/admin/queues/jobs/items/1/body"),
    (ITEM, "GET", "/admin/queues/jobs/items/1/life"),
    (ITEM, "POST", "/queues/jobs+kid/leases"),
    (EVENT, "GET", EVENT),
    (EVENT, "GET", "/categories/acc"),
    (MESSAGES, "GET", f"{MESSAGES}?echo=true"),
    (MESSAGES, "GET", f"{MESSAGES}/{{generation}}-1"),
    (MESSAGES, "GET", f"{MESSAGES}?ids={{generation}}-1"),
]


@pytest.mark.parametrize(("path", "method", "asks"), ASKS)
async def test_who_loses_the_right_before_the_sync_is_shown_nothing(
    path: str, method: str, asks: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, calls, admit = HeldDisk(), list[Call](), Call.admit
    monkeypatch.setattr(Call, "admit", lambda call, *rest: (calls.append(call), admit(call, *rest)))
    content = b'{"messages": [{"body": "old"}]}' if path == MESSAGES else b"old"
    kind = {"Content-Type": "application/json"} if path == MESSAGES else {}
    async with web(tmp_path, files=disk) as server:
        queues = server.daemon.broker.queues
        disk.go.clear()
        try:
            storing = asyncio.ensure_future(
                server.client.post(path, content=content, headers=HEADERS | kind)
            )
            while not disk.waits:
                await asyncio.sleep(0)
            (queue,) = queues.values()
            asked = asks.format(generation=queue.generation)
            asking = asyncio.ensure_future(server.client.request(method, asked, headers=HEADERS))
            while len(calls) < 2 or calls[1]._future is None:
                assert not asking.done(), asking.result().text
                await asyncio.sleep(0)
            calls[1]._is_revoked = True
        finally:
            disk.go.set()
        assert (await storing).status_code == 201
        said = await asking
        assert said.status_code == 401, said.text
        assert "old" not in said.text
        readers = [queue.reader for queue in queues.values()]
        assert not any(len(reader.leases) for reader in readers)
