"""Blocking work on a thread that nobody has to wait for."""

from __future__ import annotations

import threading

import pytest

from kestrelpy.aside import TookTooLong, run_aside


async def test_its_result_and_its_error_come_back() -> None:
    assert await run_aside(lambda: 7, 10) == 7
    with pytest.raises(ValueError, match="base 10"):
        await run_aside(lambda: int("seven"), 10)
    with pytest.raises(TimeoutError):
        await run_aside(_times_out, 10)


def _times_out() -> None:
    raise TimeoutError("the work's own")


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
