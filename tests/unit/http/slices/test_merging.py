"""Answers of slices become one answer: pages in order, figures, numbers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kestrelpy.http.slices.merging import after_in, number_of, slice_of_number
from tests.support.sliced_web import SLICES, SlicedWeb, sliced_web

NAMES = [f"q{each}" for each in range(20)]
CONFIG = """[server]
default_project = "home"
[schedules.late]
queue = "q1"
cron = "0 3 * * *"
body = "x"
[schedules.early]
queue = "q2"
cron = "0 2 * * *"
body = "x"
[schedules.noon]
queue = "q3"
cron = "0 12 * * *"
body = "x"
"""


@pytest.fixture
async def web(tmp_path: Path) -> AsyncIterator[SlicedWeb]:
    async with sliced_web(tmp_path, CONFIG) as running:
        for at, name in enumerate(NAMES):
            for _ in range(at % 4 + 1):
                await running.client.post(f"/queues/{name}/items", content=b"x" * at)
        yield running


async def pages(web: SlicedWeb, path: str, member: str) -> list[dict[str, object]]:
    """All rows of a listing, page by page."""
    rows, more = list[dict[str, object]](), path
    while more:
        said = (await web.client.get(more)).json()
        rows += said[member]
        more = said["next"]
    return rows


@pytest.mark.parametrize("sort", ["name", "items", "bytes"])
@pytest.mark.parametrize("order", ["up", "down"])
async def test_pages_of_queues_are_in_order_over_all_slices(
    web: SlicedWeb, sort: str, order: str
) -> None:
    for limit in (1, 3, 19, 20, 500):
        rows = await pages(web, f"/admin/queues?limit={limit}&sort={sort}&order={order}", "queues")
        keys = [(0 if sort == "name" else each[sort], each["name"]) for each in rows]
        assert keys == sorted(keys, reverse=order == "down")
        assert {each["name"] for each in rows} == set(NAMES)
        assert len(rows) == len(NAMES)


async def test_a_search_counts_the_queues_of_all_slices(web: SlicedWeb) -> None:
    said = (await web.client.get("/admin/queues?search=q1&limit=2")).json()
    assert said["matched"] == 11
    assert (await web.client.get("/admin/queues?after=nonsense")).status_code == 400
    assert (await web.client.get("/admin/queues?limit=0")).status_code == 400


async def test_the_figures_of_the_server_are_sums_and_pages_of_queues_go_on(
    web: SlicedWeb,
) -> None:
    names, more, server = list[str](), "/stats.json?limit=7", dict[str, object]()
    while more:
        said = (await web.client.get(more)).json()
        names += said["queues"]
        more, server = said["next"], said["server"]
    assert names == sorted(NAMES)
    assert server["curr_items"] == server["cmd_set"] == sum(at % 4 + 1 for at in range(20))
    assert server["http_port"] == web.http_port
    assert len(str(server["server_id"]).split(",")) == SLICES


async def test_queues_of_a_project_are_listed_with_markers_over_slices(web: SlicedWeb) -> None:
    headers = {"Client-ID": "00000000-0000-0000-0000-000000000001", "X-Project-ID": "home"}
    names, path = list[str](), "/v2/queues?limit=6&with_count=true"
    while True:
        said = (await web.client.get(path, headers=headers)).json()
        names += [each["name"] for each in said["queues"]]
        assert said["count"] == len(NAMES)
        if not said["links"]:
            break
        path = said["links"][0]["href"]
    assert names == sorted(NAMES)
    said = (await web.client.get("/v2/queues", headers=headers | {"X-Project-ID": "p"})).json()
    assert said == {"queues": [], "links": []}


async def test_a_project_has_messages_and_claims_in_the_slices_of_its_queues(
    web: SlicedWeb,
) -> None:
    headers = {"Client-ID": "00000000-0000-0000-0000-000000000001", "X-Project-ID": "acme"}
    for name in NAMES[:6]:
        path = f"/v2/queues/{name}"
        body = {"messages": [{"ttl": 60, "body": name}]}
        said = await web.client.post(f"{path}/messages", headers=headers, json=body)
        assert said.status_code == 201
        assert f"acme:{name}".encode() in web.of(f"acme:{name}").daemon.broker.queues  # type: ignore[union-attr]  # it runs
        claim = await web.client.post(f"{path}/claims", headers=headers, json={})
        assert claim.json()["messages"][0]["body"] == name
        said = await web.client.get(claim.headers["location"], headers=headers)
        assert said.status_code == 200
        said = await web.client.get(f"{path}/stats", headers=headers)
        assert said.json()["messages"]["claimed"] == 1
    health = (await web.client.get("/v2/health", headers=headers)).json()
    assert health["queues"] == len(NAMES) + 6
    assert (await web.client.get("/v2/ping")).status_code == 204


async def test_schedules_of_all_slices_are_listed_by_name_and_run_in_theirs(
    web: SlicedWeb,
) -> None:
    rows = await pages(web, "/admin/schedules?limit=1", "schedules")
    assert [each["name"] for each in rows] == ["early", "late", "noon"]
    for each in rows:
        said = await web.client.post(f"/admin/schedules/{each['name']}/run")
        assert said.json() == {"count": 1}
    assert (await web.client.post("/admin/schedules/none/run")).status_code == 404


async def test_a_text_is_found_in_all_slices(web: SlicedWeb) -> None:
    said = (await web.client.get("/admin/find?text=q1")).json()
    assert {each["queue"] for each in said["hits"]} >= {"q1", *NAMES[10:]}
    said = (await web.client.get("/admin/find?text=q")).json()
    assert len(said["hits"]) == 20


async def test_the_journals_of_all_slices_are_added_up(web: SlicedWeb) -> None:
    said = (await web.client.get("/admin/journal")).json()
    alone = [
        (await web.client.get(f"/admin/queues/{name}")).json()["journal"]["disk_bytes"]
        for name in NAMES
    ]
    assert said["segments"]["bytes"] == sum(alone)
    assert (said["health"], said["last_backup_ms"]) == ("ok", None)


async def test_metrics_have_every_queue_and_each_family_once(web: SlicedWeb) -> None:
    await web.client.post("/queues/q2/leases")
    said = (await web.client.get("/metrics?queue=q1&queue=q2")).text
    for name in NAMES:
        assert f'kestrelpy_items_stored_total{{queue="{name}"}}' in said
    heads = [line for line in said.splitlines() if line.startswith("# TYPE")]
    assert len(heads) == len(set(heads))
    assert 'kestrelpy_queues{state="ok"} 20.0' in said
    assert 'kestrelpy_queue_waiting_seconds_count{queue="q2"}' in said


@pytest.mark.parametrize("slices", [2, 3, 64])
def test_a_number_names_its_slice(slices: int) -> None:
    seen = {}
    for slice_ in range(1, slices + 1):
        for number in range(1, 6):
            known = number_of(slice_, number, slices)
            assert slice_of_number(known, slices) == (slice_, number)
            seen[known] = slice_, number
    assert sorted(seen) == list(range(1, 5 * slices + 1))
    for after in range(5 * slices):
        for slice_ in range(1, slices + 1):
            own = after_in(slice_, after, slices)
            later = {own_ for known, (of, own_) in seen.items() if of == slice_ and known > after}
            assert later == set(range(own + 1, 6))
