"""`dry_run` works wherever something is destroyed: it says what would be done, and does nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kestrelpy.http.app import ROUTES
from tests.support.http_client import Web, web
from tests.support.running import Peer

CONFIG = "[server]\nallow_shutdown = true\n"
ALL: dict[str, Any] = {"all": True}
# The request, its body, the answer to a dry run, and the status of the real one.
ACTIONS: dict[str, tuple[str, str, Any, dict[str, Any], int]] = {
    "flush": ("POST", "/admin/queues/jobs/flush", {}, {"count": 2}, 200),
    "delete a queue": ("DELETE", "/admin/queues/jobs", None, {"count": 4}, 200),
    "cancel an item": ("DELETE", "/admin/queues/jobs/items/3", None, {"count": 1}, 200),
    "cancel a delayed item": ("DELETE", "/admin/queues/jobs/items/4", None, {"count": 1}, 200),
    "purge a dead letter": ("DELETE", "/admin/queues/jobs/items/1", None, {"count": 1}, 200),
    "purge": ("POST", "/admin/queues/jobs/purge", ALL, {"done": 1}, 200),
    "redrive": ("POST", "/admin/queues/jobs/redrive", ALL, {"done": 1}, 200),
    "move": ("POST", "/admin/queues/jobs/move", {"count": 1, "target": "later"}, {"done": 1}, 200),
    "move dead letters": (
        "POST", "/admin/queues/jobs/move", {**ALL, "state": "dead", "target": "later"},
        {"done": 1}, 200),
    "end a lease": ("DELETE", "/admin/queues/jobs/leases/2", None, {"count": 1, "item": 2}, 200),
    "bury": ("DELETE", "/admin/queues/jobs/leases/2?bury=why", None, {"count": 1, "item": 2}, 200),
    "confirm": (
        "DELETE", "/queues/jobs/leases/{token}", None, {"item": 2, "would_be": "confirmed"}, 204),
    "abort": (
        "DELETE", "/queues/jobs/leases/{token}?abort", None,
        {"item": 2, "would_be": "given back"}, 204),
    "bury it oneself": (
        "DELETE", "/queues/jobs/leases/{token}?bury=why", None, {"item": 2, "would_be": "dead"},
        204),
    "close a connection": (
        "DELETE", "/admin/connections/{connection}", None, {"count": 1}, 200),
    "acknowledge": ("POST", "/admin/queues/jobs/acknowledge", {}, {"count": 0}, 200),
    "drain": ("POST", "/admin/drain", {}, {"count": 1}, 202),
}  # fmt: skip


async def prepared(server: Web) -> tuple[dict[str, str], Peer]:
    """A dead letter 1, a leased item 2, a ready one 3, a delayed one 4, and another connection."""
    for more in ("", "", "", "?delay=1h"):
        await server.client.post(f"/queues/jobs/items{more}", content=b"x")
    got = (await server.client.post("/queues/jobs/leases?count=2&lease=1h")).json()["leases"]
    await server.client.delete(f"/queues/jobs/leases/{got[0]['token']}?bury=why")
    peer = await server.memcache()
    assert (await peer.ask(b"version\r\n")).startswith(b"VERSION")
    listed = (await server.client.get("/admin/connections")).json()["connections"]
    other = next(each["id"] for each in listed if each["wire"] != "http")
    return {"{token}": str(got[1]["token"]), "{connection}": str(other)}, peer


def state(server: Web) -> Any:
    daemon = server.daemon
    return (
        {name: queue.log.lsn_appended for name, queue in daemon.broker.queues.items()},
        len(daemon.actions.newest(100)), daemon.is_leaving,
        len(daemon.connection_facts(0, 100, daemon.now_ms())),
    )  # fmt: skip


@pytest.mark.parametrize("name", ACTIONS)
async def test_a_dry_run_answers_what_would_be_done_and_changes_nothing(
    tmp_path: Path, name: str
) -> None:
    method, url, body, wanted, status = ACTIONS[name]
    async with web(tmp_path, CONFIG) as server:
        words, peer = await prepared(server)
        for word, value in words.items():
            url = url.replace(word, value)
        before = state(server)
        sign = "&" if "?" in url else "?"
        asked: list[tuple[str, Any]] = [
            (f"{url}{sign}{query}", body or None)
            for query in ("dry_run=true", "dry_run=1", "dry_run")
        ]
        if body is not None:
            asked.append((url, {**body, "dry_run": True}))
        for each, said in asked:
            done = await server.client.request(method, each, json=said)
            assert done.status_code == 200, done.text
            assert done.json() | wanted == done.json()
            assert done.json()["is_dry_run"] is True
            assert state(server) == before
        contradiction = await server.client.request(
            method, f"{url}{sign}dry_run=true",
            json={**(body or {}), "dry_run": False} if body is not None else {"dry_run": True},
        )  # fmt: skip
        assert contradiction.status_code == 400
        assert state(server) == before
        if name in ("drain", "acknowledge"):  # the second has nothing to end here
            return
        assert not peer.writer.is_closing()
        done = await server.client.request(method, f"{url}{sign}dry_run=false", json=body or None)
        assert done.status_code == status, done.text
        assert state(server) != before
        if status == 200:
            assert "is_dry_run" not in done.json() or done.json()["is_dry_run"] is False


@pytest.mark.parametrize(
    ("config", "method", "url", "status"),
    [
        ("", "DELETE", "/admin/queues/none", 404),
        ("", "POST", "/admin/queues/none/flush", 404),
        ("", "DELETE", "/admin/queues/jobs/items/2", 404),  # it is leased
        ("", "DELETE", "/admin/queues/jobs/items/99", 404),
        ("", "DELETE", "/admin/queues/jobs/leases/3", 404),
        ("", "DELETE", "/queues/jobs/leases/7", 404),
        ("", "DELETE", "/admin/connections/999999", 404),
        ("", "DELETE", "/admin/jobs/7", 404),
        ("", "POST", "/admin/drain", 403),
        ("[server]\nallow_delete = false\n", "DELETE", "/admin/queues/jobs", 400),
    ],
)
async def test_a_dry_run_is_refused_like_the_action(
    tmp_path: Path, config: str, method: str, url: str, status: int
) -> None:
    async with web(tmp_path, config) as server:
        await prepared(server)
        said = [
            await server.client.request(method, url + more) for more in ("?dry_run=true", "")
        ]
        assert [each.status_code for each in said] == [status, status]
        assert said[0].json() == said[1].json()


async def test_a_job_is_not_stopped_by_a_dry_run(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        await prepared(server)
        slow = {"all": True, "rate": 1, "target": "later"}
        for _ in range(3):
            await server.client.post("/queues/jobs/items", content=b"x")
        job = (await server.client.post("/admin/queues/jobs/move", json=slow)).json()["id"]
        for more, wanted in (("?dry_run", "running"), ("", "stopped")):
            said = await server.client.delete(f"/admin/jobs/{job}{more}")
            assert said.json()["state"] == wanted


def test_each_route_that_destroys_or_may_be_refused_later_declares_it() -> None:
    destroys = ("/flush", "/purge", "/move", "/redrive", "/drain", "/acknowledge", "/reload")
    for declared in (each for each in ROUTES if each.is_checked):
        method, path = declared.method, declared.path
        is_destroying = method == "DELETE" or path.endswith(destroys)
        if not path.startswith("/v2"):  # Zaqar has none, and it is refused there
            assert ("dry_run" in declared.query) == is_destroying, (method, path)
            if is_destroying and method == "POST":
                assert declared.body is not None and declared.body[1] is not None
                assert "dry_run" in declared.body[1].__struct_fields__
