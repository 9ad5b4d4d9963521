"""The world changes while a job of the page runs, at each of its waits: the server becomes
read-only, the queue is deleted and made anew, or the job is stopped. It then changes nothing more
but what it has begun."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import pytest

from kestrelpy.http.admin import moving
from kestrelpy.http.admin.jobs import Job
from tests.support.at_a_wait import AtAWait
from tests.support.http_client import Web, web

ROUNDS_MAX: Final = 100
ITEMS: Final = 4
# Each job, with its route and its body.
JOBS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "redrive": ("redrive", {"all": True}),
    "redrive to another queue": ("redrive", {"all": True, "target": "other"}),
    "purge": ("purge", {"all": True}),
    "move": ("move", {"count": ITEMS, "target": "other"}),
}
Figures = tuple[int, int]  # of a queue: ready items and dead letters


async def fill(server: Web) -> None:
    """Make as many dead letters as ready items."""
    for _ in range(ITEMS):
        await server.client.post("/queues/jobs/items", content=b"x")
        (lease,) = (await server.client.post("/queues/jobs/leases")).json()["leases"]
        await server.client.delete(f"/queues/jobs/leases/{lease['token']}?bury=why")
    for _ in range(ITEMS):
        await server.client.post("/queues/jobs/items", content=b"x")


def figures(server: Web, name: bytes) -> Figures:
    queue = server.daemon.broker.queues.get(name)
    if queue is None:
        return 0, 0
    return queue.reader.ready.count, len(queue.reader.dead)


class Rounds:
    """Runs the same job again and again, one item in each batch; each time the change comes at the
    next wait."""

    def __init__(self, server: Web, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(moving, "BATCH", 1)
        self._server = server
        self._patch = monkeypatch
        self.is_over = False  # True if the last job had no such wait
        self.job: Job | None = None

    async def run(self, name: str, nth: int, change: Callable[[Job], Awaitable[None]]) -> Job:
        """Run the job to its end, the change at its nth wait; return it."""
        jobs, runs, real = list[Job](), list[AtAWait](), Job.run

        async def run(job: Job, steps: Any) -> None:
            jobs.append(job)
            runs.append(AtAWait(real(job, steps), nth, lambda: change(job)))
            await runs[0]

        self._patch.setattr(Job, "run", run)
        action, body = JOBS[name]
        await self._server.client.post(f"/admin/queues/jobs/{action}", json=body)
        self._patch.setattr(Job, "run", real)
        job = jobs[0]
        while job.ended_ms is None:
            await asyncio.sleep(0.001)
        self.is_over = runs[0].count < nth
        return job


def moved(server: Web, name: str) -> int:
    """Return how many items the job has taken away so far."""
    ready, dead = figures(server, b"jobs")
    return ITEMS - (ready if name == "move" else dead)


@pytest.mark.parametrize("change", ["readonly", "stopped"])
@pytest.mark.parametrize("name", JOBS)
async def test_a_job_ends_with_the_batch_it_has_begun(
    name: str, change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with web(tmp_path) as server:
        rounds = Rounds(server, monkeypatch)
        seen = list[int]()

        async def end(job: Job) -> None:
            seen.append(moved(server, name))
            if change == "readonly":
                server.daemon.set_mode("readonly")
            else:
                job.stop()

        for nth in range(1, ROUNDS_MAX):
            seen.clear()
            server.daemon.set_mode("up")
            await server.client.delete("/admin/queues/jobs")
            await fill(server)
            job = await rounds.run(name, nth, end)
            if rounds.is_over:
                assert (job.state, job.done, moved(server, name)) == ("done", ITEMS, ITEMS)
                break
            assert job.done == moved(server, name), nth
            assert job.done <= seen[0] + 1, nth
            if job.done < ITEMS:
                assert job.state == ("failed" if change == "readonly" else "stopped"), nth
                assert change != "readonly" or "readonly: this server" in (job.error or "")
        assert nth > ITEMS


@pytest.mark.parametrize(("name", "has_child"), [*((name, True) for name in JOBS), ("move", False)])
async def test_a_job_leaves_a_queue_alone_that_is_made_anew(
    name: str, has_child: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with web(tmp_path) as server:
        if has_child:  # then the queue made anew has the log of the one before
            await server.client.post("/queues/jobs/leases")
            await server.client.post("/queues/jobs%2Bkid/leases")
        rounds = Rounds(server, monkeypatch)

        async def make_anew(job: Job) -> None:
            await server.client.delete("/admin/queues/jobs")
            await fill(server)

        for nth in range(1, ROUNDS_MAX):
            await server.client.delete("/admin/queues/jobs")
            await fill(server)
            job = await rounds.run(name, nth, make_anew)
            if rounds.is_over:
                break
            assert figures(server, b"jobs") == (ITEMS, ITEMS), (nth, job.state, job.error)
            assert job.state in ("failed", "done"), (nth, job.state)
        assert nth > ITEMS
