"""The age of a queue counts from the date in the name of its folder, and over each restart."""

from __future__ import annotations

import pytest

from tests.support.server_harness import WALL_MS, ServerHarness

HOUR_MS = 3_600_000


def stage_with_an_empty_queue() -> ServerHarness:
    stage = ServerHarness()
    stage.set_queue(max_queue_age="10s")
    stage.store(b"1")
    stage.say("a", b"get jobs")
    return stage


def test_the_generation_of_a_queue_is_the_second_of_its_creation_by_the_clock() -> None:
    stage = stage_with_an_empty_queue()
    assert stage.queue("jobs").generation == WALL_MS // 1000


def test_the_age_of_a_queue_that_was_just_made_goes_on_over_a_restart() -> None:
    stage = stage_with_an_empty_queue()
    stage.pass_time(8_000)

    stage.restart()

    stage.pass_time(1_999)
    assert b"jobs" in stage.broker.queues
    stage.pass_time(1)
    assert b"jobs" not in stage.broker.queues


@pytest.mark.parametrize("back_ms", [11_000, HOUR_MS])
def test_a_queue_made_later_than_the_clock_says_is_as_old_as_the_process(
    back_ms: int,
) -> None:
    stage = stage_with_an_empty_queue()
    stage.first_ms += back_ms  # somebody sets the clock back while the server is down

    stage.restart()

    stage.pass_time(9_999)
    assert b"jobs" in stage.broker.queues
    stage.pass_time(1)
    assert b"jobs" not in stage.broker.queues
