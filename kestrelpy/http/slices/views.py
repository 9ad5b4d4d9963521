"""The views of the page over all slices.

    overview    rates and items are added up, of times the longest counts, of the disk the least
    queues      the first rows of all slices, in one order; each row says its slice
    verdict     the lines of all slices, the worst first; a slice that is away is one of them

One rule: a view of one queue is that of its slice.

(A KNOWN FLAW: the number of queues in the overview counts a sliced queue once for each slice.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kestrelpy.http.slices import merging
from kestrelpy.http.slices.asked import Asked
from kestrelpy.http.slices.merging import Members, least, most, numbered, sentence, worst

_LEVELS: Final = ("bad", "warn", "ok")
_LINES_MAX: Final = 20
_TROUBLE_ROWS: Final = 10
_ACTIONS_MAX: Final = 50
ROWS_MAX: Final = 100
# Rows of each slice that are looked at for one page.
DEPTH_MAX: Final = 1000
# How the points of the past are made one; all others are sums.
_RULES: Final[dict[str, Callable[[list[Any]], Any]]] = {
    "oldest_ms": most, "wait_p99_ms": most, "sync_p99_ms": most, "disk_free": least,
}  # fmt: skip


def merged(asked: Asked, views: dict[int, list[Members]], away: dict[int, str]) -> Members:
    """Return one view of those of the slices, of each its pages in order; one at least."""
    kind, firsts = asked.query.get("view", ""), [pages[0] for pages in views.values()]
    found = {**_common(asked, firsts, away)}
    if kind == "overview":
        found |= _overview(asked, views)
    elif kind == "queues":
        found |= _queues(asked, views)
    elif kind == "connections":
        found |= _connections(asked, views)
    elif kind == "schedules":
        rows = {name: row for each in firsts for name, row in each["rows"]["rows"].items()}
        order = sorted(rows)
        found |= {"rows": {"order": order, "rows": {name: rows[name] for name in order}},
                  "next": None}  # fmt: skip
    elif kind == "journal":
        found |= _journal(firsts)
    else:
        found = {**firsts[0], **found}
        if "queue" in found:
            found["queue"] = {**found["queue"], **_at(asked, next(iter(views)))}
    histories = [each["history"] for each in firsts if "history" in each]
    if histories:
        found["history"] = _past(histories)
    return found


def _common(asked: Asked, views: list[Members], away: dict[int, str]) -> Members:
    """Return what every view has."""
    lines = {
        (line["code"], line["text"]): line for each in views for line in each["verdict"]["lines"]
    }
    found = [
        {"level": "bad", "code": "away", "text": sentence(number, why), "link": "#/fleet",
         "since_ms": None}
        for number, why in away.items()
    ]  # fmt: skip
    found = sorted([*found, *lines.values()], key=lambda line: _LEVELS.index(line["level"]))
    servers, listening = [each["server"] for each in views], asked.router.listening
    return {
        "now_ms": max(each["now_ms"] for each in views),
        "started_ms": max(each["started_ms"] for each in views),
        "verdict": {
            "level": found[0]["level"] if found else "ok", "lines": found[:_LINES_MAX],
        },
        "server": {
            **servers[0],
            "mode": next((each["mode"] for each in servers if each["mode"] != "up"), "up"),
            "read_only": any(each["read_only"] for each in servers),
            "name": ",".join(each["name"] for each in servers),
            "memcache": listening._asdict() if listening is not None else None,
            "slices": asked.slices,
        },
    }  # fmt: skip


def _sums(members: list[Members]) -> Members:
    return {name: round(sum(each[name] for each in members), 1) for name in members[0]}


def _times(views: list[Members]) -> Members:
    return {
        "sync_p50_ms": most(each["sync_p50_ms"] for each in views),
        "sync_p99_ms": most(each["sync_p99_ms"] for each in views),
        "disk_free": least(each["disk_free"] for each in views),
        "disk_full_in_ms": least(each["disk_full_in_ms"] for each in views),
        "append": {
            "at_ms": max(each["append"]["at_ms"] for each in views),
            "points": _point([each["append"]["points"] for each in views]),
        },
    }


def _overview(asked: Asked, views: dict[int, list[Members]]) -> Members:
    firsts = [pages[0] for pages in views.values()]
    rows = _rows(asked, views, "trouble")
    rows.sort(key=lambda row: _place(row, "trouble"), reverse=True)
    actions = sorted(
        (row for each in firsts for row in each["actions"]), key=lambda row: row["at_ms"],
        reverse=True,
    )  # fmt: skip
    return {
        "rates": _sums([each["rates"] for each in firsts]),
        "depth": _sums([each["depth"] for each in firsts]),
        "oldest_ms": most(each["oldest_ms"] for each in firsts),
        "wait_p99_ms": most(each["wait_p99_ms"] for each in firsts), **_times(firsts),
        "connections": asked.router.memcache_connections + asked.router.http_connections,
        "queues": sum(each["queues"] for each in firsts),
        "trouble": _table(rows[:_TROUBLE_ROWS]), "actions": actions[:_ACTIONS_MAX],
    }  # fmt: skip


def _queues(asked: Asked, views: dict[int, list[Members]]) -> Members:
    rows, query = _rows(asked, views, "queues"), asked.query
    sort, is_up = query.get("sort", "trouble"), query.get("order", "down") == "up"
    rows.sort(key=lambda row: _place(row, sort), reverse=not is_up)
    offset = int(query.get("offset", 0))
    shown = rows[offset : offset + int(query.get("limit", ROWS_MAX))]
    names = [
        {name for page in pages for name in page["queues"]["rows"]} for pages in views.values()
    ]
    again = sum(map(len, names)) - len(rows)  # of sliced queues, as far as these pages show
    return {
        "total": sum(pages[0]["total"] for pages in views.values()) - again,
        "queues": _table(shown),
    }


def _at(asked: Asked, number: int) -> Members:
    """Return where a queue is: its slice, and the member that owns it; null: there is no fleet."""
    return {"slice": number, "member": asked.router.member_of(number)}


def _rows(asked: Asked, views: dict[int, list[Members]], member: str) -> list[Members]:
    """Return the rows of queues, each with its slice; once, if it changed its page. A sliced queue
    has the sums of its rows, and is of slice 0: of all."""
    found: dict[str, dict[int, Members]] = {}
    for number, pages in views.items():
        for page in pages:
            for name, row in page[member]["rows"].items():
                found.setdefault(name, {})[number] = {**row, **_at(asked, number)}
    return [
        {**merging.whole_row([*rows.values()]), "slice": 0, "member": None} if len(rows) > 1
        else next(iter(rows.values()))
        for rows in found.values()
    ]  # fmt: skip


def _place(row: Members, sort: str) -> tuple[Any, ...]:
    """Return where a row stands, as the slices sort."""
    if sort == "trouble":
        is_odd = row["dead"] or row["blocked"]
        rank = 4 - _LEVELS.index(row["level"]) if row["level"] != "ok" else int(bool(is_odd))
        return rank, row["oldest_ms"], row["name"]
    value = {"name": 0, "oldest": row["oldest_ms"]}.get(sort)
    return row[sort] if value is None else value, row["name"]


def _table(rows: list[Members]) -> Members:
    return {"order": [row["name"] for row in rows], "rows": {row["name"]: row for row in rows}}


def _connections(asked: Asked, views: dict[int, list[Members]]) -> Members:
    rows = [
        numbered(number, row, asked.slices)
        for number, pages in views.items() for row in pages[0]["rows"]["rows"].values()
    ]  # fmt: skip
    rows.sort(key=lambda row: row["id"])
    limit = int(asked.query.get("limit", ROWS_MAX))
    shown = {str(row["id"]): row for row in rows[:limit]}
    is_last = len(rows) <= limit and not any(pages[0].get("next") for pages in views.values())
    return {
        "rows": {"order": list(shown), "rows": shown},
        "next": None if is_last else rows[:limit][-1]["id"],
    }


def _journal(views: list[Members]) -> Members:
    return {
        "health": worst(each["health"] for each in views),
        "unwell": [name for each in views for name in each["unwell"]],
        "syncs": sum(each["syncs"] for each in views),
        "batches": sum(each["batches"] for each in views), **_times(views),
        "mode": next((each["mode"] for each in views if each["mode"] != "up"), "up"),
        **merging.journals(views),
    }  # fmt: skip


# -- the past -----------------------------------------------------------------------------------


def _point(points: list[Members]) -> Members:
    """Return one point of several slices; a slice that has just begun has none."""
    names = dict.fromkeys(name for each in points for name in each)
    return {name: _value(name, [each.get(name) for each in points]) for name in names}


def _value(name: str, values: list[Any]) -> Any:
    known = merging.known(values)
    return _RULES.get(name, _sum)(known) if known else None


def _sum(values: list[Any]) -> Any:
    return round(sum(values), 3)


def _past(histories: list[Members]) -> Members:
    """Return the past of all slices, point by point; they began at moments of their own."""
    step_ms = histories[0]["step_ms"]
    since_ms = min(each["since_ms"] for each in histories)
    starts = [round((each["since_ms"] - since_ms) / step_ms) for each in histories]
    found: Members = {}
    for name in histories[0]["points"]:
        series = [[None] * at + each["points"][name]
                  for at, each in zip(starts, histories, strict=True)]  # fmt: skip
        size = max(map(len, series))
        found[name] = [
            _value(name, [each[at] if at < len(each) else None for each in series])
            for at in range(size)
        ]
    return {"step_ms": step_ms, "since_ms": since_ms, "points": found}
