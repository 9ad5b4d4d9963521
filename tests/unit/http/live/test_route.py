"""`/views` and `/events`: what they take, what they refuse, what every view has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kestrelpy.http.live.changes import changes
from tests.support.http_client import web


@pytest.mark.parametrize("query", [
    "view=nothing", "", "view=queues&limit=101", "view=queues&sort=up", "view=overview&range=2h",
    "view=overview&unknown=1",
])  # fmt: skip
async def test_a_view_that_there_is_not_is_refused(tmp_path: Path, query: str) -> None:
    async with web(tmp_path) as server:
        for path in ("/views", "/events"):
            answer = await server.client.get(f"{path}?{query}")
            assert answer.status_code == 400
            assert set(answer.json()) == {"title", "description"}


async def test_another_site_opens_no_stream(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        answer = await server.client.get(
            "/events?view=overview", headers={"sec-fetch-site": "cross-site"}
        )
        assert answer.status_code == 403


# Their members are tables of their own: figures of a queue, series of the past.
TOLD_ELSEWHERE = frozenset({"facts", "journal", "markers", "points", "history", "segments"})


EVERY_VIEW = {
    "server": "allow_delete memcache mode name read_only version",
    "memcache": "has_tls host port wants_certificate",
    "verdict": "level lines",
    "lines": "code level link since_ms text",  # of the dead letter
}
_COMMON = "now_ms server started_ms verdict"
_ROWS = f"{_COMMON} next rows"
_ACTIONS = {"actions": "at_ms count note queue what who"}
_APPEND = {"append": "at_ms points"}
_IN_TABLE = (
    "blocked bytes dead delayed items leased level max_leased name oldest_ms out_rate paused rate"
    " ready spark state waiters why"
)
MEMBERS: dict[str, dict[str, str]] = {
    "overview": {
        "": f"{_COMMON} actions append connections depth disk_free disk_full_in_ms history"
            " oldest_ms queues rates sync_p50_ms sync_p99_ms trouble wait_p99_ms",
        "rates": "confirmed dead_total delivered duplicates expired stored",
        "depth": "dead delayed leased ready", "trouble[]": _IN_TABLE, **_ACTIONS, **_APPEND,
    },
    "queues": {"": f"{_COMMON} queues total", "queues[]": _IN_TABLE},
    "queue": {
        "": f"{_COMMON} actions append heat history queue service_p50_ms service_p99_ms wait_p50_ms"
            " wait_p99_ms why",
        "heat": "edges_ms service since_ms step_ms waiting",
        "queue": "blocked bytes children dead delayed facts items journal leased level markers"
                 " max_leased name oldest_ms out_rate parent paused rate ready spark state waiters"
                 " why",
        **_ACTIONS,
        **_APPEND,
    },
    "items": {
        "": _ROWS,
        "rows[]": "attempts body bytes expires_ms flags id is_cut key marker state stored_ms",
    },
    "leases": {
        "": _ROWS,
        "rows[]": "attempts began_ms ends_ms holder id marker state stored_ms token",
    },
    "keys": {"": _ROWS, "rows[]": "began_ms holder holder_state key lease_holder token waiting"},
    "dead": {"": _ROWS, "rows[]": "attempts bytes died_ms id is_leased reason"},
    "connections": {
        "": _ROWS,
        "rows[]": "held_bytes holds id idle_ms is_waiting leases peer rate user waits_for wire",
        "holds": "began_ms item queue",
    },
    "schedules": {"": _ROWS},
    "journal": {
        "": f"{_COMMON} append batches connections damage damages disk_free disk_full_in_ms health"
            " history last_backup_ms mode segments sync_p50_ms sync_p99_ms syncs unwell",
        **_APPEND,
    },
}  # fmt: skip


def members(shown: Any, of: str = "") -> dict[str, str]:
    """Return the members of each object of a view; the rows of a table count as one object."""
    found = dict[str, str]()
    if isinstance(shown, list):
        for each in shown:
            found |= members(each, of)
    elif isinstance(shown, dict) and set(shown) == {"order", "rows"}:
        for row in shown["rows"].values():
            found |= members(row, f"{of}[]")
    elif isinstance(shown, dict):
        found[of] = " ".join(sorted(shown))
        for name in shown.keys() - TOLD_ELSEWHERE:
            found |= members(shown[name], name)
    return found


@pytest.mark.parametrize("view", [
    "overview", "queues", "queue&queue=jobs", "items&queue=jobs", "leases&queue=jobs",
    "keys&queue=jobs", "dead&queue=jobs", "connections", "schedules", "journal",
])  # fmt: skip
async def test_each_view_has_what_every_view_has(tmp_path: Path, view: str) -> None:
    async with web(tmp_path) as server:
        client = await server.memcache()
        for key in (b"", b"/key=a", b"/key=a", b"/delay=1h"):
            await client.ask(b"set jobs%b 0 0 1\r\nx\r\n" % key)
        leased = (await server.client.post("/queues/jobs/leases")).json()["leases"]
        await server.client.delete(f"/queues/jobs/leases/{leased[0]['token']}?bury=why")
        await client.ask(b"get jobs/open\r\n")
        await (await server.memcache()).ask(b"get jobs/open\r\n")  # the key is in use
        server.live._look()  # as each second: the sampler may not have seen the queue yet
        answer = await server.client.get(f"/views?view={view}")
        assert answer.status_code == 200, answer.text
        shown = answer.json()
        wanted = EVERY_VIEW | MEMBERS[view.partition("&")[0]]
        assert members(shown) == {of: " ".join(sorted(each.split())) for of, each in wanted.items()}
        assert not changes(shown, shown)
        if view.startswith("items"):
            assert [shown["rows"]["rows"][i]["body"] for i in shown["rows"]["order"]] == ["x"] * 3
        if view.startswith("leases"):
            assert len(shown["rows"]["order"]) == 1
