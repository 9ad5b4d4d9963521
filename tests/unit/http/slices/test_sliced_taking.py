"""Leases of a queue in all slices by HTTP: what no client receives goes back at once.

Promise: token.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from journal.engine import Member
from journal.format import text_of
from kestrelpy.protocol.routing.sliced_queues import FOREIGN_FIRST
from tests.support.sliced_web import SLICES, SlicedWeb, sliced_web
from tests.unit.http.slices.test_sliced import counts, lease, leased, put, until, waiting

JOBS = "/queues/jobs"
WAIT = b"POST /queues/jobs/leases?wait=20s HTTP/1.1\r\nHost: localhost\r\n\r\n"
RAW = {"Accept": "application/octet-stream"}


@pytest.fixture
async def web(tmp_path: Path) -> AsyncIterator[SlicedWeb]:
    async with sliced_web(tmp_path, "[queues.jobs]\nsliced = true\n") as running:
        yield running


def keys(web: SlicedWeb) -> list[str]:
    """A key of each slice."""
    found = dict[int, str]()
    for number in range(100):
        place = web.placement.slice_of_item(b"jobs", text_of(b"%d" % number))
        found.setdefault(place, str(number))
    return [found[each] for each in range(1, SLICES + 1)]


async def all_wait(
    web: SlicedWeb, query: str = "?wait=20s", headers: dict[str, str] | None = None
) -> asyncio.Task[httpx.Response]:
    """A client that waits in all slices."""
    asking = web.client.post(f"{JOBS}/leases{query}", headers=headers)
    task = asyncio.create_task(asking)
    await until(lambda: waiting(web) == [1] * SLICES)
    return task


async def test_a_client_that_waits_gets_what_comes_to_any_slice(web: SlicedWeb) -> None:
    for key in keys(web):
        asking = await all_wait(web)
        await put(web, f"?key={key}", key.encode())
        rows = (await asking).json()["leases"]
        assert [each["body"] for each in rows] == [key]
        await until(lambda: waiting(web) == [0] * SLICES)
        said = await web.client.delete(f"{JOBS}/leases/{rows[0]['token']}")
        assert said.status_code == 204
    assert counts(web, b"jobs") == [0] * SLICES


async def test_a_wait_for_nothing_ends_at_its_time(web: SlicedWeb) -> None:
    assert await lease(web, "?wait=10ms") == []
    said = await web.client.post(f"{JOBS}/leases?wait=10ms", headers=RAW)
    assert said.status_code == 204


@pytest.mark.parametrize("count", [1, 2])
async def test_items_that_come_at_once_are_in_the_answer_or_go_back(
    web: SlicedWeb, count: int
) -> None:
    asking = await all_wait(web, f"?wait=20s&count={count}")
    await asyncio.gather(*(put(web, f"?key={key}") for key in keys(web)))
    rows = (await asking).json()["leases"]
    assert 1 <= len(rows) <= count
    await until(lambda: sum(leased(web)) == len(rows))
    rest = await lease(web, "?count=9")
    assert len(rest) == SLICES - len(rows)
    assert {each["attempts"] for each in rest} == {0}


async def test_the_body_of_one_item_comes_as_it_is(web: SlicedWeb) -> None:
    for key in keys(web):
        await put(web, f"?key={key}", key.encode())
    found = set[str]()
    for _ in keys(web):
        said = await web.client.post(f"{JOBS}/leases", headers=RAW)
        found.add(said.text)
        token = said.headers["lease-token"]
        assert (await web.client.delete(f"{JOBS}/leases/{token}")).status_code == 204
    assert found == {*keys(web)}
    asking = await all_wait(web, headers=RAW)
    await asyncio.gather(*(put(web, f"?key={key}", key.encode()) for key in keys(web)))
    assert (await asking).text in keys(web)
    await until(lambda: sum(leased(web)) == 1)


@pytest.mark.parametrize("steps", [0, 4, 8, 16, 32])
async def test_a_hang_up_as_items_come_leaves_no_wait_and_no_item_behind(
    web: SlicedWeb, steps: int
) -> None:
    producers = [await each.memcache() for each in web.slices.values()]
    peer = await web.raw(WAIT)
    await until(lambda: waiting(web) == [1] * SLICES)
    for each in producers:
        each.writer.write(b"set jobs 0 0 1\r\nx\r\n")
    for _ in range(steps):
        await asyncio.sleep(0)
    is_answered = not peer.has_heard_nothing()
    peer.writer.transport.abort()
    for each in producers:
        assert await each.line() == b"STORED\r\n"
    await until(lambda: waiting(web) == [0] * SLICES)
    # What was on its way to the client as it hung up may be leased to it.
    await until(lambda: sum(counts(web, b"jobs")) >= SLICES - 1)
    rest = await lease(web, "?count=9")
    assert len(rest) >= SLICES - 1
    assert {each["attempts"] for each in rest} == {0}
    assert not is_answered or len(rest) == SLICES - 1


async def test_a_hang_up_before_any_item_ends_all_waits(web: SlicedWeb) -> None:
    peer = await web.raw(WAIT)
    await until(lambda: waiting(web) == [1] * SLICES)
    peer.writer.transport.abort()
    await until(lambda: waiting(web) == [0] * SLICES)
    for key in keys(web):
        await put(web, f"?key={key}")
    rows = await lease(web, "?count=9")
    assert [each["attempts"] for each in rows] == [0] * SLICES


async def test_a_bad_request_is_refused_once_and_takes_nothing(web: SlicedWeb) -> None:
    for key in keys(web):
        await put(web, f"?key={key}")
    for query in ("count=0", "count=101", "count=x", "wait=x", "wait=61s", "count=1&count=2",
                  "lease=0", "what=1", "lease=x&wait=5s"):  # fmt: skip
        said = await web.client.post(f"{JOBS}/leases?{query}")
        assert said.status_code == 400, query
    said = await web.client.post(f"{JOBS}/leases?count=2", headers=RAW)
    assert said.status_code == 400
    said = await web.client.post(f"{JOBS}/leases", content=b"body")
    assert said.status_code == 400
    assert counts(web, b"jobs") == [1] * SLICES


async def test_a_slice_that_is_away_is_left_out_while_others_have_items(web: SlicedWeb) -> None:
    for key in keys(web):
        await put(web, f"?key={key}")
    await web.slices[2].stop()
    rows = await lease(web, "?count=9")
    assert len(rows) == SLICES - 1
    for query in ("", "?wait=5s"):
        said = await web.client.post(f"{JOBS}/leases{query}")
        assert said.status_code == 503
        assert said.json()["description"] == "slice 2 does not serve: ended with code 1"
    assert waiting_of(web) == {1: 0, 3: 0}
    said = await web.client.get("/admin/queues/jobs")
    assert said.status_code == 503


def waiting_of(web: SlicedWeb) -> dict[int, int]:
    found = dict[int, int]()
    for number, each in web.slices.items():
        queue = each.daemon.broker.queues.get(b"jobs") if each.daemon is not None else None
        if queue is not None:
            found[number] = queue.reader.waiters.count
    return found


async def test_a_slice_that_ends_in_a_wait_ends_the_wait(web: SlicedWeb) -> None:
    asking = await all_wait(web)
    daemon = web.slices[2].daemon
    assert daemon is not None
    daemon._http.abort()  # as a kill does
    assert (await asking).status_code == 502
    await until(lambda: waiting(web) == [0] * SLICES)


async def test_each_slice_of_another_member_is_asked_first_in_its_turn(web: SlicedWeb) -> None:
    web.elsewhere = {1: Member("b", "host-b:1"), 2: Member("b", "host-b:1")}
    for each in web.slices.values():
        producer = await each.memcache()
        assert await producer.ask(b"set jobs 0 0 1\r\nx\r\n" * 16) == b"STORED\r\n"
    taken = set[int]()
    for _ in range(2 * FOREIGN_FIRST):
        for row in await lease(web):
            token = int(str(row["token"]))
            taken.add(web.placement.slice_of_token(b"jobs", token))
            assert (await web.client.delete(f"{JOBS}/leases/{token}")).status_code == 204
    assert taken == {1, 2, 3}
