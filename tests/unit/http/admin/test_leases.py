"""Leases that an operator ends or renews for their holder; its next close says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.http_client import Web, web
from tests.support.running import Peer

LEASES = "/admin/queues/jobs/leases"


async def by_connection(server: Web) -> Peer:
    """A client that has item 1 open."""
    client = await server.memcache()
    await client.ask(b"set jobs 0 0 1\r\nx\r\n")
    assert (await client.ask(b"get jobs/open\r\n")).startswith(b"VALUE jobs/open")
    for _ in range(2):
        await client.line()
    return client


async def by_token(server: Web) -> int:
    """The token of a lease of item 1."""
    await server.client.post("/queues/jobs/items", content=b"x")
    (lease,) = (await server.client.post("/queues/jobs/leases?lease=1h")).json()["leases"]
    token: int = lease["token"]
    return token


async def item(server: Web) -> dict[str, Any]:
    found: dict[str, Any] = (await server.client.get("/admin/queues/jobs/items/1")).json()
    return found


async def test_a_lease_by_connection_is_ended_and_its_holder_confirms_nothing(
    tmp_path: Path,
) -> None:
    async with web(tmp_path) as server:
        client = await by_connection(server)
        said = (await server.client.delete(f"{LEASES}/1")).json()
        assert (said["count"], said["item"]) == (1, 1)
        host, port = client.writer.get_extra_info("sockname")
        assert said["holder"] == f"{host}:{port}"
        assert "lease expired" in said["told"]
        found = await item(server)
        assert (found["state"], found["attempts"]) == ("ready", 0)
        assert (await client.ask(b"get jobs/close\r\n")).startswith(b"CLIENT_ERROR lease expired")
        assert (await item(server))["state"] == "ready"
        assert (await client.ask(b"get jobs/open\r\n")).startswith(b"VALUE jobs/open")
        assert (await server.client.delete(f"{LEASES}/1?counts=true")).status_code == 200
        assert (await item(server))["attempts"] == 1


async def test_a_lease_by_token_is_ended_and_its_token_is_not_valid(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        token = await by_token(server)
        said = (await server.client.delete(f"{LEASES}/{token}?by=token")).json()
        assert (said["item"], said["holder"]) == (1, "token")
        assert "not valid" in said["told"]
        assert (await server.client.delete(f"/queues/jobs/leases/{token}")).status_code == 404
        assert (await item(server))["state"] == "ready"
        assert (await server.client.delete(f"{LEASES}/{token}?by=token")).status_code == 404


async def test_a_waiting_worker_gets_the_item_that_was_given_back(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        holder = await by_connection(server)
        other = await server.memcache()
        other.writer.write(b"get jobs/open/t=20s\r\n")
        while not (await server.client.get("/admin/queues/jobs")).json()["facts"]["waiters"]:
            pass
        await server.client.delete(f"{LEASES}/1")
        assert (await other.line()).startswith(b"VALUE jobs/open")
        holder.writer.close()


async def test_a_leased_item_is_buried_over_a_restart(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        holder = await by_connection(server)
        assert (await server.client.delete(f"{LEASES}/1?bury=stuck%20worker")).status_code == 200
        holder.writer.close()
    async with web(tmp_path) as server:
        found = await item(server)
        assert (found["state"], found["reason"]) == ("dead", "stuck worker")


async def test_a_lease_is_renewed_for_its_holder(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        client = await by_connection(server)
        said = await server.client.patch(f"{LEASES}/1?lease=3h")
        assert (said.status_code, said.json()["item"]) == (200, 1)
        assert (await item(server))["lease_left_ms"] > 2 * 3_600_000
        assert await client.ask(b"get jobs/close\r\n") == b"END\r\n"
        token = await by_token(server)
        said = await server.client.patch(f"{LEASES}/{token}?by=token&lease=90s")
        assert said.json()["item"] == 2
    async with web(tmp_path) as server:  # a lease by token is on disk
        left = (await server.client.get(LEASES)).json()["leases"][0]["lease_left_ms"]
        assert 0 < left <= 90_000


async def test_only_the_delivery_that_was_seen_is_ended(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        holder = await by_connection(server)
        shown = (await server.client.get("/views?view=leases&queue=jobs")).json()["rows"]
        began_ms = shown["rows"]["1"]["began_ms"]
        other = await server.client.delete(f"{LEASES}/1?began_ms={began_ms + 1}")
        assert other.status_code == 404
        assert (await item(server))["state"] == "leased"
        assert (await server.client.delete(f"{LEASES}/1?began_ms={began_ms}")).status_code == 200
        holder.writer.close()


async def test_what_was_done_to_a_lease_is_shown(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        holder = await by_connection(server)
        await server.client.patch(f"{LEASES}/1?lease=90s")
        await server.client.delete(f"{LEASES}/1")
        actions = (await server.client.get("/views?view=queue&queue=jobs")).json()["actions"]
        assert [each["what"] for each in actions] == ["end lease", "renew lease", "start"]
        assert actions[0]["note"].startswith("item 1 of 127.0.0.1:")
        holder.writer.close()


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("DELETE", "/1", 404), ("PATCH", "/1", 404), ("DELETE", "/0", 400),
        ("DELETE", "/1?by=name", 400), ("PATCH", "/1?lease=0s", 400), ("PATCH", "/1?lease=x", 400),
        ("PATCH", "/1?lease=367d", 400), ("DELETE", "/1?bury=", 400),
        ("DELETE", "/1?bury=" + "x" * 1025, 400), ("DELETE", "/1?bury=a&counts=true", 400),
    ],
)  # fmt: skip
async def test_a_lease_that_is_not_there_or_a_bad_value_is_refused(
    tmp_path: Path, method: str, path: str, status: int
) -> None:
    async with web(tmp_path) as server:
        await server.client.post("/queues/jobs/items", content=b"x")
        said = await server.client.request(method, f"{LEASES}{path}")
        assert said.status_code == status, said.text


async def test_a_lease_without_an_end_is_not_renewed(tmp_path: Path) -> None:
    async with web(tmp_path, '[queues.jobs]\nlease = "none"\n') as server:
        holder = await by_connection(server)
        said = await server.client.patch(f"{LEASES}/1?lease=1h")
        assert said.status_code == 400
        assert "until its holder hangs up" in said.json()["description"]
        holder.writer.close()
