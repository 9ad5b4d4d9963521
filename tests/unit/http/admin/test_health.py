"""Health, readiness and figures: what a load balancer and a person ask first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from journal.errors import JournalFailed
from kestrelpy.http.admin import health
from tests.support.http_client import web


async def test_a_failed_journal_turns_health_red_and_shows_no_folder(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        await server.client.post("/queues/jobs/items", content=b"x")
        assert (await server.client.get("/health")).json()["status"] == "ok"
        assert server.server.daemon is not None
        log: Any = server.server.daemon.broker.queues[b"jobs"].log
        log.failure = JournalFailed("/srv/data/jobs: no space")
        said = await server.client.get("/health")
        assert (said.status_code, said.json()["status"]) == (503, "failed")
        assert said.json()["unwell"] == ["jobs"]
        row = (await server.client.get("/stats.json")).json()["queues"]["jobs"]
        assert row["reason"] == ".../jobs: no space"
        assert (await server.client.get("/ready")).json()["why"] == "failed"


async def test_a_server_that_stores_nothing_is_not_ready(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        assert (await server.client.get("/ready")).json() == {"ready": True, "why": None}
        await server.client.patch("/admin/mode", json={"mode": "readonly"})
        said = await server.client.get("/ready")
        assert (said.status_code, said.json()["why"]) == (503, "readonly")


async def test_ready_walks_over_the_queues_once_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    walks, walk = list[int](), health.totals_of
    monkeypatch.setattr(health, "totals_of", lambda call: walks.append(1) or walk(call))
    monkeypatch.setattr(health, "_SEEN_MS", 3_600_000)
    async with web(tmp_path) as server:
        await server.client.post("/queues/jobs/items", content=b"x")
        for _ in range(5):
            assert (await server.client.get("/ready")).json()["ready"]
        assert len(walks) == 1
        monkeypatch.setattr(health, "_SEEN_MS", 0)
        assert server.server.daemon is not None
        log: Any = server.server.daemon.broker.queues[b"jobs"].log
        log.failure = JournalFailed("/srv/data/jobs: no space")
        said = await server.client.get("/ready")
        assert (said.status_code, said.json()) == (503, {"ready": False, "why": "failed"})


async def test_the_figures_of_many_queues_come_in_parts_and_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "_PER_PART", 2)
    async with web(tmp_path) as server:
        for number in range(5):
            await server.client.post(f"/queues/q{number}/items", content=b"x")
        first = (await server.client.get("/stats.json?limit=3")).json()
        second = (await server.client.get(first["next"])).json()
        assert list(first["queues"]) == ["q0", "q1", "q2"]
        assert (list(second["queues"]), second["next"]) == (["q3", "q4"], None)
        assert first["server"]["curr_items"] == 5
