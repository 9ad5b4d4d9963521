"""Items over HTTP: pages, one with its why, dead letters, removal."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kestrelpy.http.admin.items import cut_body
from tests.support.disks import HeldDisk
from tests.support.http_client import Web, web


@pytest.mark.parametrize(
    ("body", "is_cut", "shown"),
    [
        (b"abc", False, {"body": "abc"}),
        ("ä".encode()[:1], True, {"body": ""}),
        (b"a\xe4", False, {"base64": "YeQ="}),
        (b"\xff\xfe\xff\xfe\xff", True, {"base64": "//7//v8="}),
    ],
)
def test_a_body_is_shown_as_text_if_it_is_text(
    body: bytes, is_cut: bool, shown: dict[str, str]
) -> None:
    assert cut_body(body, is_cut) == shown


async def ids(server: Web, path: str) -> list[int]:
    page = (await server.client.get(f"/admin/queues/jobs/{path}")).json()
    return [each["id"] for each in page["items"]]


async def test_items_are_listed_by_state_and_key_from_memory_and_disk(tmp_path: Path) -> None:
    config = '[queues.jobs]\nmax_memory = "1KiB"\n'
    async with web(tmp_path, config) as server:
        for number in range(60):
            key = "?key=A" if number % 20 == 0 else ""
            await server.client.post(f"/queues/jobs/items{key}", content=b"%030d" % number)
        await server.client.post("/queues/jobs/items?delay=1h", content=b"later")
        (lease,) = (await server.client.post("/queues/jobs/leases")).json()["leases"]
        assert await ids(server, "items?state=leased") == [1]
        assert await ids(server, "items?state=delayed") == [61]
        assert await ids(server, "items?state=ready&limit=100") == list(range(2, 61))
        assert await ids(server, "items?key=A") == [1, 21, 41]
        page = (await server.client.get("/admin/queues/jobs/items?limit=50&body=5")).json()
        last = (await server.client.get(page["next"])).json()
        assert [each["id"] for each in last["items"]] == list(range(51, 61))
        assert (last["items"][0]["body"], last["items"][0]["is_cut"]) == ("00000", True)
        await server.client.delete(f"/queues/jobs/leases/{lease['token']}?bury=bad%0Aone")
        assert await ids(server, "items?state=dead") == [1]
        (dead,) = (await server.client.get("/admin/queues/jobs/dead")).json()["dead"]
        assert (dead["id"], dead["reason"]) == (1, "bad\none")
        counted = (await server.client.get("/admin/queues/jobs/dead/reasons")).json()
        (group,) = counted["reasons"]
        assert (group["reason"], group["count"], group["sample"]) == ("bad\none", 1, 1)
        assert group["first_ms"] == group["last_ms"] == dead["died_ms"]
        assert (counted["matched"], counted["counted"], counted["is_complete"]) == (1, 1, True)


async def test_a_body_that_is_no_text_is_listed_in_base64_alone(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        client = await server.memcache()
        await client.ask(b"set jobs 0 0 2\r\n\xff\xfe\r\n")
        (row,) = (await server.client.get("/admin/queues/jobs/items")).json()["items"]
        assert row["base64"] == "//4="
        assert "body" not in row


async def test_an_item_tells_why_it_is_not_delivered(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        for _ in range(2):
            await server.client.post("/queues/jobs/items?key=A", content=b"body")
        await server.client.post("/queues/jobs/leases")
        said = (await server.client.get("/admin/queues/jobs/items/2?body=2")).json()
        assert said["why"] == "behind key A held by item 1"
        assert (said["state"], said["body"], said["is_cut"]) == ("ready", "bo", True)
        assert (await server.client.get("/admin/queues/jobs/items/3")).status_code == 404


async def test_an_item_is_removed_or_made_available(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        await server.client.post("/queues/jobs/items", content=b"1")
        await server.client.post("/queues/jobs/items?delay=1h", content=b"2")
        items = "/admin/queues/jobs/items"
        assert (await server.client.delete(f"{items}/1")).json() == {"count": 1}
        assert (await server.client.delete(f"{items}/1")).status_code == 404
        assert (await server.client.post(f"{items}/2/retry")).json() == {"count": 1}
        assert (await server.client.post(f"{items}/2/retry")).status_code == 404
        got = (await server.client.post("/queues/jobs/leases?count=9")).json()["leases"]
        assert [each["body"] for each in got] == ["2"]
        assert (await server.client.delete(f"{items}/2")).status_code == 404  # it is leased
        await server.client.delete(f"/queues/jobs/leases/{got[0]['token']}?bury=why")
        assert (await server.client.delete(f"{items}/2")).json() == {"count": 1}
        assert await ids(server, "items?state=dead") == []


@pytest.mark.parametrize("dry", ["?dry_run=true", ""])
async def test_an_item_in_the_log_alone_is_removed_once_it_is_on_disk(
    tmp_path: Path, dry: str
) -> None:
    disk, config = HeldDisk(), '[queues.jobs]\nmax_memory = "1KiB"\n'
    async with web(tmp_path, config, disk) as server:
        for _ in range(60):
            await server.client.post("/queues/jobs/items", content=b"x" * 30)
        jobs = "/admin/queues/jobs/items"
        found = [(await server.client.delete(f"{jobs}/60{dry}")).status_code for _ in range(2)]
        assert found == [200, 200 if dry else 404]
        disk.go.clear()
        try:
            putting = asyncio.ensure_future(
                server.client.post("/queues/jobs/items", content=b"x" * 30)
            )
            while server.daemon.broker.queues[b"jobs"].last_number < 61:
                await asyncio.sleep(0)
            asked = asyncio.ensure_future(server.client.delete(f"{jobs}/61{dry}"))
            for _ in range(20):
                await server.client.get("/admin/mode")
            assert not asked.done()
        finally:
            disk.go.set()
        assert (await asked).json()["count"] == 1
        await putting


async def test_reasons_come_in_pages_the_largest_first(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        for reason in ("a", "b", "b", "c"):
            await server.client.post("/queues/jobs/items", content=b"1")
            (lease,) = (await server.client.post("/queues/jobs/leases")).json()["leases"]
            await server.client.delete(f"/queues/jobs/leases/{lease['token']}?bury={reason}")
        path, seen = "/admin/queues/jobs/dead/reasons?limit=2", list[tuple[str, int]]()
        while path:
            page = (await server.client.get(path)).json()
            seen += [(each["reason"], each["count"]) for each in page["reasons"]]
            assert (page["matched"], page["counted"]) == (3, 4)
            path = page["next"]
        assert seen == [("b", 2), ("a", 1), ("c", 1)]
