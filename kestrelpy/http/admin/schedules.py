"""Schedules: their next times, their line in words, and an item of one put now.

One rule: an item that is put now is none of the schedule's times: these come as if it had not been.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Generator
from functools import lru_cache
from itertools import islice
from typing import Annotated, Any, Final

from cron_descriptor import Options, get_description
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from kestrelpy.core import Running
from kestrelpy.cron import Cron
from kestrelpy.http.admin import models
from kestrelpy.http.admin.common import LIMITED, Limit, next_page, note
from kestrelpy.http.admin.models import shown
from kestrelpy.http.answers import HttpError, answer
from kestrelpy.http.call import Call
from kestrelpy.http.models import errors
from kestrelpy.http.routing import Router
from kestrelpy.operations import PAUSE, QueueAdmin, Rests, schedule_facts

router: Final = Router("admin: server", prefix="/admin", responses=LIMITED)
COMING: Final = 5
_NAME_MAX: Final = 256
_CACHED: Final = 2048
_PER_SLICE: Final = 10  # a line of rare days takes some milliseconds
_OPTIONS: Final = Options()
_OPTIONS.use_24hour_time_format = True
_OPTIONS.locale_code = "en_US"  # not that of the machine


def rows_of_schedules(
    running: dict[bytes, Running], names: list[bytes]
) -> Generator[bytes, None, list[dict[str, Any]]]:
    """Return the members of these schedules; one that is gone has none."""
    rows = list[dict[str, Any]]()
    for number, name in enumerate(names, 1):
        if (each := running.get(name)) is not None:
            rows.append(members_of_schedule(name, each))
        if not number % _PER_SLICE:
            yield PAUSE
    return rows


def members_of_schedule(name: bytes, running: Running) -> dict[str, Any]:
    """Return the facts of a schedule as members, with its line in words and its next times."""
    coming = list[int]()
    if running.next_s is not None:
        schedule = running.schedule
        coming = [running.next_s, *_after(schedule.line, schedule.timezone, running.next_s)]
    return {
        "name": name.decode("ascii"), **shown(schedule_facts(running)),
        "words": in_words(running.schedule.line), "coming": coming,
    }  # fmt: skip


@lru_cache(maxsize=_CACHED)
def _after(line: str, timezone: str, moment_s: int) -> tuple[int, ...]:
    return tuple(islice(Cron(line, timezone).after(moment_s), COMING - 1))


@lru_cache(maxsize=_CACHED)
def in_words(line: str) -> str | None:
    """Return a line of cron in words; None: there are none for it."""
    try:
        return str(get_description(line, _OPTIONS))
    except Exception:  # the library's: the line itself is shown as well
        return None


@router.get("/schedules", summary="Schedules", model=models.SchedulePage)
async def get_schedules(
    request: Request,
    call: Call,
    limit: Limit = 100,
    after: Annotated[str, Meta(max_length=256, description="The one before the first.")] = "",
) -> Response:
    """Answer with the schedules by name: the next five times, the last, and how many runs wait."""
    running = call.host.timetable.running
    names = sorted(running)
    begin = bisect_right(names, after.encode("utf-8", "surrogatepass")) if after else 0
    some = names[begin : begin + limit]
    rows = await call.run(rows_of_schedules(running, some))
    cursor = some[-1].decode("ascii") if begin + limit < len(names) else None
    return answer({"schedules": rows, "next": next_page(request, cursor)})


@router.post("/schedules/{name}/run", summary="Put an item of a schedule now",
             model=models.Count, responses=errors(404))  # fmt: skip
async def run_schedule(
    call: Call, name: Annotated[str, Meta(max_length=_NAME_MAX)]
) -> Response:
    """Put its body into its queue now; its own times come as before."""
    timetable = call.host.timetable
    found = timetable.running.get(name.encode("utf-8", "surrogatepass"))
    if found is None:
        raise HttpError(404, f"there is no schedule {name}")
    QueueAdmin(call.broker, call.host).check_mode("stores")
    call.now_ms()
    queue, lsn = await call.with_room(
        lambda: timetable.put_now(found.schedule, call.last_command_ms)
    )
    await call.until(Rests(queue.log, lsn))
    note(call, "run schedule", queue.name, 1, name)
    return answer({"count": 1})
