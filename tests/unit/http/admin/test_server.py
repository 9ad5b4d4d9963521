"""The server as a whole: connections, schedules, mode, reload, drain."""

from __future__ import annotations

from pathlib import Path

from tests.support.http_client import web


async def test_connections_of_all_wires_are_listed_and_closed(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        peer = await server.memcache()
        assert await peer.ask(b"set jobs 0 0 1\r\nx\r\n") == b"STORED\r\n"
        assert (await peer.ask(b"get jobs/open\r\n")).startswith(b"VALUE")
        found = (await server.client.get("/admin/connections")).json()["connections"]
        (held,) = (each for each in found if each["wire"] == "memcache")
        assert (held["leases"], {each["wire"] for each in found}) == (1, {"memcache", "http"})
        (lease,) = held["holds"]
        assert (lease["queue"], lease["item"], lease["began_ms"] > 0) == ("jobs", 1, True)
        assert (held["commands"], held["waits_for"]) == (2, None)
        page = (await server.client.get("/admin/connections?limit=1")).json()
        rest = (await server.client.get(page["next"])).json()["connections"]
        assert [each["id"] for each in page["connections"] + rest] == [e["id"] for e in found]

        where = f"/admin/connections/{held['id']}"
        assert (await server.client.delete(where)).json() == {"count": 1}
        await peer.reader.read()
        assert (await server.client.delete(where)).status_code == 404
        facts = (await server.client.get("/admin/queues/jobs")).json()["facts"]
        assert (facts["leased"], facts["items"]) == (0, 1)


async def test_a_bad_configuration_is_not_taken_and_the_answer_says_so(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        assert (await server.client.post("/admin/reload")).json() == {"count": 1}
        server.server.config_file.write_text("[server]\nmood = 1\n")
        said = await server.client.post("/admin/reload")
        assert said.status_code == 503
        assert "mood" in said.json()["description"]


async def test_a_server_without_slices_has_no_fleet(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        said = await server.client.get("/admin/fleet")
        assert (said.status_code, said.json()["slices"], said.json()["members"]) == (200, [], [])
        assert (await server.client.get("/health")).json()["unserved"] == []


async def test_the_mode_is_read_and_changed(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        assert (await server.client.get("/admin/mode")).json() == {"mode": "up"}
        said = await server.client.patch("/admin/mode", json={"mode": "quiescent"})
        assert said.json() == {"mode": "quiescent"}
        assert (await server.client.patch("/admin/mode", json={"mode": "x"})).status_code == 400
        assert (await server.client.get("/admin/journal")).json()["health"] == "ok"


async def test_drain_needs_a_setting(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        said = await server.client.post("/admin/drain")
        assert said.status_code == 403
        assert "allow_shutdown" in said.json()["description"]


async def test_a_connection_names_the_queue_that_it_waits_for(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        peers = [await server.memcache(), await server.memcache()]
        for peer, verb in zip(peers, (b"open", b"peek/after=0"), strict=True):
            peer.writer.write(b"get jobs/%b/t=20s\r\n" % verb)
        waits = set[str | None]()
        while waits != {"jobs"}:
            found = (await server.client.get("/admin/connections")).json()["connections"]
            waits = {each["waits_for"] for each in found if each["wire"] == "memcache"}
        (http,) = (each for each in found if each["wire"] == "http")
        assert http["commands"] > 0


async def test_the_journal_tells_its_segments_and_the_damage_that_a_start_found(
    tmp_path: Path,
) -> None:
    async with web(tmp_path) as server:
        for number in range(20):
            await server.client.post("/queues/jobs/items", content=b"body %d" % number)
        found = (await server.client.get("/admin/journal")).json()
        assert (found["damages"], found["damage"]) == (0, [])
        assert found["segments"]["segments"] == 1
        assert found["segments"]["bytes"] == found["segments"]["active_bytes"] > 0
    (file,) = (tmp_path / "data").rglob("*.seg*")
    data = bytearray(file.read_bytes())
    data[data.index(b"body 7")] ^= 1
    file.write_bytes(data)
    async with web(tmp_path) as server:
        found = (await server.client.get("/admin/journal")).json()
        (damage,) = found["damage"]
        assert (found["damages"], damage["kind"]) == (1, "corrupt")
        assert str(tmp_path) not in damage["what"]
        view = (await server.client.get("/views?view=journal")).json()
        assert (view["damages"], view["segments"]["segments"]) == (1, found["segments"]["segments"])
