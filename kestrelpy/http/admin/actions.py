"""Actions on whole queues: pause, resume, flush, acknowledge a loss, delete.

One rule: an action answers when it is on disk, and leaves one line in the log.
"""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from kestrelpy.http.admin import models
from kestrelpy.http.admin.common import ERRORS, counted, find_queue, is_dry_run, note
from kestrelpy.http.answers import HttpError, answer
from kestrelpy.http.call import Call
from kestrelpy.http.models import DryRun
from kestrelpy.http.routing import Router
from kestrelpy.operations import QueueAdmin, Removal

router: Final = Router("admin: actions", prefix="/admin", responses=ERRORS)


@router.post("/queues/{queue}/pause", summary="Lease nothing", model=models.Count)
async def pause_queue(call: Call, queue: str) -> Response:
    """Lease no items of the queue from now on; it stores, confirms and shows items as before."""
    return await _pause(call, queue, paused=True)


@router.post("/queues/{queue}/resume", summary="Lease again", model=models.Count)
async def resume_queue(call: Call, queue: str) -> Response:
    """Lease items again."""
    return await _pause(call, queue, paused=False)


async def _pause(call: Call, queue: str, *, paused: bool) -> Response:
    name = find_queue(call, queue).name
    rests = QueueAdmin(call.broker, call.host).pause(name, paused, call.now_ms())
    assert rests is not None, "it was found in this turn"
    await call.until(rests)
    note(call, "pause" if paused else "resume", name)
    return answer({"count": 1})


@router.post("/queues/{queue}/flush", summary="Remove what waits", model=models.Count)
async def flush_queue(
    request: Request, call: Call, queue: str, dry_run: DryRun = "false",
    said: models.DryRunBody | None = None,
) -> Response:  # fmt: skip
    """Remove everything ready and delayed; leased items and dead letters stay."""
    found = find_queue(call, queue)
    count = found.reader.ready.count + found.reader.delays.count
    if is_dry_run(request, dry_run, said):
        Removal.check(call.broker, call.host, found.name)
        return counted(count, True)
    rests = QueueAdmin(call.broker, call.host).flush(found.name, call.now_ms())
    assert rests is not None, "it was found in this turn"
    await call.until(rests)
    note(call, "flush", found.name, count)
    return counted(count, False)


@router.post("/queues/{queue}/acknowledge", summary="Give up what cannot be read",
             model=models.Count)  # fmt: skip
async def acknowledge_loss(
    request: Request, call: Call, queue: str, dry_run: DryRun = "false",
    said: models.DryRunBody | None = None,
) -> Response:  # fmt: skip
    """End the items whose bodies the disk does not give any more; health is ok again then."""
    found, admin = find_queue(call, queue), QueueAdmin(call.broker, call.host)
    admin.to_acknowledge(found.name)
    if is_dry_run(request, dry_run, said):
        return counted(await call.run(admin.would_acknowledge(found)), True)
    count, rests = await call.run(admin.acknowledge(found, call.now_ms()))
    await call.until(rests)
    note(call, "acknowledge", found.name, count)
    return counted(count, False)


@router.delete("/queues/{queue}", summary="Delete a queue", model=models.Count)
async def delete_queue(
    request: Request, call: Call, queue: str, dry_run: DryRun = "false"
) -> Response:
    """Delete the queue and its items; its children keep theirs."""
    found = find_queue(call, queue)
    count, admin = len(found.reader.live), QueueAdmin(call.broker, call.host)
    if is_dry_run(request, dry_run):
        admin.to_delete(found.name)
        return counted(count, True)
    rests = admin.delete(found.name, call.now_ms())
    if rests is None:
        raise HttpError(404, f"there is no queue {queue}")
    await call.until(*rests)
    note(call, "delete", found.name, count)
    return counted(count, False)
