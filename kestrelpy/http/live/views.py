"""What each view of the page shows: its members, and its past.

    Wanted view ──▶ `render` ──▶ members: what may change with a tick
                            └──▶ history: what only the whole view has

One rule: rendering reads, in slices, and a view has at most a hundred rows.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Any, Final, Literal, NamedTuple

from kestrelpy.http.admin import (
    find_queue,
    members_of_connection,
    members_of_journals,
    members_of_queue,
    row_of_item,
    rows_of_schedules,
    shown,
)
from kestrelpy.http.call import Call
from kestrelpy.http.live.command_rates import CommandRates
from kestrelpy.http.live.figures import RATES
from kestrelpy.http.live.heat import Heat, percentiles
from kestrelpy.http.live.journal_walk import JournalWalk
from kestrelpy.http.live.rings import Ring
from kestrelpy.http.live.rows import QueueOrders, WantedQueues, row_of_queue, table
from kestrelpy.http.live.sampler import Sampler
from kestrelpy.http.live.why import why_still
from kestrelpy.operations import (
    DeathFilter,
    Deaths,
    ItemList,
    LogReader,
    list_keys,
    list_leases,
)

Kind = Literal[
    "overview", "queues", "queue", "items", "leases", "keys", "dead", "connections", "schedules",
    "journal",
]  # fmt: skip
Span = Literal["5m", "1h", "24h"]
Sort = Literal["trouble", "oldest", "dead", "blocked", "items", "rate", "name"]
State = Literal["ready", "leased", "delayed", "dead", "done"]
ROWS_MAX: Final = 100
BODY_SHOWN: Final = 200
ACTIONS_SHOWN: Final = 50
QUEUE_ACTIONS_SHOWN: Final = 20
_TROUBLE_ROWS: Final = 10
_SCHEDULES_MAX: Final = 500

Members = dict[str, Any]


class View(NamedTuple):
    """Which view; `TAKES` has what it needs."""

    view: Kind
    range: Span = "1h"
    queue: str = ""
    search: str = ""
    sort: Sort = "trouble"
    order: Literal["up", "down"] = "down"
    offset: int = 0
    limit: int = ROWS_MAX
    state: State | None = None
    key: str | None = None
    after: int = 0
    died_from_ms: int = 0
    died_before_ms: int | None = None
    attempts_least: int = 0


class Rendered(NamedTuple):
    """A view at one tick. `ring` has its past, None: it has none."""

    members: Members
    ring: Ring | None = None


class ViewSources(NamedTuple):
    """The sources of the views, in addition to the broker."""

    samples: Sampler
    orders: QueueOrders
    commands: CommandRates
    journals: JournalWalk
    server: Callable[[], Members]  # the figures that only the live side has


async def render(view: View, call: Call, sources: ViewSources) -> Rendered:
    """Return the view as it is now; raise HttpError, Refused."""
    return await _RENDER[view.view](view, call, sources)


async def _overview(view: View, call: Call, sources: ViewSources) -> Rendered:
    samples, broker = sources.samples, call.broker
    wanted = WantedQueues(limit=_TROUBLE_ROWS)
    names, _ = await call.run(sources.orders.names(wanted, call.now_ms()))
    now_ms = call.now_ms()
    troubled = [name for name in names if _is_worth_showing(samples, name)]
    ring = samples.rings.of(view.range)
    return Rendered({
        "rates": {name: _rate(samples, name) for name in RATES},
        "depth": dict(samples.states), "oldest_ms": samples.oldest_ms,
        "wait_p99_ms": samples.wait_p99_ms, **_syncs(samples), **sources.server(),
        "queues": len(broker.queues), "trouble": table(samples, broker, troubled, now_ms),
        "actions": _actions(call, ACTIONS_SHOWN), "append": _newest(ring, call),
    }, ring)  # fmt: skip


def _actions(call: Call, most: int, queue: bytes | None = None) -> list[Members]:
    return [asdict(each) for each in call.host.actions.newest(most, queue)]


def _is_worth_showing(samples: Sampler, name: bytes) -> bool:
    row = samples.rows.get(name)
    if row is None:
        return False
    return bool(row.ready or row.delayed or row.leased or row.dead or name in samples.troubles)


def _rate(samples: Sampler, name: str) -> float:
    return round(samples.rates[name], 1)


def _syncs(samples: Sampler) -> Members:
    return {"sync_p50_ms": samples.sync_p50_ms, "sync_p99_ms": samples.sync_p99_ms}


def _newest(ring: Ring, call: Call) -> Members:
    return {"at_ms": ring.at_ms + call.broker.clock.offset_ms, "points": ring.last()}


async def _queues(view: View, call: Call, sources: ViewSources) -> Rendered:
    wanted = WantedQueues(view.search, view.sort, view.order == "down", view.offset, view.limit)
    names, matched = await call.run(sources.orders.names(wanted, call.now_ms()))
    queues = table(sources.samples, call.broker, names, call.now_ms())
    return Rendered({"total": matched, "queues": queues})


async def _queue(view: View, call: Call, sources: ViewSources) -> Rendered:
    queue, samples, now_ms = find_queue(call, view.queue), sources.samples, call.now_ms()
    sampled, counters = samples.by_queue.get(queue.name), queue.reader.counters
    row = row_of_queue(samples, call.broker, queue.name, now_ms)
    heat = (sampled.heat if sampled is not None else Heat()).facts(now_ms)
    heat["since_ms"] += queue.clock.offset_ms
    members = {
        "queue": {**members_of_queue(queue, now_ms), **(row or {})},
        "why": why_still(queue, call.host.mode, now_ms),
        "heat": heat,
        **percentiles(counters.waiting_ms, counters.service_ms),
        "actions": _actions(call, QUEUE_ACTIONS_SHOWN, queue.name),
        "append": _newest(sampled.ring, call) if sampled is not None else None,
    }
    return Rendered(members, sampled.ring if sampled is not None else None)


async def _items(view: View, call: Call, sources: ViewSources) -> Rendered:
    queue = find_queue(call, view.queue)
    items = ItemList(
        queue, LogReader(call), view.state or "", view.key, BODY_SHOWN, call.now_ms
    )
    page = await call.run(items.page(view.after, view.limit))
    return Rendered(_rows([row_of_item(each) for each in page.items], "id", page.next))


async def _leases(view: View, call: Call, sources: ViewSources) -> Rendered:
    queue = find_queue(call, view.queue)
    facts, cursor = await call.run(list_leases(queue, view.after, view.limit, call.now_ms()))
    rows, now_ms, offset_ms = list[Members](), call.now_ms(), queue.clock.offset_ms
    for each in facts:
        row = shown(each)
        # The time at which it ends does not change with each tick; the time that is left does.
        left_ms, age_ms = row.pop("lease_left_ms"), row.pop("age_ms")
        lease = queue.reader.leases.of(each.id)
        row["ends_ms"] = now_ms + offset_ms + left_ms if left_ms is not None else None
        row["stored_ms"] = now_ms + offset_ms - age_ms if age_ms is not None else None
        row["began_ms"] = lease.began_ms if lease is not None else None
        rows.append(row)
    return Rendered(_rows(rows, "id", cursor))


async def _keys(view: View, call: Call, sources: ViewSources) -> Rendered:
    queue = find_queue(call, view.queue)
    page = list_keys(queue, view.after, view.limit, only_blocked=view.state != "done")
    rows = list[Members]()
    for each in page.keys:
        lease = queue.reader.leases.of(each.holder)
        rows.append({**shown(each), "began_ms": lease.began_ms if lease is not None else None,
                     "token": lease.token if lease is not None else None})  # fmt: skip
    return Rendered(_rows(rows, "key", page.next))


async def _dead(view: View, call: Call, sources: ViewSources) -> Rendered:
    deaths = Deaths(find_queue(call, view.queue))
    reason = view.key.encode("utf-8", "surrogatepass") if view.key is not None else None
    wanted = DeathFilter(
        reason, view.died_from_ms, view.died_before_ms, view.attempts_least
    )
    ids, cursor = await call.run(deaths.page(wanted, view.after, view.limit))
    return Rendered(_rows([shown(each) for each in deaths.facts(ids)], "id", cursor or None))


async def _connections(view: View, call: Call, sources: ViewSources) -> Rendered:
    found = call.host.connection_facts(view.after, view.limit + 1, call.now_ms())
    rows = [members_of_connection(each) for each in found[: view.limit]]
    for row in rows:
        row["rate"] = sources.commands.rate(row["id"], row.pop("commands"), call.now_ms())
        idle_ms = row["idle_ms"]
        row["idle_ms"] = idle_ms // 1000 * 1000 if idle_ms is not None else None
    cursor = rows[-1]["id"] if len(found) > view.limit else None
    return Rendered(_rows(rows, "id", cursor))


async def _schedules(view: View, call: Call, sources: ViewSources) -> Rendered:
    running = call.host.timetable.running
    names = sorted(running)[:_SCHEDULES_MAX]
    rows = await call.run(rows_of_schedules(running, names))
    return Rendered(_rows(rows, "name", None))


async def _journal(view: View, call: Call, sources: ViewSources) -> Rendered:
    found = await sources.journals.totals(call, sources.samples.ticks)
    totals, counters = found.queues, call.broker.counters
    ring = sources.samples.rings.of(view.range)
    return Rendered({
        "health": totals.health, "unwell": totals.unwell, "syncs": counters.sync_us.count,
        "batches": counters.batch_records.count, **_syncs(sources.samples),
        **sources.server(), "mode": call.host.mode, **members_of_journals(call, found.segments),
        "last_backup_ms": found.last_backup_ms,
        "append": _newest(ring, call),
    }, ring)  # fmt: skip


# The parameters that each view takes; others are refused.
TAKES: Final[dict[str, tuple[str, ...]]] = {
    "overview": ("range",),
    "queues": ("search", "sort", "order", "offset", "limit"),
    "queue": ("queue",),
    "items": ("queue", "state", "key", "after", "limit"),
    "leases": ("queue", "after", "limit"),
    "keys": ("queue", "state", "after", "limit"),
    "dead": (
        "queue", "key", "died_from_ms", "died_before_ms", "attempts_least", "after", "limit",
    ),
    "connections": ("after", "limit"),
    "schedules": (),
    "journal": ("range",),
}  # fmt: skip
_Render = Callable[[View, Call, ViewSources], Awaitable[Rendered]]
_RENDER: Final[dict[str, _Render]] = {
    "overview": _overview, "queues": _queues, "queue": _queue, "items": _items,
    "leases": _leases, "keys": _keys, "dead": _dead, "connections": _connections,
    "schedules": _schedules, "journal": _journal,
}  # fmt: skip


def _rows(rows: list[Members], by: str, cursor: int | None) -> Members:
    """Return rows as a table by one of their members."""
    by_id = {str(row[by]): row for row in rows}
    return {"rows": {"order": list(by_id), "rows": by_id}, "next": cursor}


def past(ring: Ring, offset_ms: int) -> Members:
    """Return the whole past of a view; `offset_ms` makes steady time wall time."""
    points = ring.points()
    return {
        "step_ms": points.step_ms, "since_ms": points.since_ms + offset_ms,
        "points": points.values,
    }  # fmt: skip
