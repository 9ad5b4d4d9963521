"""The server as a whole: connections, journals, its mode; reload and drain.

One rule: a connection is shown by its peer; nothing shows an argument, an environment or a folder.
"""

from __future__ import annotations

from itertools import islice
from typing import Annotated, Any, Final

from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from kestrelpy.access import with_user
from kestrelpy.fleet import NOT_SLICED, FleetFacts
from kestrelpy.http.admin import models
from kestrelpy.http.admin.common import (
    LIMITED,
    NUMBER_MAX,
    After,
    Limit,
    counted,
    is_dry_run,
    line,
    next_page,
    note,
)
from kestrelpy.http.admin.health import totals_of
from kestrelpy.http.admin.models import shown
from kestrelpy.http.answers import HttpError, answer, without_paths
from kestrelpy.http.call import Call
from kestrelpy.http.models import DryRun, errors
from kestrelpy.http.routing import Router
from kestrelpy.operations import ConnectionFacts, Rests, SegmentTotals, survey_segments

router: Final = Router("admin: server", prefix="/admin", responses=LIMITED)


def members_of_connection(facts: ConnectionFacts) -> dict[str, Any]:
    """Return the facts of a connection as members."""
    return {**shown(facts), "holds": [shown(each) for each in facts.holds]}


@router.get("/connections", summary="Connections", model=models.ConnectionPage)
async def get_connections(
    request: Request, call: Call, limit: Limit = 100, after: After = 0
) -> Response:
    """Answer with the connections of all wires, the oldest first."""
    found = call.host.connection_facts(after, limit + 1, call.now_ms())
    rows = [members_of_connection(each) for each in islice(found, limit)]
    cursor = rows[-1]["id"] if len(found) > limit else None
    return answer({"connections": rows, "next": next_page(request, cursor)})


@router.delete("/connections/{connection}", summary="Close a connection",
               model=models.Count, responses=errors(404))  # fmt: skip
async def delete_connection(
    request: Request, call: Call, connection: Annotated[int, Meta(ge=1, le=NUMBER_MAX)],
    dry_run: DryRun = "false",
) -> Response:  # fmt: skip
    """Close it at once: its leases by connection are given back."""
    if is_dry := is_dry_run(request, dry_run):
        some = call.host.connection_facts(connection - 1, 1, call.now_ms())
        is_there = any(each.id == connection for each in some)
    else:
        is_there = call.host.close_connection(connection)
    if not is_there:
        raise HttpError(404, f"there is no connection {connection}")
    if not is_dry:
        note(call, "close connection", more=str(connection))
    return counted(1, is_dry)


def members_of_fleet(facts: FleetFacts) -> dict[str, Any]:
    """Return the facts of a fleet as members."""
    lists = {
        name: [shown(each) for each in getattr(facts, name)]
        for name in ("slices", "members", "takeovers")
    }
    return {**facts._asdict(), **lists}


@router.get("/fleet", summary="Slices, members and takeovers", model=models.Fleet)
async def get_fleet(call: Call) -> Response:
    """Answer with nothing: this server has no slices. A router answers by itself."""
    return answer(members_of_fleet(NOT_SLICED))


@router.get("/journal", summary="Journals", model=models.JournalState)
async def get_journal(call: Call) -> Response:
    """Answer with the state of all journals together; /admin/queues/{queue} has that of one."""
    totals = await totals_of(call)
    counters = call.broker.counters
    return answer({
        "health": totals.health, "reason": totals.reason and without_paths(totals.reason),
        "unwell": totals.unwell,
        "disk_free_bytes": await call.host.disk_free_bytes(),
        "syncs": counters.sync_us.count, "batches": counters.batch_records.count,
        **members_of_journals(call, await call.run(survey_segments(call.broker))),
        "last_backup_ms": await call.host.last_backup_ms(),
    })  # fmt: skip


def members_of_journals(call: Call, totals: SegmentTotals) -> dict[str, Any]:
    """Return the segments of all journals, and the damage that was found."""
    damage = call.host.damage
    return {
        "segments": {**shown(totals), "by_share": [shown(each) for each in totals.by_share]},
        "damages": damage.count,
        "damage": [
            {**shown(each), "what": without_paths(each.what)} for each in reversed(damage.newest)
        ],
    }  # fmt: skip


@router.get("/mode", summary="The mode of the server", model=models.Mode)
async def get_mode(call: Call) -> Response:
    """Answer with the mode: up, readonly or quiescent."""
    return answer({"mode": call.host.mode})


@router.patch("/mode", summary="Change the mode", model=models.Mode)  # fmt: skip
async def patch_mode(call: Call, mode: models.Mode) -> Response:
    """Set the mode; it lasts until the next change or the end of the process."""
    call.host.set_mode(mode.mode)
    note(call, "mode", more=mode.mode)
    return answer({"mode": call.host.mode})


@router.post("/reload", summary="Read the configuration again", model=models.Count)
async def post_reload(
    request: Request, call: Call, dry_run: DryRun = "false", said: models.DryRunBody | None = None
) -> Response:
    """Put the configuration in force, all of it or nothing; 503 says what is wrong with it. A dry
    run only checks it."""
    if is_dry_run(request, dry_run, said):
        await call.until(Rests(call.host.check_reload(), 1))
        return counted(1, True)
    await call.until(Rests(call.host.reload(call.who), 1))
    line(call, "reload configuration", 1)
    return answer({"count": 1})


@router.post("/drain", summary="Drain and end the process", status=202,
             model=models.Count,
             responses={200: {"model": models.Count, "description": "Of a dry run."}})  # fmt: skip
async def post_drain(
    request: Request, call: Call, dry_run: DryRun = "false", said: models.DryRunBody | None = None
) -> Response:
    """Answer what is under way, close the journals, end the process; `allow_shutdown` must be
    true."""
    if not call.host.server_settings.allow_shutdown:
        raise HttpError(403, "drain is not allowed on this server (allow_shutdown)")
    if is_dry_run(request, dry_run, said):
        return counted(1, True)
    note(call, "drain")
    call.host.shutdown(f"drain by {with_user(call.holder.name, call.user)}")
    return answer({"count": 1}, 202)


@router.get("/me", summary="The user of the request", model=models.User)
async def get_me(call: Call) -> Response:
    """Answer with the name and the role of the user in all queues."""
    now_ms = call.now_ms() + call.broker.clock.offset_ms
    grant = call.grant
    if grant is None:
        return answer({"name": None, "role": "admin", "now_ms": now_ms})
    return answer({"name": grant.name, "role": grant.role.name.lower(), "now_ms": now_ms})
