"""More of one item over HTTP: its body."""

from __future__ import annotations

from pathlib import Path

import pytest

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
