"""The views over one queue in every state."""

from __future__ import annotations

from pathlib import Path

from tests.support.http_client import web


async def test_the_views_of_a_queue_show_its_leases_keys_and_reasons(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        client = await server.memcache()
        for body in (b"1", b"2"):
            await client.ask(b"set jobs/key=a 0 0 1\r\n%b\r\n" % body)
        await client.ask(b"get jobs/open\r\n")
        await (await server.memcache()).ask(b"get jobs/open\r\n")
        base = "/views?queue=jobs&view="
        leases = (await server.client.get(f"{base}leases")).json()["rows"]
        assert leases["order"] == ["1"]
        lease = leases["rows"]["1"]
        assert lease["ends_ms"] > lease["began_ms"] >= lease["stored_ms"]
        keys = (await server.client.get(f"{base}keys")).json()["rows"]
        assert keys["rows"]["a"]["holder"] == 1
        assert keys["rows"]["a"]["waiting"] == 1
        items = (await server.client.get(f"{base}items&state=leased")).json()["rows"]
        assert items["order"] == ["1"]
        queue = (await server.client.get(f"{base}queue")).json()
        assert "key a is held by item 1" in queue["why"][0]
        assert queue["queue"]["blocked"] == 1
        assert queue["queue"]["facts"]["leased"] == 1
        missing = await server.client.get("/views?view=queue&queue=no")
        assert missing.status_code == 404


async def test_pages_of_items_go_on_where_they_ended(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        client = await server.memcache()
        for _ in range(5):
            await client.ask(b"set jobs 0 0 1\r\nx\r\n")
        seen, after = list[str](), 0
        while after is not None:
            page = (await server.client.get(
                f"/views?view=items&queue=jobs&limit=2&after={after}"
            )).json()  # fmt: skip
            seen += page["rows"]["order"]
            after = page.get("next")
        assert seen == ["1", "2", "3", "4", "5"]


async def test_the_overview_has_the_past_in_each_range(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        for span, step_ms in (("5m", 1000), ("1h", 10_000), ("24h", 60_000)):
            shown = (await server.client.get(f"/views?view=overview&range={span}")).json()
            assert shown["history"]["step_ms"] == step_ms
            assert shown["append"]["at_ms"] >= shown["history"]["since_ms"]
