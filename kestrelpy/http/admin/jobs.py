"""Long work that goes on when its request is answered: it can be watched and stopped.

    POST .../redrive ──▶ 202, /admin/jobs/7 ──▶ running ──▶ done │ stopped │ failed ──▶ forgotten
                                                   ▲ DELETE ──────────┘

A job is a caller of its own (`Call`), so it waits as a request does, and ends when the server
stops.

One rule: jobs are few, their steps are short, and a job that is over is forgotten some time later.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Final, cast

from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from kestrelpy.core import TransferRequest
from kestrelpy.errors import Refused
from kestrelpy.http.admin import models
from kestrelpy.http.admin.common import ERRORS, NUMBER_MAX, is_dry_run, note
from kestrelpy.http.answers import MISTAKE, HttpError, answer, status_of, without_paths
from kestrelpy.http.call import Call, Gone
from kestrelpy.http.models import DryRun
from kestrelpy.http.ports import HttpHost
from kestrelpy.http.routing import Router

log = logging.getLogger("kestrelpy.admin")
router: Final = Router("admin: jobs", prefix="/admin", responses=ERRORS)

RUNNING_MAX: Final = 16
KNOWN_MAX: Final = 100
FORGOTTEN_MS: Final = 600_000

Steps = Callable[["Job"], Awaitable[None]]


class Stopped(Exception):
    """The job was asked to stop."""


class Job:
    """One job. `done` counts items, `total` is how many there may be at most."""

    def __init__(
        self, number: int, action: str, queue: str, total: int, is_dry_run: bool, by: Call,
        more: str = "",
    ) -> None:  # fmt: skip
        """`more` is what its line says besides: where its items go."""
        self.number = number
        self.more = more
        self.action = action
        self.queue = queue
        self.total = total
        self.is_dry_run = is_dry_run
        self.by = by.who
        self.call = Call(by.host, by.holder.name)
        self.call.user = by.user
        self.state = "running"
        self.done = 0
        self.refused: Counter[str] = Counter()  # of a dry run: by the sentence
        self.note: str | None = None  # what else the answer says
        self.error: str | None = None
        self.status = 503  # of the error
        self.began_ms = by.now_ms()
        self.ended_ms: int | None = None
        self.task: asyncio.Task[None] | None = None
        self.transfer: TransferRequest | None = None  # that it waits for
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """End the job after its present step; a transfer begins no more items."""
        self._stopping.set()
        if self.transfer is not None:
            self.transfer.give_up("the job was stopped")

    @property
    def is_stopping(self) -> bool:
        """True if the job is to end."""
        return self._stopping.is_set()

    def check(self) -> None:
        """Raise Stopped if the job is to end, Gone if the server stops."""
        if self.call.is_gone or self.call.host.is_leaving:
            raise Gone
        if self._stopping.is_set():
            raise Stopped

    async def rest(self, seconds: float) -> None:
        """Wait; raise Stopped at once if the job is to end."""
        if seconds > 0:
            try:
                async with asyncio.timeout(seconds):
                    await self._stopping.wait()
            except TimeoutError:
                pass
        self.check()

    def facts(self) -> dict[str, Any]:
        """Return the members of an answer; times are on the wall clock."""
        offset_ms = self.call.broker.clock.offset_ms
        ended_ms = self.ended_ms + offset_ms if self.ended_ms is not None else None
        return {
            "id": self.number, "action": self.action, "queue": self.queue, "by": self.by,
            "state": self.state, "done": self.done, "total": self.total, "error": self.error,
            "began_ms": self.began_ms + offset_ms, "ended_ms": ended_ms,
            "is_dry_run": self.is_dry_run,
            "refused": [
                {"why": why, "count": count} for why, count in self.refused.most_common()
            ],
            "note": self.note,
        }  # fmt: skip

    async def run(self, steps: Steps) -> None:
        """Take the steps; never raise."""
        try:
            self.check()
            await steps(self)
            self.state = "done"
        except Stopped:
            self.state = "stopped"
        except (Gone, asyncio.CancelledError):
            self.state, self.error = "stopped", "the server stops"
        except (Refused, HttpError) as error:
            self.state, self.error = "failed", without_paths(str(error))
            self.status = error.status if isinstance(error, HttpError) else status_of(error)
        except Exception:  # a bug: this job ends, the server goes on
            log.exception("%s of %s", self.action, self.queue)
            self.state, self.error = "failed", MISTAKE
        self.ended_ms = self.call.now_ms()
        if not self.is_dry_run:
            more = self.more if self.state == "done" else f"{self.more} ({self.state})".strip()
            note(self.call, self.action, self.queue.encode(), self.done, more)


class Jobs:
    """The jobs of one server."""

    def __init__(self) -> None:
        self._jobs: dict[int, Job] = {}
        self._latest = 0

    def start(
        self, by: Call, action: str, queue: str, total: int, is_dry_run: bool, steps: Steps,
        more: str = "",
    ) -> Job:  # fmt: skip
        """Begin a job; raise HttpError if too many are running."""
        self._forget(by.host)
        running = [job for job in self._jobs.values() if job.state == "running"]
        if len(running) >= RUNNING_MAX:
            raise HttpError(503, f"{RUNNING_MAX} jobs are running: wait for one, or stop one")
        self._latest += 1
        job = self._jobs[self._latest] = Job(
            self._latest, action, queue, total, is_dry_run, by, more
        )
        job.task = asyncio.get_running_loop().create_task(job.run(steps))
        return job

    def all(self, host: HttpHost) -> list[Job]:
        """Return the jobs that are known, the newest first."""
        self._forget(host)
        return list(reversed(self._jobs.values()))

    def of(self, host: HttpHost, number: int) -> Job:
        """Return this job; raise HttpError."""
        self._forget(host)
        job = self._jobs.get(number)
        if job is None:
            raise HttpError(404, f"there is no job {number}: it never was, or is forgotten")
        return job

    def close(self) -> None:
        """The server stops: end all jobs."""
        for job in self._jobs.values():
            if job.state == "running":
                job.stop()
                job.call.hang_up()

    def _forget(self, host: HttpHost) -> None:
        """Forget jobs that ended long ago, and the first ones that ended if there are many."""
        now_ms = host.now_ms()
        over = [job for job in self._jobs.values() if job.ended_ms is not None]
        surplus = len(self._jobs) - KNOWN_MAX + 1
        for rank, job in enumerate(over):
            if rank < surplus or now_ms - (job.ended_ms or 0) >= FORGOTTEN_MS:
                del self._jobs[job.number]


def jobs_of(request: Request) -> Jobs:
    """Return the jobs of this server."""
    return cast(Jobs, request.scope["shared"].jobs)


_Number = Annotated[int, Meta(ge=1, le=NUMBER_MAX)]


@router.get("/jobs", summary="Jobs", model=models.JobList)
async def get_jobs(request: Request, call: Call) -> Response:
    """Answer with the jobs that are known, the newest first; 100 at most."""
    found = jobs_of(request).all(call.host)
    return answer({"jobs": [job.facts() for job in found]})


@router.get("/jobs/{job}", summary="One job", model=models.Job)
async def get_job(request: Request, call: Call, job: _Number) -> Response:
    """Answer with its progress."""
    return answer(jobs_of(request).of(call.host, job).facts())


@router.delete("/jobs/{job}", summary="Stop a job", model=models.Job)
async def stop_job(
    request: Request, call: Call, job: _Number, dry_run: DryRun = "false"
) -> Response:
    """Stop it after its present step; items that it has handled stay so. A dry run answers with
    its progress."""
    found = jobs_of(request).of(call.host, job)
    if is_dry_run(request, dry_run):
        return answer(found.facts())
    was_running = found.state == "running"
    found.stop()
    if found.task is not None:
        await asyncio.shield(found.task)
    if was_running:
        note(call, "stop job", found.queue.encode(), None, f"{job} {found.action}")
    return answer(found.facts())
