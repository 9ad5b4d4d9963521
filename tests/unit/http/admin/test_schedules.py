"""Schedules over HTTP: pages, their next times and words, and an item put now."""

from __future__ import annotations

from pathlib import Path

import pytest

from kestrelpy.cron import Cron
from kestrelpy.http.admin.schedules import in_words
from tests.support.http_client import web

SCHEDULES = """
[schedules.a]
cron = "0 0 1 1 *"
queue = "jobs"
body = "x"
[schedules.b]
cron = "0 0 1 1 *"
queue = "jobs"
body = "x"
"""


async def test_schedules_are_pages_by_name(tmp_path: Path) -> None:
    async with web(tmp_path, SCHEDULES) as server:
        page = (await server.client.get("/admin/schedules?limit=1")).json()
        last = (await server.client.get(page["next"])).json()
        rows = page["schedules"] + last["schedules"]
        assert [(each["name"], each["queue"]) for each in rows] == [("a", "jobs"), ("b", "jobs")]
        assert last["next"] is None


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("*/5 * * * *", "Every 5 minutes"), ("30 2 * * MON-FRI", "At 02:30, Monday through Friday"),
        ("0 9 * * FRI#2", "At 09:00, on the second Friday of the month"),
        ("*/10 * * * * *", "Every 10 seconds"), ("no line of cron at all", None),
    ],
)  # fmt: skip
def test_a_line_of_cron_is_said_in_words(line: str, words: str | None) -> None:
    assert in_words(line) == words


async def test_a_schedule_shows_its_next_times_and_words(tmp_path: Path) -> None:
    async with web(tmp_path, SCHEDULES) as server:
        row = (await server.client.get("/admin/schedules?limit=1")).json()["schedules"][0]
        assert row["words"] == "At 00:00, on day 1 of the month, only in January"
        assert len(row["coming"]) == 5
        assert row["coming"][0] == row["next"]
        times = Cron("0 0 1 1 *").after(row["next"] - 1)
        assert row["coming"] == [next(times) for _ in range(5)]
        view = (await server.client.get("/views?view=schedules")).json()["rows"]
        assert view["rows"]["a"] == row


async def test_an_item_of_a_schedule_is_put_now_and_its_times_stay(tmp_path: Path) -> None:
    config = SCHEDULES + "[queues.jobs]\nmax_items = 2\n"
    async with web(tmp_path, config) as server:
        before = (await server.client.get("/admin/schedules")).json()
        for _ in range(2):
            assert (await server.client.post("/admin/schedules/a/run")).json() == {"count": 1}
        items = (await server.client.get("/admin/queues/jobs/items")).json()["items"]
        assert [each["body"] for each in items] == ["x", "x"]
        assert (await server.client.get("/admin/schedules")).json() == before
        full = await server.client.post("/admin/schedules/a/run")
        assert full.status_code == 503
        assert "queue jobs is full" in full.json()["description"]
        assert (await server.client.post("/admin/schedules/c/run")).status_code == 404
        await server.client.patch("/admin/mode", json={"mode": "readonly"})
        refused = await server.client.post("/admin/schedules/a/run")
        assert refused.status_code == 503
        actions = (await server.client.get("/views?view=overview")).json()["actions"]
        (done,) = (each for each in actions if each["what"] == "run schedule")
        assert (done["queue"], done["count"], done["note"]) == ("jobs", 2, "a")
    async with web(tmp_path, config) as server:
        facts = (await server.client.get("/admin/queues/jobs")).json()["facts"]
        assert facts["items"] == 2
