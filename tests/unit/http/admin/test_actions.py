"""Actions on queues: done on disk, each with its line in the log."""

from __future__ import annotations

import ast
import asyncio
import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from journal.sets import IdSet
from tests.support.disks import HeldDisk
from tests.support.guarded import PASSWORD, user
from tests.support.http_client import Web, web
from tests.support.zaqar import CLIENT

ROOT = Path(__file__).parents[4]


async def test_each_action_leaves_one_line_with_peer_action_and_count(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "kestrelpy.admin")
    async with web(tmp_path) as server:
        for _ in range(3):
            await server.client.post("/queues/jobs/items", content=b"x")
        queue = "/admin/queues/jobs"
        assert (await server.client.post(f"{queue}/pause")).json() == {"count": 1}
        assert (await server.client.post("/queues/jobs/leases")).json() == {"leases": []}
        assert (await server.client.post(f"{queue}/resume")).json() == {"count": 1}
        assert (await server.client.post(f"{queue}/flush")).json() == {"count": 3}
        assert (await server.client.delete(queue)).json() == {"count": 0}
        assert (await server.client.delete(queue)).status_code == 404
    lines = [each.getMessage() for each in caplog.records if each.name == "kestrelpy.admin"]
    assert [line.split(": ", 1)[1] for line in lines] == [
        "pause jobs: 1", "resume jobs: 1", "flush jobs: 3", "delete jobs: 0",
    ]  # fmt: skip
    assert all(line.startswith("http 127.0.0.1:") for line in lines)


async def test_an_action_names_the_user_and_its_line_the_address_as_well(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "kestrelpy.admin")
    async with web(tmp_path, user("anna")) as server:
        server.client.auth = ("anna", PASSWORD)
        await server.client.post("/queues/jobs/items", content=b"x")
        assert (await server.client.post("/admin/queues/jobs/pause")).status_code == 200
        purge = {"all": True, "rate": 1}  # a job goes on when its request is answered
        assert (await server.client.post("/admin/queues/jobs/purge", json=purge)).is_success
        wire = await server.memcache()
        login = f"anna {PASSWORD}"
        said = await wire.ask(f"set any 0 0 {len(login)}\r\n{login}\r\n".encode())
        assert said == b"STORED\r\n"
        assert await wire.ask(b"resume jobs\r\n") == b"OK\r\n"
        view = (await server.client.get("/views?view=queue&queue=jobs")).json()
        connections = (await server.client.get("/admin/connections")).json()["connections"]
    done = {each["what"]: each["who"] for each in view["actions"]}
    assert done == {"start": "the operator", "pause": "anna", "purge": "anna", "resume": "anna"}
    assert {each["user"] for each in connections} == {"anna"}
    lines = [each.getMessage() for each in caplog.records if each.name == "kestrelpy.admin"]
    assert lines
    assert all(re.match(r"http 127\.0\.0\.1:\d+ \(anna\): ", line) for line in lines), lines


