"""Queues, their leases and their keys, as pages."""

from __future__ import annotations

from pathlib import Path

from tests.support.http_client import Web, web


async def names(server: Web, path: str) -> list[str]:
    """The names on all pages from this one on."""
    seen, following = list[str](), path
    for _ in range(20):
        page = (await server.client.get(following)).json()
        seen += [each["name"] for each in page["queues"]]
        if page["next"] is None:
            return seen
        following = page["next"]
    raise AssertionError(seen)


async def test_pages_follow_their_links_through_all_queues(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        for name, count in (("a&b", 1), ("b", 3), ("c%2", 2)):
            for _ in range(count):
                await server.client.post(f"/queues/{name.replace('%', '%25')}/items", content=b"x")
        assert await names(server, "/admin/queues?limit=1") == ["a&b", "b", "c%2"]
        down = "/admin/queues?sort=items&order=down&limit=1"
        assert await names(server, down) == ["b", "c%2", "a&b"]
        assert await names(server, "/admin/queues?search=C") == ["c%2"]
        for bad in ("after=x", "after=1", "sort=mood", "limit=501", "order=left"):
            assert (await server.client.get(f"/admin/queues?{bad}")).status_code == 400


async def test_a_queue_tells_its_settings_and_where_they_come_from(tmp_path: Path) -> None:
    config = '[queues.jobs]\nmax_items = 5\narchive_to = "/tmp/deep/archive"\n'
    async with web(tmp_path, config) as server:
        await server.client.post("/queues/jobs/items", content=b"x")
        found = (await server.client.get("/admin/queues/jobs")).json()
        settings = {each["name"]: each for each in found["settings"]}
        assert settings["max_items"]["value"] == "5"
        assert settings["max_items"]["source"] == "file"
        assert "deep" not in settings["archive_to"]["value"]
        assert (found["facts"]["items"], found["markers"]["marker_latest"]) == (1, 1)
        assert found["journal"]["records_synced"] > 0
        assert (await server.client.get("/admin/queues/none")).status_code == 404


async def test_leases_and_keys_name_their_holders(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        for _ in range(3):
            await server.client.post("/queues/jobs/items?key=A,B", content=b"x")
        await server.client.post("/queues/jobs/leases?count=3")
        (lease,) = (await server.client.get("/admin/queues/jobs/leases")).json()["leases"]
        assert (lease["id"], lease["holder"]) == (1, "token")
        (key,) = (await server.client.get("/admin/queues/jobs/keys")).json()["keys"]
        assert (key["key"], key["holder"], key["waiting"]) == ("A,B", 1, 2)


async def test_delayed_items_that_are_due_next(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        for delay in ("30s", "10s"):
            await server.client.post(f"/queues/jobs/items?delay={delay}", content=b"x")
        found = (await server.client.get("/admin/queues/jobs/delayed?limit=1")).json()
        assert ([each["id"] for each in found["delayed"]], found["count"]) == ([2], 2)
