"""The memory of all HTTP connections together."""

from __future__ import annotations

import asyncio

import pytest

from kestrelpy.http import memory
from kestrelpy.http.memory import SMALL_BYTES, HttpMemory, Share

KIB = SMALL_BYTES  # none of these is small

def test_one_connection_may_always_go_on() -> None:
    budget = HttpMemory(lambda: 10 * KIB)
    one, other = Share(budget), Share(budget)
    assert one.hold(8 * KIB)
    assert not other.hold(3 * KIB)
    assert not one.hold(3 * KIB) or not other.held
    one.shrink(0)
    assert other.hold(300 * KIB)
    assert other.hold(300 * KIB)
    assert not one.hold(1 * KIB)
    other.shrink(0)
    assert budget.used == 0


async def test_those_that_wait_for_room_go_on_in_sequence() -> None:
    budget, order = HttpMemory(lambda: 10 * KIB), list[int]()
    first = Share(budget)
    assert first.hold(10 * KIB)

    async def reserve(number: int) -> None:
        share = Share(budget)
        assert await share.reserve(6 * KIB)
        order.append(number)
        await asyncio.sleep(0)
        share.shrink(0)

    tasks = [asyncio.ensure_future(reserve(number)) for number in range(5)]
    await asyncio.sleep(0)
    assert order == []
    first.shrink(0)
    await asyncio.gather(*tasks)
    assert order == list(range(5))
    assert budget.used == 0


async def test_a_wait_for_room_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "ROOM_SECONDS", 0.01)
    budget = HttpMemory(lambda: 10 * KIB)
    first, second = Share(budget), Share(budget)
    assert first.hold(10 * KIB)
    assert not await second.reserve(2 * KIB)
    assert second.held == 0


def test_a_small_request_has_room_beside_large_ones() -> None:
    budget = HttpMemory(lambda: SMALL_BYTES * 4)
    large, small = Share(budget), Share(budget)
    assert large.hold(SMALL_BYTES * 4)
    assert small.hold(SMALL_BYTES)
    assert not small.hold(1)
    assert sum(Share(budget).hold(SMALL_BYTES) for _ in range(9)) == 3
