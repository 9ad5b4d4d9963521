"""Health, readiness and figures: what a load balancer and a person ask first.

Promise no-new-queue: a full disk, a directory that may not be written to, a file system without
    inodes.
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from journal.errors import JournalFailed
from kestrelpy.http.admin import health
from kestrelpy.http.live import watching
from kestrelpy.http.metrics import scrapes
from kestrelpy.server.directory import watch
from tests.support.http_client import web
from tests.support.running import ANSWER_SECONDS


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
        body = {"ready": True, "why": None, "warning": None}
        assert (await server.client.get("/ready")).json() == body
        await server.client.patch("/admin/mode", json={"mode": "readonly"})
        said = await server.client.get("/ready")
        assert (said.status_code, said.json()["why"]) == (503, "readonly")


async def test_a_member_that_does_not_serve_says_why_in_a_sentence(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        assert server.server.daemon is not None
        server.server.daemon._note_closed("standby of host-a since 2026-11-27T15:45:00Z")
        said = await server.client.get("/ready")
        assert (said.status_code, said.json()["ready"]) == (503, False)
        assert said.json()["why"] == "standby of host-a since 2026-11-27T15:45:00Z"


_WHY = "no new queue is made: this process may make no file in .../data"
_WELL = [
    (200, True, None, None), ("ok", None, []), ("ok", None), ("ok", None), None, [],
    '{reason=""} 1.0',
]  # fmt: skip
_UNWELL = [
    (200, True, None, _WHY), ("no_new_queue", _WHY, []), ("no_new_queue", _WHY),
    ("no_new_queue", _WHY), _WHY, [_WHY],
    f'{{reason="{_WHY}"}} 0.0',
]  # fmt: skip


async def said_of_new_queues(client: httpx.AsyncClient) -> list[Any]:
    """Return the answer of each route about new queues, and about the server as a whole."""
    ready, now = await client.get("/ready"), (await client.get("/health")).json()
    of_all = (await client.get("/stats.json")).json()["server"]
    journal = (await client.get("/admin/journal")).json()
    lines = (await client.get("/views?view=overview")).json()["verdict"]["lines"]
    metrics = (await client.get("/metrics")).text
    [gauge] = re.findall(r"^kestrelpy_new_queues_possible(.*)", metrics, re.MULTILINE)
    return [
        (ready.status_code, *ready.json().values()),
        (now["status"], now["reason"], now["unwell"]),
        (of_all["health"], of_all["health_reason"]),
        (journal["health"], journal["reason"]),
        (await client.get("/v2/health")).json()["warning"],
        [line["text"] for line in lines],
        gauge,
    ]


async def test_each_port_says_why_no_new_queue_is_made_as_long_as_that_lasts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, name in (
        (watch, "LOOK_SECONDS"), (watching, "TICK_SECONDS"), (scrapes, "SHARED_MS"),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, 0)
    async with web(tmp_path) as server, asyncio.timeout(ANSWER_SECONDS):
        client, files = server.client, server.daemon.directory.files

        async def until(wanted: list[Any]) -> None:
            while await said_of_new_queues(client) != wanted:
                await asyncio.sleep(0)

        async def status(queue: str) -> int:
            return (await client.post(f"/queues/{queue}/items", content=b"x")).status_code

        await until(_WELL)
        for queues, ready in ((0, (503, False, "no_new_queue", _WHY)), (1, _UNWELL[0])):
            with monkeypatch.context() as patch:
                why = "this process may make no file in /srv/data"
                patch.setattr(files, "why_no_file", lambda path, why=why: why)
                await until([ready, *_UNWELL[1:]])
                assert await status("new") == 503
                assert await status("jobs") == (201 if queues else 503)
            await until(_WELL)
            assert await status("jobs") == 201


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
        body = {"ready": False, "why": "failed", "warning": None}
        assert (said.status_code, said.json()) == (503, body)


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


@pytest.mark.parametrize(
    ("part", "name", "value", "why"),
    [
        ("daemon", "is_leaving", True, "stopping"),
        ("daemon", "closed", "standby of host-a", "standby of host-a"),
        ("daemon", "mode", "readonly", "readonly"),
        ("broker", "no_new_queue", "no new queue is made", "no_new_queue"),
    ],
)
async def test_ready_says_what_became_true_while_it_looked_at_the_queues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str, name: str, value: Any, why: str
) -> None:
    async with web(tmp_path) as server:
        changed = server.daemon if part == "daemon" else server.daemon.broker
        before = getattr(changed, name)

        async def look(self: health.Readiness, call: Any) -> str:
            setattr(changed, name, value)
            return "ok"

        monkeypatch.setattr(health.Readiness, "health", look)
        said = await server.client.get("/ready")
        setattr(changed, name, before)
        assert (said.status_code, said.json()["why"]) == (503, why)
