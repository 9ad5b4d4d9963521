"""A shortage of files: one log line at its beginning, one at its end, pauses in between."""

from __future__ import annotations

import asyncio
import errno
from typing import cast

import pytest

from kestrelpy.server.journals.shortage import PAUSE_SECONDS, PAUSE_SECONDS_MAX, Shortage
from tests.support.disk_harness import HandLoop

NONE_LEFT = OSError(errno.EMFILE, "Too many open files", "data/jobs.1/1.segment")


@pytest.fixture
def loop() -> HandLoop:
    return HandLoop()


@pytest.fixture
def shortage(loop: HandLoop) -> Shortage:
    return Shortage(cast(asyncio.AbstractEventLoop, loop))


def pass_time(loop: HandLoop) -> None:
    while loop.soon:
        call, args = loop.soon.pop(0)
        call(*args)


def test_pauses_grow_to_a_second(shortage: Shortage) -> None:
    pauses = [shortage.pause("jobs", "data", NONE_LEFT) for _ in range(20)]
    assert pauses[0] == PAUSE_SECONDS
    assert pauses == sorted(pauses)
    assert pauses[-1] == PAUSE_SECONDS_MAX
    assert shortage.pause("mail", "data", NONE_LEFT) == PAUSE_SECONDS


def test_it_is_one_story_in_the_log_however_many_wait(
    loop: HandLoop, shortage: Shortage, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    for _ in range(3):
        for queue in range(100):
            shortage.pause(queue, "data", NONE_LEFT)
    for queue in range(100):
        shortage.over(queue)
    shortage.pause("late", "data", NONE_LEFT)  # before it was over for long enough
    shortage.over("late")
    pass_time(loop)
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 2
    assert told[0].startswith("data/jobs.1/1.segment: Too many open files: ")
    assert "up to 100 waited" in told[1]
    assert shortage.count == 0


async def test_retried_work_ends_with_its_own_error(shortage: Shortage) -> None:
    errors = [NONE_LEFT, NONE_LEFT, OSError(errno.EIO, "Input/output error")]
    slept: list[float] = []

    async def work() -> None:
        raise errors.pop(0)

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    with pytest.raises(OSError, match="Input/output error"):
        await shortage.retry("data", work, sleep)
    assert len(slept) == 2
    assert shortage.count == 0
