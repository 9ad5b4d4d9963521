"""Leases for an HTTP client come behind those who waited before, and from disk as well.

Promise: http-waiters.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kestrelpy.http.call import Call
from kestrelpy.operations import Leasing
from tests.support.http_client import web


async def test_items_that_are_only_on_disk_are_read(tmp_path: Path) -> None:
    config = '[queue_defaults]\nmax_memory = 1\n'
    async with web(tmp_path, config) as server:
        for number in range(30):
            await server.client.post("/queues/jobs/items", content=b"%d" % number)
        got = (await server.client.post("/queues/jobs/leases?count=20")).json()["leases"]
        assert [int(each["body"]) for each in got] == list(range(20))


async def test_an_answer_ends_with_the_body_for_which_there_is_no_room(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        for _ in range(3):
            await server.client.post("/queues/jobs/items", content=b"x" * (3 << 20))
        for count in (2, 1):
            got = (await server.client.post("/queues/jobs/leases?count=9")).json()["leases"]
            assert len(got) == count


async def test_who_waited_first_is_served_first(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        client = server.client
        first, second = (
            asyncio.ensure_future(client.post(f"/queues/jobs/leases?wait=20s&lease={n}s"))
            for n in (50, 60)
        )
        await asyncio.sleep(0.2)
        await client.post("/queues/jobs/items", content=b"a")
        await asyncio.sleep(0)
        await client.post("/queues/jobs/items", content=b"b")
        assert [(await each).json()["leases"][0]["body"] for each in (first, second)] == ["a", "b"]


async def test_the_first_mention_of_a_child_makes_it(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        client, audit = server.client, "/queues/jobs+audit/leases"
        assert (await client.post(audit)).json() == {"leases": []}
        for body in (b"a", b"b"):
            await client.post("/queues/jobs/items", content=body)
        await client.post("/queues/jobs/leases?count=2")
        got = (await client.post(f"{audit}?count=2")).json()["leases"]
        assert [each["body"] for each in got] == ["a", "b"]


async def test_a_child_that_a_mention_does_not_make_is_refused(tmp_path: Path) -> None:
    async with web(tmp_path, "[queue_defaults]\nfanout_create = false\n") as server:
        refused = await server.client.post("/queues/jobs+audit/leases")
        assert refused.status_code == 400
        assert "fanout_create is off" in refused.json()["description"]


async def test_an_item_that_expired_while_its_lease_waited_for_room_is_not_leased(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time is that after the wait: an item may have been stored and expired meanwhile."""
    async with web(tmp_path) as server:
        client, seen = server.client, list[int]()
        await client.post("/queues/jobs/items", content=b"a")
        with_room, next_of = Call.with_room, Leasing.next

        async def waits(call: Call, act: Callable[[], Any]) -> Any:
            found = await with_room(call, act)
            monkeypatch.setattr(call.host, "now_ms", lambda: later)
            return found

        def noted(*args: Any, **named: Any) -> Any:
            seen.append(args[2])
            return next_of(*args, **named)

        assert server.daemon is not None
        later = server.daemon.now_ms() + 3000
        monkeypatch.setattr(Call, "with_room", waits)
        monkeypatch.setattr(Leasing, "next", staticmethod(noted))
        await client.post("/queues/jobs/leases")
        assert seen
        assert set(seen) == {later}


@pytest.mark.parametrize("leased", [0, 1])
async def test_a_server_that_hands_out_nothing_any_more_leases_nothing_after_a_wait(
    leased: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The items that the same request leased before the wait are released."""
    async with web(tmp_path) as server:
        client, rounds, with_room = server.client, list[int](), Call.with_room
        for body in (b"a", b"b"):
            await client.post("/queues/jobs/items", content=body)
        reader = server.daemon.broker.queues[b"jobs"].reader

        async def waits(call: Call, act: Callable[[], Any]) -> Any:
            found = await with_room(call, act)
            rounds.append(1)
            if len(rounds) > leased:
                server.daemon.set_mode("quiescent")
            return found

        def next_of(*args: Any, **named: Any) -> Any:
            return leases_next(*args, **named) if len(reader.leases) < leased else None

        leases_next = Leasing.next
        monkeypatch.setattr(Call, "with_room", waits)
        if leased:  # the one after it is still being read
            monkeypatch.setattr(Leasing, "next", staticmethod(next_of))
            monkeypatch.setattr(type(reader), "is_busy", lambda *_: True)
        said = await client.post("/queues/jobs/leases?count=2")
        assert len(rounds) == leased + 1
        assert said.status_code == 503
        assert "quiescent" in said.json()["description"]
        assert len(reader.leases) == 0
        assert not reader.attempts
