"""A request within the turns of the server."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kestrelpy.access import Grant, Role
from kestrelpy.core.index.waiters import Want
from kestrelpy.errors import NoRoomYet, ServerError
from kestrelpy.http.answers import HttpError
from kestrelpy.http.call import Call, Gone
from kestrelpy.http.memory import HttpMemory, Share
from kestrelpy.operations import PAUSE, Gate, Rests
from tests.support.server_harness import ServerHarness


def call() -> Call:
    host: Any = SimpleNamespace(
        broker=None, now_ms=lambda: 1000, turn=SimpleNamespace(schedule=lambda: None)
    )
    return Call(host, "http test", Share(HttpMemory(lambda: 1 << 20)))


async def begun(waits: Any) -> asyncio.Task[Any]:
    task = asyncio.ensure_future(waits)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return cast("asyncio.Task[Any]", task)


async def test_until_returns_when_the_record_is_stored() -> None:
    one, gate = call(), Gate()
    task = await begun(one.until(Rests(gate, 1)))
    one.flush(1)
    await asyncio.sleep(0)
    assert not task.done()
    assert gate.waiting_stored == {one}
    gate.open()
    one.flush(2)
    await task


@pytest.mark.parametrize(("stored", "written"), [(1, 0), (0, 1), (1, 1), (1, 2)])
async def test_until_returns_when_the_log_is_stored_and_written_as_far_as_it_says(
    stored: int, written: int
) -> None:
    """A confirm rests on what is written, a put on what is stored."""
    one, gate = call(), Gate()
    task = await begun(one.until(Rests(gate, stored, written)))
    for lsn_written, lsn_stored in ((1, 0), (1, 1), (2, 1)):
        is_true = gate.lsn_stored >= stored and gate.lsn_written >= written
        assert task.done() is is_true
        if is_true:
            break
        waiting = gate.waiting_stored if gate.lsn_stored < stored else gate.waiting_written
        assert waiting == {one}
        waiting.clear()
        gate.lsn_written, gate.lsn_stored = lsn_written, lsn_stored
        one.flush(lsn_written + lsn_stored)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert task.done()
    await task


@pytest.mark.parametrize("rests", [(1, 0), (0, 1)], ids=["stored", "written"])
async def test_until_raises_when_the_log_has_failed(rests: tuple[int, int]) -> None:
    one, gate = call(), Gate()
    task = await begun(one.until(Rests(gate, *rests)))
    gate.failure = OSError("gone")
    one.flush(1)
    with pytest.raises(ServerError, match="gone"):
        await task


async def test_a_client_that_hangs_up_ends_each_wait() -> None:
    one = call()
    task = await begun(one.until(Rests(Gate(), 1)))
    one.hang_up()
    with pytest.raises(Gone):
        await task
    with pytest.raises(Gone):
        await one.until(Rests(Gate(), 1))


async def test_long_work_leaves_turns_to_others() -> None:
    steps, seen = 0, 0

    def work() -> Any:
        nonlocal steps
        while steps < 5:
            steps += 1
            yield PAUSE
        return "done"

    async def other() -> None:
        nonlocal seen
        while steps < 5:
            seen = max(seen, steps)
            await asyncio.sleep(0)

    task = await begun(other())
    assert await call().run(work()) == "done"
    await task
    assert seen >= 3


async def test_a_call_without_room_executes_its_act_again_when_the_journal_wakes_it() -> None:
    one, waiting, acts = call(), dict[object, None](), 0

    def act() -> str:
        nonlocal acts
        acts += 1
        if acts < 3:
            raise NoRoomYet(waiting, b"jobs")
        return "stored"

    task = await begun(one.with_room(act))
    for wakes in (1, 2):
        one.flush(1)  # somebody else's turn
        await asyncio.sleep(0)
        assert (acts, list(waiting)) == (wakes, [one])
        waiting.clear()
        one.flush(2)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert await task == "stored"
    assert not waiting


async def test_a_client_that_hangs_up_waits_for_room_no_more() -> None:
    one, waiting = call(), dict[object, None]()
    task = await begun(one.room_in(waiting))
    assert list(waiting) == [one]
    one.hang_up()
    with pytest.raises(Gone):
        await task
    assert not waiting


@pytest.mark.parametrize("has_begun", [False, True])
async def test_who_loses_the_right_while_waiting_for_room_stores_nothing(has_begun: bool) -> None:
    one, waiting, acts = call(), dict[object, None](), 0

    def act() -> None:
        nonlocal acts
        acts += 1
        raise NoRoomYet(waiting, b"jobs")

    task = await begun(one.with_room(act))
    one.has_begun = has_begun
    one._is_revoked = True
    one.flush(1)
    if has_begun:
        with pytest.raises(Gone):
            await task
    else:
        with pytest.raises(HttpError, match="may do that no more"):
            await task
    assert acts == 1
    assert not waiting


async def test_a_wait_whose_rights_are_gone_takes_no_item_before_it_is_refused() -> None:
    stage = ServerHarness()
    assert b"END" in stage.say("other", b"get jobs")
    host: Any = SimpleNamespace(
        broker=stage.broker, now_ms=lambda: stage.now_ms,
        turn=SimpleNamespace(schedule=lambda: None),
        logins=SimpleNamespace(are_needed=True, is_current=lambda grant: False),
    )  # fmt: skip
    one = Call(host, "http test", Share(HttpMemory(lambda: 1 << 20)))
    one.admit(Grant("anna", Role.ADMIN, "*"), is_open=False)
    task = await begun(one.wait(Want.OPEN, b"jobs", stage.now_ms + 60_000, lease_ms=60_000))
    assert one.bar()
    stage.store(b"second")
    assert b"second" in stage.say("other", b"get jobs/open")
    one.refuse()
    with pytest.raises(HttpError, match="may do that no more"):
        await task


@pytest.mark.parametrize("what", ["a slice", "a read", "room", "a sync"])
@pytest.mark.parametrize("has_begun", [False, True])
async def test_who_loses_the_right_during_work_is_shown_nothing_of_it(
    what: str, has_begun: bool
) -> None:
    one, steps, waiting, gate = call(), list[str](), dict[object, None](), Gate()
    read = SimpleNamespace(is_over=False)
    cast("Any", one.host).start_read = lambda *_: None

    def work() -> Any:
        steps.append("begun")
        if what == "a read":
            one.start_read(cast("Any", gate), cast("Any", read))
        elif what == "room":
            one.await_room(waiting)
        elif what == "a sync":
            one.await_stored(cast("Any", gate), 1)
        one._is_revoked = True
        yield PAUSE
        steps.append("shown")

    one.has_begun = has_begun
    task = await begun(one.run(work()))
    read.is_over = True
    waiting.clear()
    gate.open()
    one.flush(1)
    with pytest.raises(Gone if has_begun else HttpError):
        await task
    assert steps == ["begun"]


async def test_room_that_comes_after_the_client_has_gone_is_given_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = call()

    async def reserve(self: Share, size: int) -> bool:
        one.is_gone = True
        return self.hold(size)

    monkeypatch.setattr(Share, "reserve", reserve)
    with pytest.raises(Gone):
        await one.reserve(50)
    assert one.share.held == 0
