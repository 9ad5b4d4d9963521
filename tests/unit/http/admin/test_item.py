"""More of one item over HTTP: its body."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kestrelpy.http.memory import Share
from kestrelpy.operations import PAGE_BYTES_MAX
from tests.support.http_client import Web, web

EVERY_BYTE = bytes(range(256)) * 8


async def in_every_state(server: Web) -> None:
    """Items 1 to 5 are in these states, in this order: leased, dead, done, delayed, ready."""
    client = await server.memcache()
    head = f"{len(EVERY_BYTE)}\r\n".encode() + EVERY_BYTE + b"\r\n"
    for _ in range(3):
        await client.ask(b"set jobs 0 0 " + head)
    await client.ask(b"set jobs/delay=1h 0 0 " + head)
    await client.ask(b"set jobs 0 0 " + head)
    answer = await server.client.post("/queues/jobs/leases?count=3&lease=1h")
    first, second, third = (each["token"] for each in answer.json()["leases"])
    assert first < second < third
    await server.client.delete(f"/queues/jobs/leases/{second}?bury=bad")
    await server.client.delete(f"/queues/jobs/leases/{third}")


@pytest.mark.parametrize("memory", ["1MiB", "1KiB"])
async def test_the_body_of_an_item_in_any_state_is_a_file_to_save(
    tmp_path: Path, memory: str
) -> None:
    config = f'[queues.jobs]\nretain = "forever"\nmax_memory = "{memory}"\n'
    async with web(tmp_path, config) as server:
        await in_every_state(server)
        for number, state in enumerate(("leased", "dead", "done", "delayed", "ready"), 1):
            path = f"/admin/queues/jobs/items/{number}"
            shown = (await server.client.get(f"{path}?body=65536")).json()
            assert (shown["state"], shown["body_bytes"]) == (state, len(EVERY_BYTE))
            assert not shown["is_cut"]
            said = await server.client.get(f"{path}/body")
            assert (said.status_code, said.content) == (200, EVERY_BYTE), (state, said.text[:100])
            assert said.headers["content-type"] == "application/octet-stream"
            assert said.headers["content-disposition"] == f'attachment; filename="item-{number}"'
            assert said.headers["x-content-type-options"] == "nosniff"
            assert said.headers["content-security-policy"].startswith("default-src 'none'")


async def test_a_body_that_is_not_there_is_404(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        await in_every_state(server)
        for path in ("jobs/items/3", "jobs/items/6", "no/items/1"):
            said = await server.client.get(f"/admin/queues/{path}/body")
            assert said.status_code == 404, path
        assert (await server.client.get("/admin/queues/jobs/items/0/body")).status_code == 400


async def test_a_body_that_has_no_room_or_is_unreadable_is_a_refusal_for_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with web(tmp_path) as server:
        for size in (PAGE_BYTES_MAX, PAGE_BYTES_MAX + 1):
            await server.client.post("/queues/jobs/items", content=b"x" * size)
        body = "/admin/queues/jobs/items/%d/body"
        monkeypatch.setattr(Share, "hold", lambda *_: False)
        assert (await server.client.get(body % 1)).status_code == 200, "it is a page"
        assert (await server.client.get(body % 2)).status_code == 503
        monkeypatch.undo()
        assert (await server.client.get(body % 2)).status_code == 200

        async def unread(*_: Any) -> tuple[None, None]:
            return None, None

        monkeypatch.setattr("kestrelpy.http.admin.items.inspect", unread)
        said = await server.client.get(body % 1)
        assert (said.status_code, "cannot be read" in said.text) == (503, True)


async def life(server: Web, path: str) -> tuple[list[dict[str, Any]], bool]:
    """Return all events of an item in its journal, and whether they are complete."""
    url, events, is_whole = f"/admin/queues/{path}/life?journal=1", list[dict[str, Any]](), True
    while url:
        said = await server.client.get(url)
        assert said.status_code == 200, said.text
        part = said.json()
        events += part["events"]
        is_whole = is_whole and part["is_whole"]
        url = part["next"]
    return events, is_whole


def words(events: list[dict[str, Any]]) -> list[str]:
    return [each["what"] for each in events]


async def test_the_life_of_an_item_is_shown_from_memory_and_from_the_journal(
    tmp_path: Path,
) -> None:
    config = "[queues.jobs]\nmax_attempts = 2\n"
    async with web(tmp_path, config) as server:
        client = await server.memcache()
        await client.ask(b"set jobs/id=a/delay=1ms 0 0 1\r\nx\r\n")
        path = "/admin/queues/jobs/items/1/life"
        answer = await server.client.post("/queues/jobs/leases?lease=1h&wait=5")
        (lease,) = answer.json()["leases"]
        known = (await server.client.get(path)).json()
        assert (known["state"], known["is_whole"], known["next"]) == ("leased", False, None)
        assert words(known["events"]) == ["stored", "leased"]
        stored, leased = known["events"]
        assert stored["note"] == "id a"
        assert leased["who"] == "token"
        assert leased["began_ms"] == leased["at_ms"] >= stored["at_ms"]

        await server.client.delete(f"/queues/jobs/leases/{lease['token']}?bury=bad")
        await server.client.post("/admin/queues/jobs/redrive", json={"all": True})
        await client.ask(b"get jobs/open\r\n")
        for _ in range(2):
            await client.line()
        await client.ask(b"get jobs/close\r\n")
        events, is_whole = await life(server, "jobs/items/1")
        assert is_whole
        assert words(events) == [
            "stored", "available", "leased", "dead", "redriven", "confirmed"
        ]  # fmt: skip
        assert events[2]["note"].startswith(f"delivery 1, token {lease['token']}, until ")
        assert events[3]["note"] == "attempts: 1, bad"
        assert events[3]["began_ms"] == leased["at_ms"]
        assert events[5]["began_ms"] is not None
        gone = (await server.client.get(path)).json()
        assert (gone["state"], gone["events"]) == ("gone", [])


async def test_a_moved_item_names_where_it_went_and_came_from_over_a_restart(
    tmp_path: Path,
) -> None:
    async with web(tmp_path) as server:
        await server.client.post("/queues/jobs/items", content=b"x")
        await server.client.post("/admin/queues/jobs/move", json={"count": 1, "target": "later"})
        name = server.daemon.server_id
    async with web(tmp_path) as server:
        events, _ = await life(server, "jobs/items/1")
        assert words(events) == ["stored", "moved"]
        assert events[1]["note"] == f"to {name}:later:1"
        events, _ = await life(server, "later/items/1")
        assert words(events) == ["stored", "came from"]
        assert events[1]["note"] == f"{name}:jobs:1"
        known = (await server.client.get("/admin/queues/later/items/1/life")).json()
        assert sorted(words(known["events"])) == ["came from", "stored"]


async def test_a_life_in_parts_goes_on_where_it_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("journal.read.history.STRETCH_BYTES", 200)
    monkeypatch.setattr("journal.read.history.PIECE_BYTES", 200)
    async with web(tmp_path) as server:
        client = await server.memcache()
        for _ in range(20):
            await client.ask(b"set jobs 0 0 1\r\nx\r\n")
        await server.client.delete("/admin/queues/jobs/items/1")
        first = (await server.client.get("/admin/queues/jobs/items/1/life?journal=1")).json()
        assert "removed" not in words(first["events"])
        assert first["is_whole"]
        assert 0 < first["looked_bytes"] <= 300
        assert first["left_bytes"] > 1000
        events, is_whole = await life(server, "jobs/items/1")
        assert (words(events), is_whole) == (["stored", "removed"], True)


async def test_a_child_has_the_life_of_its_own_deliveries(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        client = await server.memcache()
        await client.ask(b"get jobs+audit\r\n")
        await client.ask(b"set jobs 0 0 1\r\nx\r\n")
        await client.ask(b"get jobs+audit\r\n")
        assert words((await life(server, "jobs+audit/items/1"))[0]) == ["stored", "confirmed"]
        assert words((await life(server, "jobs/items/1"))[0]) == ["stored"]


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("after=x", 400), ("after=1:", 400), ("after=0:64", 400), ("after=1:63", 400),
        ("after=99:64", 404), ("after=1:4294967288", 200),
    ],
)  # fmt: skip
async def test_a_bad_place_is_refused(tmp_path: Path, query: str, status: int) -> None:
    async with web(tmp_path) as server:
        await server.client.post("/queues/jobs/items", content=b"x")
        said = await server.client.get(f"/admin/queues/jobs/items/1/life?journal=1&{query}")
        assert said.status_code == status, said.text
        missing = await server.client.get("/admin/queues/jobs/items/2/life")
        assert missing.status_code == 404


async def test_a_queue_in_memory_has_no_journal_to_tell_of(tmp_path: Path) -> None:
    async with web(tmp_path, "[queues.jobs]\ndurable = false\n") as server:
        await server.client.post("/queues/jobs/items", content=b"x")
        assert await life(server, "jobs/items/1") == ([], False)
        known = (await server.client.get("/admin/queues/jobs/items/1/life")).json()
        assert words(known["events"]) == ["stored"]
