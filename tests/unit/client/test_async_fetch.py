"""What an asyncio worker does with the answer to its wait: the world may be another one by then."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, cast

import pytest

from kestrelpy.client import AsyncItem, AsyncWorker, LeaseLost, ServerRefusal
from kestrelpy.client.item import ItemState
from kestrelpy.wire.answers import Answer, ReceivedItem

_ITEM = [b"VALUE", b"jobs", b"0", b"1", b"7", b"0", b"0", b"0", b"leased", b"-", b"-"]


def answer(line: bytes = b"END", *, facts: int | None = None, with_item: bool = False) -> Answer:
    """Return an answer; `facts` is the id that it says."""
    made = Answer()
    made.line = line
    if facts is not None:
        made.stats.append((b"id", b"%d" % facts))
    if with_item:
        made.values.append(_ITEM)
        made.bodies.append(b"x")
    return made


class Connected:
    """A connection that is there; `meanwhile` happens while its server has no answer yet."""

    def __init__(self, *answers: Answer, meanwhile: Callable[[], object] = bool) -> None:
        self.answers, self.asked = list(answers), list[str]()
        self._meanwhile = meanwhile

    async def connect(self) -> None:
        pass

    async def ask(self, line: str) -> Answer:
        self.asked.append(line)
        await asyncio.sleep(0)
        self._meanwhile()
        return self.answers.pop(0)

    def end_wait(self) -> None:
        pass

    def close(self) -> None:
        pass


def worker_at(fetching: Connected, ending: Connected | None = None) -> AsyncWorker:
    worker = AsyncWorker("jobs")
    worker._fetching = cast(Any, fetching)
    worker._ending = cast(Any, ending or Connected())
    return worker


async def test_a_wait_that_no_item_ended_is_no_item() -> None:
    worker = worker_at(Connected(answer()))
    assert await worker.fetch() is None
    assert not worker._items


async def test_an_item_that_comes_after_a_stop_is_deferred_and_nobody_gets_it() -> None:
    def stop() -> None:
        worker.stop()

    ending = Connected(answer())
    fetching = Connected(answer(with_item=True), meanwhile=stop)
    worker = worker_at(fetching, ending)

    assert await worker.fetch() is None

    assert ending.asked == ["get jobs/defer/token=7"]
    assert (worker._items, worker._renewing) == (set(), None)


async def test_a_loop_over_a_worker_has_no_turn_without_an_item(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worker = worker_at(Connected())
    item = AsyncItem("jobs", ReceivedItem(b"x", 0, 7), cast(Any, None), cast(Any, None))
    item._state = ItemState.CONFIRMED
    found: list[AsyncItem | None] = [None, item, None]

    async def fetched(_: object) -> AsyncItem | None:
        if len(found) == 1:
            worker.stop()
        return found.pop(0)

    monkeypatch.setattr(worker, "_fetch_or_pause", fetched)
    assert [each async for each in worker] == [item]
    assert not found


def breaks() -> None:
    raise ConnectionError("cut")


@pytest.mark.parametrize("why", ["for good", "for now", "a cut"])
async def test_a_fetch_that_is_refused_for_good_ends_the_worker_and_another_waits(
    monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    is_lasting = why == "for good"
    said = b"CLIENT_ERROR forbidden: no" if is_lasting else b"SERVER_ERROR readonly: no"
    meanwhile = breaks if why == "a cut" else bool
    worker, naps = worker_at(Connected(answer(said), meanwhile=meanwhile)), list[float]()

    async def sleep(seconds: float) -> None:
        naps.append(seconds)
        worker.stop()

    monkeypatch.setattr(worker, "_sleep", sleep)
    if is_lasting:
        with pytest.raises(ServerRefusal, match="forbidden"):
            await worker.run(cast(Any, None))
    else:
        await worker.run(cast(Any, None))
    assert bool(naps) is not is_lasting


async def test_the_number_of_an_item_whose_lease_is_over_is_none() -> None:
    worker = worker_at(Connected(), Connected(answer(facts=0), answer(), answer(facts=3)))
    item = AsyncItem("jobs", ReceivedItem(b"x", 0, 7), worker._end, worker._find_number)
    for _ in range(2):
        with pytest.raises(LeaseLost, match="the lease of this item is over"):
            await item.number
    assert await item.number == 3


@pytest.mark.parametrize(("attempts", "state"), [(0, ItemState.ABORTED), (2, ItemState.BURIED)])
async def test_the_last_failure_that_the_queue_allows_is_a_dead_letter(
    attempts: int, state: ItemState
) -> None:
    settings = answer()
    settings.stats.append((b"queue_jobs_setting_max_attempts", b"3"))
    worker = worker_at(Connected(), Connected(answer(), settings))
    item = AsyncItem("jobs", ReceivedItem(b"x", 0, 7, attempts), worker._end, worker._find_number)
    item._lease_ends = time.monotonic() + 1000
    assert await worker.fail(item, "no") is state


async def test_a_failure_without_a_text_is_told_by_its_kind(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ending = Connected(answer(), answer())
    worker = worker_at(Connected(), ending)
    item = AsyncItem("jobs", ReceivedItem(b"x", 0, 7), worker._end, worker._find_number)
    item._lease_ends = time.monotonic() + 1000

    async def handle(_: AsyncItem) -> None:
        raise RuntimeError

    await worker._handle(item, handle, (RuntimeError,))
    assert caplog.messages == ["jobs: buried: RuntimeError"]
    assert ending.asked == ["get jobs/abort/dead=RuntimeError/token=7"]


async def test_an_end_that_a_broken_connection_has_not_answered_is_sent_again() -> None:
    breaks = [ConnectionError("cut")]

    def meanwhile() -> None:
        if breaks:
            raise breaks.pop()

    worker = worker_at(Connected(), Connected(answer(), meanwhile=meanwhile))
    item = AsyncItem("jobs", ReceivedItem(b"x", 0, 7), worker._end, worker._find_number)
    item._lease_ends = time.monotonic() + 1000
    await item.confirm()
    assert item._state is ItemState.CONFIRMED


async def test_items_are_renewed_again_after_a_time_without_any(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worker = worker_at(Connected(answer(with_item=True), answer(with_item=True)))
    begun = list[int]()

    async def renew_all() -> None:
        begun.append(1)

    monkeypatch.setattr(worker, "_renew_all", renew_all)
    for _ in range(2):
        assert await worker.fetch() is not None
        assert worker._renewing is not None
        await worker._renewing
    assert len(begun) == 2
    worker._items.clear()
    await worker.close()
