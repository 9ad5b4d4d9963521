"""The answers of all slices as one answer, of JSON.

    a page of queues      the first rows of all pages, and the next cursor
    figures               sums; what is no sum has a rule of its own
    lists                 one after the other
    the same everywhere   the first that differs from what is usual

One rule: a slice that refuses is the answer; the first one, if several do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from kestrelpy.http.answers import JSON, error_body, without_paths
from kestrelpy.http.slices.asked import Asked, SliceAnswer
from kestrelpy.operations import HEALTH_STATES
from kestrelpy.protocol import merged_word

_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder().decode
Members = dict[str, Any]
Merge = Callable[[Asked, list[Members]], Members]
_HITS_MAX: Final = 20
_UNWELL_MAX: Final = 10
_DAMAGE_MAX: Final = 20
_JOBS_MAX: Final = 100


def in_json(status: int, members: Members) -> SliceAnswer:
    """Return an answer with these members."""
    return SliceAnswer(status, [(b"content-type", JSON.encode())], _encode(members))


def refusal(status: int, why: str) -> SliceAnswer:
    """Return the answer to a request that is refused here."""
    headers = [(b"content-type", JSON.encode())]
    return SliceAnswer(status, headers, error_body(status, without_paths(why)))


def why_refused(said: SliceAnswer) -> str:
    """Return the reason in the refusal of a slice."""
    return str(read(said).get("description", ""))


def merged(merge: Merge, asked: Asked, answers: list[SliceAnswer]) -> SliceAnswer:
    """Return one answer of those of all slices, in the order of their numbers."""
    refused = next((each for each in answers if each.status not in (200, 201, 202)), None)
    if refused is not None:
        return refused
    return in_json(answers[0].status, merge(asked, [_decode(each.body) for each in answers]))


def read(said: SliceAnswer) -> Members:
    """Return the members of an answer; none: it is no JSON."""
    try:
        members: Members = _decode(said.body)
    except msgspec.DecodeError:
        return {}
    return members


def worst(words: Iterable[str]) -> str:
    """Return the worst of the states of health."""
    ranks: dict[str, int] = {each: rank for rank, each in enumerate(HEALTH_STATES)}
    return max(words, key=lambda word: ranks.get(word, 1))


def together(texts: Iterable[str | None]) -> str | None:
    """Return sentences as one text, each once; None: there is none."""
    return "; ".join(dict.fromkeys(each for each in texts if each)) or None


def known(values: Iterable[Any]) -> list[Any]:
    """Return the values that are there."""
    return [each for each in values if each is not None]


def least(values: Iterable[Any]) -> Any:
    """Return the least value that is there; None: there is none."""
    return min(known(values), default=None)


def most(values: Iterable[Any]) -> Any:
    """Return the largest value that is there; None: there is none."""
    return max(known(values), default=None)


# What is no sum in the row of a sliced queue, whose slices have one each.
_ROW_RULES: Final[dict[str, Callable[[list[Any]], Any]]] = {
    "age": most, "oldest_ms": most, "lease_age_ms": most, "state": worst,
    "reason": together, "level": lambda words: min(words, key=("bad", "warn", "ok").index),
}  # fmt: skip


def whole_row(rows: list[Members]) -> Members:
    """Return one row of a queue, of those that its slices have of it."""
    return {name: _whole(name, [each[name] for each in rows]) for name in rows[0]}


def _whole(name: str, values: list[Any]) -> Any:
    if name in _ROW_RULES:
        return _ROW_RULES[name](values)
    if all(isinstance(each, bool) for each in values):
        return any(values)
    numbers = known(values)
    if numbers and all(isinstance(each, int | float) for each in numbers):
        return sum(numbers)
    return values[0]


def by_name(named: Iterable[tuple[str, Members]]) -> dict[str, Members]:
    """Return a row for each queue: a sliced one has one in each slice."""
    found: dict[str, list[Members]] = {}
    for name, row in named:
        found.setdefault(name, []).append(row)
    return {name: whole_row(rows) if rows[1:] else rows[0] for name, rows in found.items()}


def whole_queue(answers: list[Members]) -> Members:
    """Return the facts of a sliced queue, of those that its slices have of it."""
    markers = [each["markers"] for each in answers]
    return {
        **answers[0], "facts": whole_row([each["facts"] for each in answers]),
        # Each slice numbers its own, so that a range of them says nothing of the whole queue.
        "markers": {
            "kept_bytes": sum(each["kept_bytes"] for each in markers),
            "retains": markers[0]["retains"],
        },
        "journal": whole_row([each["journal"] for each in answers]),
    }  # fmt: skip


# -- pages ------------------------------------------------------------------------------------


def queues(asked: Asked, answers: list[Members]) -> Members:
    """Return the first queues of all pages."""
    sort, is_up = asked.query.get("sort", "name"), asked.query.get("order", "up") == "up"

    def place(row: Members) -> tuple[int, str]:
        return 0 if sort == "name" else row[sort], row["name"]

    some = [row for each in answers for row in each["queues"]]
    rows = [*by_name((row["name"], row) for row in some).values()]
    again = len(some) - len(rows)  # of sliced queues, as far as this page shows
    rows.sort(key=place, reverse=not is_up)
    shown = rows[: asked.limit()]
    is_last = len(rows) <= asked.limit() and not any(each["next"] for each in answers)
    value, name = place(shown[-1]) if shown else (0, "")
    return {
        "queues": shown, "matched": sum(each["matched"] for each in answers) - again,
        "next": None if is_last else asked.with_query(after=f"{value}:{name}").decode(),
    }  # fmt: skip


def stats(asked: Asked, answers: list[Members]) -> Members:
    """Return the figures of the server, and the first queues of all pages."""
    rows = by_name(pair for each in answers for pair in each["queues"].items())
    names = sorted(rows)[: asked.limit()]
    is_last = len(rows) <= asked.limit() and not any(each["next"] for each in answers)
    path = asked.with_query(limit=asked.limit(), after=names[-1] if names else "").decode()
    server = figures([each["server"] for each in answers])
    server["http_port"] = asked.router.http_port
    server["curr_connections"] = asked.router.memcache_connections
    server["total_connections"] = asked.router.connections_total
    return {
        "server": server,
        "queues": {name: rows[name] for name in names}, "next": None if is_last else path,
    }


def figures(servers: list[Members]) -> Members:
    """Return the figures of the server."""
    return {name: _figure(name, [each[name] for each in servers]) for name in servers[0]}


def _figure(name: str, values: list[Any]) -> Any:
    """Return a figure of the whole, as `stats` of the memcache port has it."""
    words = [str(each).encode() for each in values if each is not None]
    if not words:
        return None
    word = merged_word(name.encode(), words).decode()
    return word if isinstance(known(values)[0], str) else int(word)


def schedules(asked: Asked, answers: list[Members]) -> Members:
    """Return the first schedules of all pages, by name."""
    rows = sorted((row for each in answers for row in each["schedules"]), key=_name)
    shown = rows[: asked.limit()]
    is_last = len(rows) <= asked.limit() and not any(each["next"] for each in answers)
    return {
        "schedules": shown,
        "next": None if is_last else asked.with_query(after=_name(shown[-1])).decode(),
    }


def _name(row: Members) -> str:
    name: str = row["name"]
    return name


def project_queues(asked: Asked, answers: list[Members]) -> Members:
    """Return the first queues of a project, by name."""
    rows = sorted((row for each in answers for row in each["queues"]), key=_name)
    shown = rows[: asked.limit()]
    links = [each["links"][0]["href"] for each in answers if each["links"]]
    found: Members = {"queues": shown, "links": []}
    if shown:  # each of them ends with the marker
        begin, mark, _ = links[0].rpartition("marker=")
        found["links"] = [{"rel": "next", "href": f"{begin}{mark}{_name(shown[-1])}"}]
    if "count" in answers[0]:
        found["count"] = sum(each["count"] for each in answers)
    return found


# -- lists ------------------------------------------------------------------------------------


def find(asked: Asked, answers: list[Members]) -> Members:
    """Return what the text names in all slices."""
    hits = [hit for each in answers for hit in each["hits"]]
    return {
        "hits": hits[:_HITS_MAX],
        "is_whole": len(hits) <= _HITS_MAX and all(each["is_whole"] for each in answers),
    }


def number_of(slice_: int, number: int, slices: int) -> int:
    """Return the number that clients know for what a slice has numbered: a job, a connection."""
    return (number - 1) * slices + slice_


def slice_of_number(number: int, slices: int) -> tuple[int, int]:
    """Return the slice of a number that clients know, and its number there."""
    return (number - 1) % slices + 1, (number - 1) // slices + 1


def after_in(slice_: int, after: int, slices: int) -> int:
    """Return the last number in a slice that is not above what clients know as `after`."""
    return max((after - slice_) // slices + 1, 0)


def numbered(slice_: int, row: Members, slices: int) -> Members:
    """Return a row with the number that clients know."""
    return {**row, "id": number_of(slice_, row["id"], slices)}


def jobs(asked: Asked, answers: list[Members]) -> Members:
    """Return the jobs of all slices, the newest first."""
    rows = [
        numbered(slice_, row, asked.slices)
        for slice_, each in enumerate(answers, 1) for row in each["jobs"]
    ]  # fmt: skip
    rows.sort(key=lambda row: (row["began_ms"], row["id"]), reverse=True)
    return {"jobs": rows[:_JOBS_MAX]}


def connections(asked: Asked, answers: list[Members]) -> Members:
    """Return the first connections of all slices, by their numbers."""
    rows = [
        numbered(slice_, row, asked.slices)
        for slice_, each in enumerate(answers, 1) for row in each["connections"]
    ]  # fmt: skip
    rows.sort(key=lambda row: row["id"])
    shown = rows[: asked.limit()]
    is_last = len(rows) <= asked.limit() and not any(each["next"] for each in answers)
    return {
        "connections": shown,
        "next": None if is_last else asked.with_query(after=shown[-1]["id"]).decode(),
    }


# -- the server as a whole --------------------------------------------------------------------


def journal(asked: Asked, answers: list[Members]) -> Members:
    """Return the state of all journals together."""
    return {
        "health": worst(each["health"] for each in answers),
        "reason": together(each["reason"] for each in answers),
        "unwell": [name for each in answers for name in each["unwell"]][:_UNWELL_MAX],
        "disk_free_bytes": least(each["disk_free_bytes"] for each in answers),
        "syncs": sum(each["syncs"] for each in answers),
        "batches": sum(each["batches"] for each in answers), **journals(answers),
    }  # fmt: skip


def journals(answers: list[Members]) -> Members:
    """Return the segments of all journals, the damage that was found, and the earliest of the last
    backups: each slice has its own."""
    backups = [each["last_backup_ms"] for each in answers]
    damage = sorted(
        (row for each in answers for row in each["damage"]),
        key=lambda row: row["at_ms"], reverse=True,
    )  # fmt: skip
    return {
        "segments": _segments([each["segments"] for each in answers]),
        "last_backup_ms": None if None in backups else min(backups),
        "damages": sum(each["damages"] for each in answers), "damage": damage[:_DAMAGE_MAX],
    }


def _segments(all_: list[Members]) -> Members:
    buckets = [
        {
            name: some[0][name] if name == "share" else sum(each[name] for each in some)
            for name in some[0]
        }
        for some in zip(*(each["by_share"] for each in all_), strict=True)
    ]
    sums = {
        name: sum(each[name] for each in all_) for name in all_[0] if name != "by_share"
    }
    return {**sums, "by_share": buckets}


def mode(asked: Asked, answers: list[Members]) -> Members:
    """Return the mode, of slices that have several the first that is not up."""
    return next((each for each in answers if each["mode"] != "up"), answers[0])


def first(asked: Asked, answers: list[Members]) -> Members:
    """Return what all slices say."""
    return answers[0]


def messaging_health(asked: Asked, answers: list[Members]) -> Members:
    """Return whether all slices store and hand out messages."""
    return {
        "catalog_reachable": all(each["catalog_reachable"] for each in answers),
        "storage_reachable": all(each["storage_reachable"] for each in answers),
        "mode": mode(asked, answers)["mode"], "queues": sum(each["queues"] for each in answers),
        "warning": together(each["warning"] for each in answers),
    }


# -- answers that name a slice which is away -------------------------------------------------


def health(asked: Asked, answers: list[SliceAnswer], away: dict[int, str]) -> SliceAnswer:
    """Return how the server is; a slice that is away has failed."""
    found = [read(each) for each in answers]
    refused = (said for said, each in zip(answers, found, strict=True) if "unwell" not in each)
    if (said := next(refused, None)) is not None:
        return said
    reasons = [*(each["reason"] for each in found), *_sentences(away)]
    status = worst([*(each["status"] for each in found), *("failed" for _ in away)])
    return in_json(503 if status == "failed" else 200, {
        "status": status, "reason": together(reasons),
        "unwell": [name for each in found for name in each["unwell"]][:_UNWELL_MAX],
        "uptime_seconds": min((each["uptime_seconds"] for each in found), default=0),
        "unserved": sorted(away),
    })  # fmt: skip


def ready(asked: Asked, answers: list[SliceAnswer], away: dict[int, str]) -> SliceAnswer:
    """Return whether all slices take new items. In a fleet one that is away is a warning, for no
    other member could serve it either."""
    found = [read(each) for each in answers]
    refused = (said for said, each in zip(answers, found, strict=True) if "ready" not in each)
    if (said := next(refused, None)) is not None:
        return said
    missing = _sentences(away)
    is_warning = asked.router.is_in_fleet and bool(found)
    reasons = [*(each["why"] for each in found), *([] if is_warning else missing)]
    warnings = [*(each["warning"] for each in found), *(missing if is_warning else [])]
    why = next((text for text in reasons if text), None)
    return in_json(200 if why is None else 503, {
        "ready": why is None, "why": why, "warning": together(warnings),
    })  # fmt: skip


def _sentences(away: dict[int, str]) -> list[str]:
    return [sentence(number, why) for number, why in away.items()]


def sentence(number: int, why: str) -> str:
    """Return why a slice answers nothing."""
    return f"slice {number} does not serve: {why}"
