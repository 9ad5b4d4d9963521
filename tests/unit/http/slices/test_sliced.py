"""A queue in all slices by HTTP: its items, leases and figures are those of one queue.

Promise: stored.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import httpx
import pytest

from journal.format import text_of
from kestrelpy.core import Subscription
from tests.support.sliced_web import SLICES, SlicedWeb, sliced_web

CONFIG = """[queues.jobs]
sliced = true
[queues.orders]
sliced = true
key_format = "json"
key = ["account"]
[queues.acc]
sliced = true
retain = "forever"
[schedules.nightly]
queue = "jobs"
cron = "0 3 * * *"
body = "due"
"""
JOBS = "/queues/jobs"


@pytest.fixture
async def web(tmp_path: Path) -> AsyncIterator[SlicedWeb]:
    async with sliced_web(tmp_path, CONFIG) as running:
        yield running


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.005)


def readers(web: SlicedWeb, name: bytes) -> list[Subscription | None]:
    """What each slice has of a queue."""
    found = list[Subscription | None]()
    for each in web.slices.values():
        assert each.daemon is not None
        queue = each.daemon.broker.queues.get(name)
        found.append(queue.reader if queue is not None else None)
    return found


def counts(web: SlicedWeb, name: bytes) -> list[int]:
    """How many ready items of a queue each slice has."""
    return [each.ready.count if each is not None else 0 for each in readers(web, name)]


def leased(web: SlicedWeb) -> list[int]:
    """How many items of jobs are leased in each slice."""
    return [len(each.leases) if each is not None else 0 for each in readers(web, b"jobs")]


def waiting(web: SlicedWeb) -> list[int]:
    """How many clients wait in each slice for an item of jobs."""
    found = list[int]()
    for each in web.slices.values():
        assert each.daemon is not None
        broker = each.daemon.broker
        queue = broker.queues.get(b"jobs")
        line = queue.reader.waiters if queue is not None else broker._absent.get(b"jobs")
        found.append(line.count if line is not None else 0)
    return found


async def put(
    web: SlicedWeb, query: str, body: bytes = b"x", queue: str = "jobs"
) -> httpx.Response:
    said = await web.client.post(f"/queues/{queue}/items{query}", content=body)
    assert said.status_code in (200, 201), said.text
    return said


async def lease(web: SlicedWeb, query: str = "") -> list[dict[str, object]]:
    said = await web.client.post(f"{JOBS}/leases{query}")
    assert said.status_code == 200, said.text
    rows: list[dict[str, object]] = said.json()["leases"]
    return rows


# -- items --------------------------------------------------------------------------------------


async def test_items_are_put_by_key_and_id_as_on_the_other_wire(web: SlicedWeb) -> None:
    placement = web.placement
    for number in range(12):
        await put(web, f"?key=k{number}")
    expected = Counter(
        placement.slice_of_item(b"jobs", text_of(b"k%d" % number)) for number in range(12)
    )
    assert counts(web, b"jobs") == [expected[each] for each in range(1, SLICES + 1)]
    for number in range(12):
        await put(web, f"?id=i{number}")
        assert (await put(web, f"?id=i{number}")).json()["duplicate"] is True
    expected += Counter(placement.slice_of_item(b"jobs", b"i%d" % each) for each in range(12))
    assert counts(web, b"jobs") == [expected[each] for each in range(1, SLICES + 1)]


async def test_an_id_in_the_header_is_the_same_id(web: SlicedWeb) -> None:
    for number in range(6):
        headers = {"Idempotency-Key": f"i{number}"}
        said = await web.client.post(f"{JOBS}/items", content=b"x", headers=headers)
        assert said.status_code == 201
        assert (await put(web, f"?id=i{number}")).json()["duplicate"] is True
    both = await web.client.post(f"{JOBS}/items?id=a", content=b"x", headers=headers)
    assert both.status_code == 400


async def test_a_key_in_the_body_says_the_slice(web: SlicedWeb) -> None:
    for number in range(9):
        for _ in range(2):
            body = json.dumps({"account": f"a{number}"}).encode()
            await put(web, "", body, "orders")
    assert sum(counts(web, b"orders")) == 18
    assert min(counts(web, b"orders")) > 0
    assert all(not count % 2 for count in counts(web, b"orders"))
    said = await web.client.post("/queues/orders/items", content=b"no JSON")
    assert said.status_code == 400
    assert "queue orders: the message" in said.json()["description"]


async def test_items_without_a_key_stay_in_the_slice_of_their_connection(web: SlicedWeb) -> None:
    for _ in range(5):
        await put(web, "")
    assert sorted(counts(web, b"jobs")) == [0, 0, 5]
    async with httpx.AsyncClient(base_url=web.client.base_url) as other:
        for _ in range(3):
            assert (await other.post(f"{JOBS}/items", content=b"x")).status_code == 201
    assert sorted(counts(web, b"jobs")) == [0, 3, 5]


async def test_a_chunked_body_reaches_its_slice(web: SlicedWeb) -> None:
    async def body() -> AsyncIterator[bytes]:
        yield b'{"account"'
        yield b': "a"}'

    assert (await web.client.post("/queues/orders/items", content=body())).status_code == 201
    assert (await web.client.post(f"{JOBS}/items?key=k", content=body())).status_code == 201


# -- leases by token ----------------------------------------------------------------------------


async def test_a_token_ends_its_lease_in_the_slice_that_gave_it(web: SlicedWeb) -> None:
    for number in range(9):
        await put(web, f"?key=k{number}", b"%d" % number)
    rows = await lease(web, "?count=9")
    assert sorted(str(each["body"]) for each in rows) == [*"012345678"]
    assert min(leased(web)) > 0
    tokens = [each["token"] for each in rows]
    for token in tokens[:3]:
        said = await web.client.patch(f"{JOBS}/leases/{token}?lease=5m")
        assert said.status_code == 204
    for token in tokens:
        assert (await web.client.delete(f"{JOBS}/leases/{token}")).status_code == 204
        assert (await web.client.delete(f"{JOBS}/leases/{token}")).status_code == 404
    assert await lease(web) == []
    assert (await web.client.delete(f"{JOBS}/leases/no")).status_code == 400
    assert (await web.client.delete(f"{JOBS}/leases/{1 << 60}")).status_code == 400


# -- streams ------------------------------------------------------------------------------------


async def test_a_stream_is_in_the_slice_of_its_key_with_its_versions(web: SlicedWeb) -> None:
    for number in range(6):
        for version in range(3):
            said = await web.client.post(
                f"/streams/acc-{number}", content=b"%d" % version,
                headers={"If-Match": f'"{version}"'} if version else {"If-None-Match": "*"},
            )  # fmt: skip
            assert (said.status_code, said.headers["etag"]) == (201, f'"{version + 1}"')
        said = await web.client.post(
            f"/streams/acc-{number}", content=b"no", headers={"If-Match": '"1"'}
        )
        assert said.status_code == 412
        read = (await web.client.get(f"/streams/acc-{number}")).json()
        assert [each["body"] for each in read["events"]] == ["0", "1", "2"]
    assert sum(map(bool, counts(web, b"acc"))) > 1
    assert (await web.client.get("/streams/acc")).status_code == 400
    said = await web.client.get("/categories/acc")
    assert said.status_code == 409
    assert said.json()["description"] == (
        "queue acc is sliced, and a sliced queue has no category: its streams are in all slices, "
        "read each of them"
    )


# -- the queue ----------------------------------------------------------------------------------


async def test_the_details_of_the_queue_are_sums(web: SlicedWeb) -> None:
    assert (await web.client.get("/admin/queues/acc")).status_code == 404
    for number in range(12):
        await put(web, f"?key=k{number}")
    await put(web, "?key=late&delay=1h")
    await lease(web, "?count=2")
    found = (await web.client.get("/admin/queues/jobs")).json()
    assert (found["name"], found["facts"]["items"], found["facts"]["leased"]) == ("jobs", 10, 2)
    assert (found["facts"]["delayed"], found["facts"]["total_items"]) == (1, 13)
    assert found["markers"] == {"kept_bytes": 13, "retains": 0}
    assert {"name": "sliced", "value": "true", "source": "file"} in found["settings"]
    listed = (await web.client.get("/admin/queues/jobs/delayed")).json()
    assert (len(listed["delayed"]), listed["count"]) == (1, 1)


async def test_the_list_has_the_queue_once(web: SlicedWeb) -> None:
    for number in range(12):
        await put(web, f"?key=k{number}")
        await put(web, "", queue=f"q{number}")
    found = (await web.client.get("/admin/queues")).json()
    assert (len(found["queues"]), found["matched"]) == (13, 13)
    assert next(each for each in found["queues"] if each["name"] == "jobs")["items"] == 12
    path = "/views?view=queues"
    while (found := (await web.client.get(path)).json())["total"] < 13:  # it is sorted anew
        await asyncio.sleep(0.05)
    assert (found["total"], len(found["queues"]["order"])) == (13, 13)


async def test_what_concerns_the_whole_queue_reaches_all_slices(web: SlicedWeb) -> None:
    for number in range(12):
        await put(web, f"?key=k{number}")
    path = "/admin/queues/jobs"
    assert (await web.client.post(f"{path}/pause")).json() == {"count": 1}
    assert await lease(web, "?count=12") == []
    assert (await web.client.post(f"{path}/resume")).json() == {"count": 1}
    await lease(web, "?count=2")
    said = await web.client.post(f"{path}/flush?dry_run")
    assert said.json() == {"count": 10, "is_dry_run": True}
    assert (await web.client.post(f"{path}/flush")).json() == {"count": 10}
    assert counts(web, b"jobs") == [0] * SLICES
    assert (await web.client.delete(f"{path}?dry_run")).json() == {"count": 2, "is_dry_run": True}
    assert (await web.client.delete(path)).json() == {"count": 2}
    assert (await web.client.delete(path)).status_code == 404
    assert (await web.client.post(f"{path}/acknowledge")).status_code == 404


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/admin/queues/jobs/items"), ("GET", "/admin/queues/jobs/leases"),
        ("GET", "/admin/queues/jobs/items/7"), ("GET", "/admin/queues/jobs/dead"),
        ("POST", "/admin/queues/jobs/redrive"), ("POST", "/admin/queues/jobs/purge"),
    ],
)  # fmt: skip
async def test_what_numbers_its_items_is_refused_and_reaches_no_slice(
    web: SlicedWeb, method: str, path: str
) -> None:
    said = await web.client.request(method, path)
    assert said.status_code == 409
    assert "its items are numbered in each slice" in said.json()["description"]
    assert web.connects == []


async def test_it_has_no_children(web: SlicedWeb) -> None:
    said = await web.client.post("/queues/jobs+audit/leases")
    assert (said.status_code, said.json()["description"]) == (
        409, "queue jobs+audit is sliced, and a sliced queue has no children",
    )  # fmt: skip


async def test_a_schedule_puts_into_its_queue_at_its_home_once(web: SlicedWeb) -> None:
    assert (await web.client.post("/admin/schedules/nightly/run")).status_code in (200, 201, 202)
    home = web.placement.slice_of(b"jobs")
    assert counts(web, b"jobs") == [int(each == home) for each in range(1, SLICES + 1)]
    rows = await lease(web, "?count=9")
    assert [each["body"] for each in rows] == ["due"]
    listed = (await web.client.get("/admin/schedules")).json()["schedules"]
    assert [each["name"] for each in listed] == ["nightly"]
