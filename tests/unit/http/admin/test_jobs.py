"""Jobs are few, are watched and stopped, and are forgotten."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from kestrelpy.errors import ServerError
from kestrelpy.http.admin import jobs
from kestrelpy.http.admin.jobs import Job, Jobs
from kestrelpy.http.answers import HttpError
from kestrelpy.http.call import Call
from kestrelpy.operations import Actions


class Server:
    def __init__(self) -> None:
        self.time_ms, self.is_leaving = 1000, False
        self.broker: Any = SimpleNamespace(clock=SimpleNamespace(offset_ms=0))
        self.turn: Any = SimpleNamespace(schedule=lambda: None)
        self.actions = Actions(self.broker.clock)

    def now_ms(self) -> int:
        return self.time_ms


@pytest.fixture
def by() -> Call:
    server: Any = Server()
    return Call(server, "http test")


async def forever(job: Job) -> None:
    for _ in range(1000):
        await job.rest(30)
        job.done += 1


async def at_once(job: Job) -> None:
    job.done = 3


async def failing(job: Job) -> None:
    raise ServerError("disk full in /srv/data/q")


async def over(job: Job) -> Job:
    assert job.task is not None
    await asyncio.wait_for(job.task, 10)
    return job


async def test_a_job_is_done_or_failed_with_a_sentence(by: Call) -> None:
    some = Jobs()
    job = await over(some.start(by, "purge", "jobs", 3, False, at_once))
    assert (job.state, job.done, job.error) == ("done", 3, None)
    job = await over(some.start(by, "purge", "jobs", 3, False, failing))
    assert (job.state, job.error) == ("failed", "disk full in .../q")


async def test_a_job_that_rests_stops_at_once(by: Call) -> None:
    job = Jobs().start(by, "move", "jobs", 9, False, forever)
    await asyncio.sleep(0)
    job.stop()
    assert ((await over(job)).state, job.error) == ("stopped", None)  # not by a lack of patience


async def test_the_end_of_the_server_ends_every_job(by: Call) -> None:
    some = Jobs()
    job = some.start(by, "move", "jobs", 9, False, forever)
    await asyncio.sleep(0)
    some.close()
    assert ((await over(job)).state, job.error) == ("stopped", "the server stops")


async def test_no_more_jobs_run_than_the_bound(by: Call) -> None:
    some = Jobs()
    running = [
        some.start(by, "move", "q", 9, False, forever) for _ in range(jobs.RUNNING_MAX)
    ]
    with pytest.raises(HttpError, match="16 jobs are running"):
        some.start(by, "move", "q", 9, False, forever)
    some.close()
    for job in running:
        await over(job)


async def test_jobs_that_ended_are_forgotten_by_time_and_by_number(by: Call) -> None:
    some, server = Jobs(), by.host
    assert isinstance(server, Server)
    for _ in range(jobs.KNOWN_MAX + 5):
        await over(some.start(by, "purge", "q", 0, True, at_once))
    assert len(some.all(server)) < jobs.KNOWN_MAX
    with pytest.raises(HttpError, match="forgotten"):
        some.of(server, 1)
    server.time_ms += jobs.FORGOTTEN_MS
    assert some.all(server) == []


async def test_a_stop_ends_the_transfer_that_the_job_waits_for(by: Call) -> None:
    given_up = list[str]()
    job = Jobs().start(by, "move", "jobs", 9, False, forever)
    transfer: Any = SimpleNamespace(give_up=given_up.append)
    job.transfer = transfer
    await asyncio.sleep(0)
    job.stop()
    assert ((await over(job)).state, given_up) == ("stopped", ["the job was stopped"])


async def test_the_facts_of_a_job_are_all_there_and_its_times_are_dates(by: Call) -> None:
    by.broker.clock.offset_ms = 50_000
    job = Jobs().start(by, "redrive", "jobs", 3, True, at_once)
    job.refused["it is leased"] += 2
    job.note = "their age counts from now"
    facts: dict[str, Any] = {
        "id": job.number, "action": "redrive", "queue": "jobs", "by": by.who,
        "state": "running", "done": 0, "total": 3, "error": None,
        "began_ms": 51_000, "ended_ms": None, "is_dry_run": True,
        "refused": [{"why": "it is leased", "count": 2}], "note": "their age counts from now",
    }  # fmt: skip
    assert job.facts() == facts

    server: Any = by.host
    server.time_ms += 100
    await over(job)

    assert job.facts() == facts | {"state": "done", "done": 3, "ended_ms": 51_100}
