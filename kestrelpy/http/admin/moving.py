"""Redrive, purge and move: some items, those that match a filter, or all.

    selection ──▶ batches of ids ──▶ act ──▶ on disk ──▶ rest (rate) ──▶ the next batch
                      └── dry_run: counted only

Few items without a rate are done when the answer comes (200); else the answer is a job (202).

One rule: a batch is on disk before the next one begins, and is small enough to stop after it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from kestrelpy.core import AnyQueue, QueueLife, TransferRequest
from kestrelpy.http.admin import models
from kestrelpy.http.admin.common import ERRORS, find_queue, is_dry_run
from kestrelpy.http.admin.health import pause
from kestrelpy.http.admin.jobs import Job, Steps, jobs_of
from kestrelpy.http.answers import HttpError, answer
from kestrelpy.http.call import Call
from kestrelpy.http.models import DryRun
from kestrelpy.http.routing import Router
from kestrelpy.http.values import queue_name
from kestrelpy.operations import (
    DeathFilter,
    Deaths,
    LogReader,
    Moving,
    Preview,
    QueueAdmin,
    Removal,
    Rests,
    parent_of,
)

router: Final = Router(
    "admin: actions", prefix="/admin",
    responses={**ERRORS, 202: {"model": models.Job, "description": "It goes on as a job."}},
)  # fmt: skip
BATCH: Final = 500
# Up to this many items are done within the request.
AT_ONCE_MAX: Final = 1000
# Of redriven items, here and in another queue.
_AGELESS: Final = (
    "redriven items have no expiry",
    "redriven items arrive without an expiry, unless max_age of their new queue sets one",
)


@router.post("/queues/{queue}/redrive", summary="Redrive dead letters", model=models.Job)
async def redrive(
    request: Request, call: Call, queue: str, selection: models.Redrive, dry_run: DryRun = "false"
) -> Response:
    """Put dead letters back to the end of their queue, or move them to `target`."""
    found = find_queue(call, queue)
    selection.dry_run = is_dry_run(request, dry_run, selection)
    chosen, target = Chosen(found, selection), found.name
    if selection.target is not None:
        target = queue_name(selection.target)
    _check_target(call, found, target)
    steps = _redrive(chosen) if target == found.name else _move_dead(chosen, target)
    other = target if target != found.name else None
    return await _begin(request, call, "redrive", chosen, steps, other)


@router.post("/queues/{queue}/purge", summary="Purge dead letters", model=models.Job)
async def purge(
    request: Request, call: Call, queue: str, selection: models.Selection, dry_run: DryRun = "false"
) -> Response:
    """Remove dead letters for good."""
    found = find_queue(call, queue)
    Removal.check(call.broker, call.host, found.name)
    selection.dry_run = is_dry_run(request, dry_run, selection)
    chosen = Chosen(found, selection)
    return await _begin(request, call, "purge", chosen, _purge(chosen))


@router.post("/queues/{queue}/move", summary="Move items to a queue", model=models.Job)
async def move(
    request: Request, call: Call, queue: str, selection: models.Move, dry_run: DryRun = "false"
) -> Response:
    """Move ready items (`count` or `all`), or dead letters, to `target`."""
    found, target = find_queue(call, queue), queue_name(selection.target)
    if target == found.name:
        raise HttpError(400, "target: items move to another queue")
    _check_target(call, found, target)
    selection.dry_run = is_dry_run(request, dry_run, selection)
    if selection.state == "dead":
        if selection.count is not None:
            raise HttpError(400, "count is for ready items: say ids, filter or all")
        chosen = Chosen(found, selection)
        return await _begin(request, call, "move dead", chosen, _move_dead(chosen, target), target)
    if selection.ids is not None or selection.filter is not None:
        raise HttpError(400, "ids and filter choose dead letters: say count or all")
    if (selection.count is None) != selection.all:
        raise HttpError(400, "say one of count and all")
    ready = found.reader.ready.count
    total = ready if selection.count is None else min(selection.count, ready)
    chosen = Chosen(found, selection, total)
    return await _begin(request, call, "move", chosen, _move_ready(chosen, target), target)


class Chosen:
    """The items that a request names, in batches; `total` is how many there are at most."""

    def __init__(
        self, queue: AnyQueue, selection: models.Selection, ready: int | None = None
    ) -> None:
        """`ready`: it is for this number of ready items. Raise HttpError for a bad selection."""
        self.queue = queue
        self.life = QueueLife.of(queue)
        self.rate = selection.rate
        self.is_dry_run = selection.dry_run is True
        self.batch = min(BATCH, self.rate or BATCH)
        self.ids = selection.ids
        self._deaths = Deaths(queue)
        self._filter = DeathFilter()
        if ready is not None:
            self.total = ready
            return
        if sum((self.ids is not None, selection.filter is not None, selection.all)) != 1:
            raise HttpError(400, "say one of ids, filter and all")
        if (which := selection.filter) is not None:
            reason = which.reason.encode() if which.reason is not None else None
            self._filter = DeathFilter(
                reason, which.died_from_ms, which.died_before_ms, which.attempts_least
            )
        self.total = len(queue.reader.dead) if self.ids is None else len(self.ids)

    def batches(self, *, only_dead: bool = True) -> Iterator[list[int]]:
        """Yield the ids of the dead letters; a batch may be empty: the search goes on.

        Not `only_dead`: ids that the request names are yielded whatever they are.
        """
        if self.ids is not None:
            deaths = self.queue.reader.dead.deaths
            ids = list(dict.fromkeys(self.ids))
            for start in range(0, len(ids), self.batch):
                some = ids[start : start + self.batch]
                yield [id_ for id_ in some if not only_dead or id_ in deaths]
            return
        after, last = 0, self.queue.last_number
        while True:
            some, after = self._deaths.some(self._filter, after, self.batch)
            yield [id_ for id_ in some if id_ <= last]
            if not after or after >= last:
                return


async def _begin(
    request: Request, call: Call, action: str, chosen: Chosen, steps: Steps,
    target: bytes | None = None,
) -> Response:  # fmt: skip
    """Start the job; answer when it is over if it is short. `target`: another queue."""
    to = f"to {target.decode('ascii')}" if target is not None else ""
    name = chosen.queue.name.decode("ascii")
    steps = _preview(chosen, target) if chosen.is_dry_run else steps
    total, is_dry_run = chosen.total, chosen.is_dry_run
    job = jobs_of(request).start(call, action, name, total, is_dry_run, steps, to)
    job.note = _AGELESS[target is not None] if action == "redrive" else None
    if chosen.total > AT_ONCE_MAX or (chosen.rate is not None and not is_dry_run):
        return answer(job.facts(), 202, {"Location": f"/admin/jobs/{job.number}"})
    assert job.task is not None
    await asyncio.shield(job.task)
    if job.error is not None:
        raise HttpError(job.status, job.error)
    return answer(job.facts())


def _check_target(call: Call, queue: AnyQueue, target: bytes) -> None:
    moving = Moving(call.broker, call.host)
    moving.source(queue.name, target, is_child=bool(parent_of(target)))


async def _next(job: Job, chosen: Chosen, count: int) -> None:
    """Leave time to others after a batch of this many items, and look whether to go on."""
    job.done += count
    if chosen.rate is not None and count:
        await job.rest(count / chosen.rate)
    else:
        await job.call.run(pause())
    if chosen.life.is_over:
        raise HttpError(404, "the queue was deleted meanwhile")
    job.check()


def _preview(chosen: Chosen, target: bytes | None) -> Steps:
    """Return the steps of a dry run."""

    async def steps(job: Job) -> None:
        preview = Preview(chosen.queue, job.call.broker, target)
        job.refused = preview.refused
        if chosen.ids is None and job.action == "move":
            preview.look_at_ready(chosen.total)
            job.done = preview.go
            return
        for ids in chosen.batches(only_dead=False):
            preview.look(ids)
            job.done = preview.go
            await _next(job, chosen, 0)

    return steps


def _redrive(chosen: Chosen) -> Steps:
    """Return the steps that put dead letters back to their own queue."""

    async def steps(job: Job) -> None:
        call, queue = job.call, chosen.queue
        admin = QueueAdmin(call.broker, call.host)
        for ids in chosen.batches():
            admin.check_mode("moves")
            count = 0
            if ids:
                count, rests = await call.run(admin.redrive(queue, deque(ids), call.now_ms()))
                await call.until(rests)
            await _next(job, chosen, count)

    return steps


def _purge(chosen: Chosen) -> Steps:
    """Return the steps that remove dead letters."""

    async def steps(job: Job) -> None:
        call, queue = job.call, chosen.queue
        for ids in chosen.batches():
            Removal.check(call.broker, call.host, queue.name)
            removal, gone = Removal(queue, LogReader(call), call.now_ms, call.host), list[Rests]()
            for id_ in ids:
                if (rests := removal.purge(id_)) is not None:
                    gone.append(rests)
            if gone:
                await call.until(gone[-1])
            await _next(job, chosen, len(gone))

    return steps


def _move_dead(chosen: Chosen, target: bytes) -> Steps:
    """Return the steps that move dead letters to another queue."""

    async def steps(job: Job) -> None:
        moving = Moving(job.call.broker, job.call.host)
        for ids in chosen.batches():
            count = 0
            if ids:
                moving.source(chosen.queue.name, target, is_child=False)
                count = await _moved(job, moving.redrive(chosen.queue, target, ids, job.call))
            await _next(job, chosen, count)

    return steps


def _move_ready(chosen: Chosen, target: bytes) -> Steps:
    """Return the steps that move the next ready items to another queue."""

    async def steps(job: Job) -> None:
        moving, left = Moving(job.call.broker, job.call.host), chosen.total
        while left > 0:
            moving.source(chosen.queue.name, target, is_child=False)
            most = min(left, chosen.batch)
            count = await _moved(job, moving.move(chosen.queue, target, most, job.call))
            await _next(job, chosen, count)
            if count < most:
                return
            left -= count

    return steps


async def _moved(job: Job, request: TransferRequest) -> int:
    """Wait for a transfer; return how many items it moved. It ends early if the job is to end."""
    job.transfer = request
    try:
        await job.call.until_over(request)
    except BaseException:
        request.give_up("the job was stopped")
        raise
    finally:
        job.transfer = None
    return request.moved if job.is_stopping else Moving.outcome(request)
