"""Blocking work on a thread: its caller and the end of the process need not wait for it."""

from __future__ import annotations

import asyncio
import threading

import pytest

from kestrelpy.aside import TookTooLong, both, run_aside, run_aside_until


async def test_its_result_and_its_error_come_back() -> None:
    assert await run_aside(lambda: 7, 10) == 7
    with pytest.raises(ValueError, match="base 10"):
        await run_aside(lambda: int("seven"), 10)
    with pytest.raises(TimeoutError):
        await run_aside(_times_out, 10)


def _times_out() -> None:
    raise TimeoutError("the work's own")


async def test_a_result_that_comes_with_the_end_of_its_time_comes_back() -> None:
    gate, left = threading.Event(), threading.Event()

    def work() -> int:
        gate.wait()
        return 7

    def meet() -> None:
        """Hold the loop until both the result and the end of the time are there."""
        gate.set()
        left.wait(0.05)

    running = asyncio.create_task(run_aside(work, 0.01))
    await asyncio.sleep(0)
    asyncio.get_running_loop().call_soon(meet)

    assert await running == 7


async def test_work_that_does_not_end_is_left_behind_on_a_thread_of_no_weight() -> None:
    gate, found = threading.Event(), list[threading.Thread]()

    def blocked() -> None:
        found.append(threading.current_thread())
        gate.wait(30)

    with pytest.raises(TookTooLong):
        await run_aside(blocked, 0.01)
    assert found[0].daemon
    assert await run_aside(lambda: "later work goes on", 10)
    gate.set()
    found[0].join(10)


async def test_work_is_waited_for_until_the_caller_is_to_end() -> None:
    gate, ending = threading.Event(), asyncio.Event()
    assert await run_aside_until(lambda: 7, ending, 0.01) == 7
    with pytest.raises(ValueError, match="base 10"):
        await run_aside_until(lambda: int("seven"), ending, 0.01)
    waiting = asyncio.create_task(run_aside_until(lambda: gate.wait(30), ending, 0.01))
    await asyncio.sleep(0.05)
    assert not waiting.done()

    ending.set()

    with pytest.raises(TookTooLong):
        await waiting
    gate.set()
    assert await run_aside_until(lambda: 7, ending, 10) == 7


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize("failing", [None, "first", "second"])
async def test_both_end_before_an_error_is_raised(failing: str | None, at_once: bool) -> None:
    begun, ended = list[str](), list[str]()

    async def run(name: str, turns: int) -> str:
        begun.append(name)
        for _ in range(turns):
            await asyncio.sleep(0)
        ended.append(name)
        if failing == name:
            raise ValueError(name)
        return name

    running = both(lambda: run("first", 1), lambda: run("second", 5), at_once=at_once)
    if failing is None:
        assert await running == ("first", "second")
    else:
        with pytest.raises(ValueError, match=failing):
            await running
    assert sorted(ended) == sorted(begun)
    assert len(begun) == (1 if failing == "first" and not at_once else 2)