async def test_no_action_is_done_by_a_get(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        await server.client.post("/queues/jobs/items", content=b"x")
        for action in ("pause", "flush", "redrive", "purge", "move"):
            assert (await server.client.get(f"/admin/queues/jobs/{action}")).status_code == 405
        for action in ("reload", "drain"):
            assert (await server.client.get(f"/admin/{action}")).status_code == 405
        assert (await server.client.get("/admin/queues/jobs")).json()["facts"]["items"] == 1


# Item 1 is dead, 2 is leased, 3 is ready, 4 is delayed.
ACTIONS: dict[str, tuple[str, str, Any]] = {
    "pause": ("POST", "/admin/queues/jobs/pause", None),
    "resume": ("POST", "/admin/queues/jobs/resume", None),
    "flush": ("POST", "/admin/queues/jobs/flush", None),
    "purge": ("POST", "/admin/queues/jobs/purge", {"ids": [1]}),
    "redrive": ("POST", "/admin/queues/jobs/redrive", {"ids": [1]}),
    "move": ("POST", "/admin/queues/jobs/move", {"count": 1, "target": "other"}),
    "move dead": (
        "POST", "/admin/queues/jobs/move", {"state": "dead", "ids": [1], "target": "other"}
    ),
    "remove": ("DELETE", "/admin/queues/jobs/items/3", None),
    "retry": ("POST", "/admin/queues/jobs/items/4/retry", None),
    "renew lease": ("PATCH", "/admin/queues/jobs/leases/2?lease=1h", None),
    "end lease": ("DELETE", "/admin/queues/jobs/leases/2", None),
    "bury leased": ("DELETE", "/admin/queues/jobs/leases/2?bury=why", None),
    "run schedule": ("POST", "/admin/schedules/yearly/run", None),
    "declare": ("PUT", "/v2/queues/more", {"_max_claim_count": 5}),
    "flush by the messaging API": ("POST", "/v2/queues/jobs/purge", None),
    "acknowledge": ("POST", "/admin/queues/jobs/acknowledge", {}),
}  # fmt: skip
YEARLY = '[schedules.yearly]\ncron = "0 0 1 1 *"\nqueue = "yearly"\nbody = "x"\n'
SYNCED = f'[queues.jobs]\nconfirms = "synced"\n{YEARLY}'  # so are the ends of leases
ELSEWHERE = {
    "delete": "it removes a folder",
    "mode": "not on disk", "drain": "not on disk", "close connection": "not on disk",
    "stop job": "not on disk",
}  # fmt: skip
API = {"Client-ID": CLIENT, "X-Project-ID": "acme"}


async def fill(server: Web) -> None:
    """Make a dead letter, a leased, a ready and a delayed item, here and in the messaging API."""
    for queue in ("jobs", "acme:jobs"):
        await server.client.post(f"/queues/{queue}/items", content=b"1")
        (lease,) = (await server.client.post(f"/queues/{queue}/leases")).json()["leases"]
        await server.client.delete(f"/queues/{queue}/leases/{lease['token']}?bury=why")
        await server.client.post(f"/queues/{queue}/items", content=b"2")
        await server.client.post(f"/queues/{queue}/leases")
        await server.client.post(f"/queues/{queue}/items", content=b"3")
        await server.client.post(f"/queues/{queue}/items?delay=1h", content=b"4")


async def prepare(server: Web, action: str) -> None:
    """`fill`, and have the queue in the state that this action changes."""
    await fill(server)
    if action == "resume":
        await ask(server, "pause")
    elif action == "acknowledge":
        server.daemon.broker.queues[b"jobs"].reader.name_unreadable(IdSet.of([4]))


async def ask(server: Web, action: str) -> httpx.Response:
    method, path, body = ACTIONS[action]
    return await server.client.request(method, path, json=body, headers=API)


def noted(server: Web) -> list[str]:
    return [each.what for each in server.daemon.actions.newest(50) if each.what != "start"]


@pytest.mark.parametrize("action", ACTIONS)
async def test_an_action_is_answered_and_noted_after_its_sync_and_not_before(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, action: str
) -> None:
    caplog.set_level("INFO", "kestrelpy.admin")
    disk = HeldDisk()
    async with web(tmp_path, SYNCED, disk) as server:
        await prepare(server, action)
        caplog.clear()
        before = noted(server)
        disk.go.clear()
        try:
            asked = asyncio.ensure_future(ask(server, action))
            for _ in range(50):
                assert (await server.client.get("/admin/mode")).status_code == 200
            assert not asked.done()
            assert noted(server) == before
            assert not [each for each in caplog.records if each.name == "kestrelpy.admin"]
        finally:
            disk.go.set()
        said = await asyncio.wait_for(asked, 20)
        assert said.is_success, said.text
        assert noted(server) == [action.partition(" by ")[0], *before]
        lines = [each for each in caplog.records if each.name == "kestrelpy.admin"]
        assert lines or ACTIONS[action][1].startswith("/v2")


def test_every_action_that_is_noted_is_one_of_these() -> None:
    """The source names each action that it notes as a literal."""
    found = set[str]()
    for path in (ROOT / "kestrelpy/http").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "note":
                words = ast.walk(node.args[1])
                found |= {each.value for each in words if isinstance(each, ast.Constant)} - {None}
    assert found - set(ACTIONS) - set(ELSEWHERE) == set()


@pytest.mark.parametrize("action", ACTIONS)
async def test_an_action_that_never_came_to_the_disk_is_an_error(
    tmp_path: Path, action: str
) -> None:
    disk = HeldDisk()
    async with web(tmp_path, SYNCED, disk) as server:
        await prepare(server, action)
        disk.fails = True
        said = await ask(server, action)
        assert said.status_code == 503, said.text
        assert str(tmp_path) not in said.text
