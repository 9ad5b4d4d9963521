"""The journal view: whole at first, then a bounded slice a tick."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from kestrelpy.http.live.journal_walk import SLICES_PER_TICK, JournalWalk
from kestrelpy.operations.lists import journals
from tests.support.http_client import Web, web

surveying = import_module("kestrelpy.operations.lists.survey")  # the package has its function
QUEUES = 3000
IN_MEMORY = "[queue_defaults]\ndurable = false\n"


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count the looks at the state of a queue, and at its journal."""
    seen = Counter[str]()

    def counted(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def look(*arguments: Any) -> Any:
            seen[name] += 1
            return real(*arguments)

        return look

    monkeypatch.setattr(surveying, "queue_state", counted("states", surveying.queue_state))
    monkeypatch.setattr(journals, "on_disk", counted("journals", journals.on_disk))
    return seen


async def store_in(server: Web, *names: str) -> None:
    """Store an item in each of these queues."""
    wire = await server.memcache()
    for name in names:
        assert await wire.ask(f"set {name} 0 0 1\r\nx\r\n".encode()) == b"STORED\r\n"
    wire.writer.close()


async def test_a_tick_looks_at_a_bounded_part_of_many_journals(
    tmp_path: Path, looked: Counter[str]
) -> None:
    async with web(tmp_path, IN_MEMORY) as server:
        await store_in(server, *(f"q{number}" for number in range(QUEUES)))
        live, walk = server.live, JournalWalk()
        call = live._call
        assert (await walk.totals(call, 1)).queues.queues == QUEUES
        assert looked["states"] == looked["journals"] == QUEUES, "the first look is whole"
        await store_in(server, "new")
        ticks, most = 1, 0
        while (await walk.totals(call, ticks)).queues.queues == QUEUES:
            looked.clear()
            await walk.totals(call, ticks := ticks + 1)
            most = max(most, looked["states"])
            assert max(looked.values()) <= SLICES_PER_TICK * 1000
            assert ticks < QUEUES
            looked.clear()
            await walk.totals(call, ticks)
            assert not looked, "another view of the same tick looks at nothing"
        assert 0 < most <= SLICES_PER_TICK * surveying.QUEUES_PER_SLICE


async def test_totals_that_nobody_watched_are_counted_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with web(tmp_path) as server:
        await store_in(server, "one")
        walk, call = JournalWalk(), server.live._call
        assert (await walk.totals(call, 1)).segments.segments == 1
        await store_in(server, "two")
        monkeypatch.setattr(walk, "_seen_ms", call.now_ms() - 60_000)
        again = await walk.totals(call, 1)
        assert (again.queues.queues, again.segments.segments) == (2, 2)
