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
            assert shown["rates"].keys() == {
                "stored", "delivered", "confirmed", "expired", "dead_total", "duplicates"
            }  # fmt: skip


async def test_what_people_did_is_shown_by_either_wire_and_a_restart_and_a_reload(
    tmp_path: Path,
) -> None:
    async with web(tmp_path) as server:
        client = await server.memcache()
        await client.ask(b"set jobs 0 0 1\r\nx\r\n")
        await client.ask(b"set mail 0 0 1\r\nx\r\n")
        await server.client.post("/admin/queues/jobs/pause")
        await client.ask(b"flush jobs\r\n")
        await client.ask(b"delete mail\r\n")
        server.server.config_file.write_text('[queues.jobs]\nlease = "1h"\n')
        await server.client.post("/admin/reload")
        body = {"count": 1, "target": "later"}
        await client.ask(b"set jobs 0 0 1\r\nx\r\n")
        await server.client.post("/admin/queues/jobs/move", json=body)
        peer = client.writer.get_extra_info("sockname")

        actions = (await server.client.get("/views?view=overview")).json()["actions"]
        assert [(each["what"], each["queue"], each["count"], each["note"]) for each in actions] == [
            ("move", "jobs", 1, "to later"), ("reload", None, None, "[queues.jobs]"),
            ("delete", "mail", 1, None), ("flush", "jobs", 1, None), ("pause", "jobs", None, None),
            ("start", None, None, f"version {server.daemon.version}"),
        ]  # fmt: skip
        who = [each["who"] for each in actions]
        assert who[0].startswith("http 127.0.0.1:")
        assert who[3] == f"{peer[0]}:{peer[1]}"
        assert who[5] == "the operator"
        times = [each["at_ms"] for each in actions]
        assert times == sorted(times, reverse=True)
        of_jobs = (await server.client.get("/views?view=queue&queue=jobs")).json()["actions"]
        assert [each["what"] for each in of_jobs] == ["move", "reload", "flush", "pause", "start"]


async def test_a_connection_shows_its_rate_and_what_it_holds(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        client = await server.memcache()
        await client.ask(b"set jobs 0 0 1\r\nx\r\n")
        await client.ask(b"get jobs/open\r\n")
        path = "/views?view=connections"
        rows = (await server.client.get(path)).json()["rows"]["rows"].values()
        (row,) = (each for each in rows if each["wire"] == "memcache")
        assert (row["rate"], row["holds"][0]["item"]) == (None, 1)
        assert "commands" not in row
        while row["rate"] is None:
            await client.ask(b"version\r\n")
            rows = (await server.client.get(path)).json()["rows"]["rows"].values()
            (row,) = (each for each in rows if each["wire"] == "memcache")
        assert row["rate"] > 0


async def test_dead_letters_are_shown_by_reason_time_and_attempts(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        wire = await server.memcache()
        for ends in ((b"abort/dead=a",), (b"abort/dead=b",), (b"abort", b"abort/dead=a")):
            assert await wire.ask(b"set jobs 0 0 1\r\nx\r\n") == b"STORED\r\n"
            for end in ends:
                assert (await wire.ask(b"get jobs/open\r\n")).startswith(b"VALUE")
                assert [await wire.line(), await wire.line()] == [b"x\r\n", b"END\r\n"]
                assert await wire.ask(b"get jobs/%b\r\n" % end) == b"END\r\n"

        async def shown(query: str) -> list[str]:
            answer = await server.client.get(f"/views?view=dead&queue=jobs&{query}")
            order: list[str] = answer.json()["rows"]["order"]
            return order

        assert await shown("") == ["1", "2", "3"]
        assert await shown("key=a") == ["1", "3"]
        assert await shown("key=") == [], "none is without a reason"
        assert await shown("attempts_least=2") == ["3"]
        assert await shown("key=b&attempts_least=2") == []
        now_ms = (await server.client.get("/views?view=overview")).json()["now_ms"]
        assert await shown(f"died_from_ms={now_ms + 60_000}") == []
        assert await shown(f"died_before_ms={now_ms + 60_000}&limit=2") == ["1", "2"]
