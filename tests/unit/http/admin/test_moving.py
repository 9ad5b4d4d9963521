"""Redrive, purge and move: ids, a filter or all, counted first, watched and stopped."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kestrelpy.http.admin import models, moving
from kestrelpy.http.answers import HttpError
from tests.support.http_client import Web, web
from tests.support.server_harness import ServerHarness

JOBS = "/admin/queues/jobs"


async def make_dead_letters(server: Web, *reasons: str) -> None:
    """Make a dead letter for each reason."""
    for reason in reasons:
        await server.client.post("/queues/jobs/items", content=b"x")
        (lease,) = (await server.client.post("/queues/jobs/leases")).json()["leases"]
        await server.client.delete(f"/queues/jobs/leases/{lease['token']}?bury={reason}")


async def figures(server: Web, name: str = "jobs") -> tuple[int, int]:
    """Return how many items are ready, and how many are dead."""
    facts = (await server.client.get(f"/admin/queues/{name}")).json()["facts"]
    return facts["items"], facts["dead"]


async def test_a_dry_run_counts_and_changes_nothing(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        await make_dead_letters(server, "a", "b", "a")
        for body, count in (
            ({"all": True}, 3), ({"filter": {"reason": "a"}}, 2), ({"ids": [1, 2, 99]}, 2),
        ):  # fmt: skip
            said = await server.client.post(f"{JOBS}/purge", json={**body, "dry_run": True})
            assert (said.status_code, said.json()["done"]) == (200, count)
        assert await figures(server) == (0, 3)


async def test_ids_and_filters_choose_what_goes_where(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        await make_dead_letters(server, "a", "b", "a", "c")
        said = await server.client.post(f"{JOBS}/redrive", json={"filter": {"reason": "a"}})
        assert (said.json()["state"], said.json()["done"]) == ("done", 2)
        assert await figures(server) == (2, 2)
        said = await server.client.post(f"{JOBS}/redrive", json={"ids": [2], "target": "other"})
        assert said.json()["done"] == 1
        assert await figures(server, "other") == (1, 0)
        said = await server.client.post(f"{JOBS}/purge", json={"all": True})
        assert said.json()["done"] == 1
        assert await figures(server) == (2, 0)
        said = await server.client.post(f"{JOBS}/move", json={"count": 1, "target": "other"})
        assert said.json()["done"] == 1
        assert (await figures(server), await figures(server, "other")) == ((1, 0), (2, 0))


@pytest.mark.parametrize(
    ("action", "body"),
    [
        ("redrive", {}), ("redrive", {"ids": [1], "all": True}), ("purge", {"ids": "all"}),
        ("move", {"all": True}), ("move", {"all": True, "target": "jobs"}),
        ("move", {"target": "x"}), ("move", {"target": "x", "ids": [1]}),
        ("move", {"target": "x", "ids": [1], "all": True}),
        ("move", {"target": "x", "filter": {"reason": "a"}, "all": True}),
        ("move", {"target": "x", "count": 1, "all": True}),
        ("move", {"target": "x", "count": 1, "state": "dead"}),
        ("move", {"target": "x y", "all": True}), ("move", {"target": "x+y", "all": True}),
    ],
)
async def test_an_unclear_request_is_refused(
    tmp_path: Path, action: str, body: dict[str, Any]
) -> None:
    async with web(tmp_path) as server:
        await make_dead_letters(server, "a")
        said = await server.client.post(f"{JOBS}/{action}", json=body)
        assert said.status_code == 400, said.text
        assert await figures(server) == (0, 1)


async def test_a_target_that_refuses_an_item_is_named_as_the_request_s_fault(
    tmp_path: Path,
) -> None:
    config = '[queues.small]\nkey_format = "json"\nkey = ["account"]\n'
    async with web(tmp_path, config) as server:
        await server.client.post("/queues/jobs/items", content=b"no json")
        said = await server.client.post(f"{JOBS}/move", json={"all": True, "target": "small"})
        assert said.status_code == 400, said.text
        assert "key" in said.json()["description"]
        assert await figures(server) == (1, 0)


async def test_a_slow_move_is_a_job_that_is_watched_and_stopped(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        for _ in range(3):
            await server.client.post("/queues/jobs/items", content=b"x")
        body = {"all": True, "target": "other", "rate": 1}
        said = await server.client.post(f"{JOBS}/move", json=body)
        assert (said.status_code, said.json()["state"]) == (202, "running")
        where = said.headers["location"]
        for _ in range(1000):
            if (await server.client.get(where)).json()["done"]:
                break
            await asyncio.sleep(0.005)
        stopped = (await server.client.delete(where)).json()
        assert (stopped["state"], stopped["done"]) == ("stopped", 1)
        assert await figures(server) == (2, 0)
        assert (await server.client.get("/admin/jobs")).json()["jobs"] == [stopped]


async def test_batches_reach_all_dead_letters_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moving, "BATCH", 2)
    async with web(tmp_path) as server:
        await make_dead_letters(server, "a", "b", "a", "b", "a")
        said = await server.client.post(f"{JOBS}/redrive", json={"all": True})
        assert said.json()["done"] == 5
        assert await figures(server) == (5, 0)


async def test_a_stop_of_the_server_ends_a_job(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "kestrelpy.admin")
    async with web(tmp_path) as server:
        for _ in range(3):
            await server.client.post("/queues/jobs/items", content=b"x")
        body = {"all": True, "target": "other", "rate": 1}
        assert (await server.client.post(f"{JOBS}/move", json=body)).status_code == 202
        assert server.server.daemon is not None
        await asyncio.wait_for(server.server.daemon.stop(), 20)
    lines = [each.getMessage() for each in caplog.records if each.name == "kestrelpy.admin"]
    assert ["move jobs to other (stopped): " in line for line in lines] == [True]


async def test_a_queue_that_is_deleted_after_a_batch_ends_the_job() -> None:
    stage = ServerHarness()
    stage.store(b"1")
    chosen = moving.Chosen(stage.queue("jobs"), models.Selection(all=True), 1)
    done = list[int]()

    async def run(steps: object) -> None:
        stage.say("a", b"delete jobs")

    job: Any = SimpleNamespace(
        done=0, call=SimpleNamespace(run=run), check=lambda: done.append(1)
    )
    with pytest.raises(HttpError, match="the queue was deleted meanwhile"):
        await moving._next(job, chosen, 1)
    assert (job.done, done) == (1, [])


def job_of(**parts: Any) -> Any:
    """A job of this test alone."""

    async def run(steps: object) -> None:
        pass

    made: Any = SimpleNamespace(
        done=0, is_stopping=False, transfer=None, check=lambda: None,
        call=SimpleNamespace(run=run, broker=None, host=None, **parts),
    )  # fmt: skip
    return made


async def test_a_move_ends_where_others_took_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = ServerHarness()
    stage.store(b"1")
    chosen = moving.Chosen(stage.queue("jobs"), models.Selection(all=True), 1000)
    asked = list[int]()

    class Moved:
        def __init__(self, *_: object) -> None:
            pass

        def source(self, *_: object, **__: object) -> None:
            pass

        def move(self, queue: object, target: bytes, most: int, call: object) -> int:
            asked.append(most)
            assert len(asked) < 9
            return most if len(asked) == 1 else 1

    async def moved(job: object, count: int) -> int:
        return count

    monkeypatch.setattr(moving, "Moving", Moved)
    monkeypatch.setattr(moving, "_moved", moved)
    job = job_of()
    await moving._move_ready(chosen, b"other")(job)
    assert len(asked) == 2
    assert job.done == asked[0] + 1


async def test_a_job_that_is_told_to_stop_during_a_transfer_counts_what_has_moved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def until_over(request: object) -> None:
        job.is_stopping = True

    job = job_of(until_over=until_over)
    request: Any = SimpleNamespace(moved=3)
    assert await moving._moved(job, request) == 3
    assert job.transfer is None
