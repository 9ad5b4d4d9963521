"""A duration runs on a clock that is never set, a date follows the wall clock both ways.

    delay=, the delay of a give-back,      over when so much time has passed, whatever
    retry_delay, a lease by token, t=      the clock says
    at=, an expiry, max_age                over when the clock says so

One rule: a step of the clock while the server runs moves dates and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from tests.support.server_harness import WALL_MS, ServerHarness

LASTS_MS: Final = 60_000
STEP_MS: Final = 40_000
NAMES: Final = (b"jobs", b"jobs+kid")
END: Final = b"END\r\n"


def put(stage: ServerHarness, options: bytes = b"", expiry: int = 0) -> None:
    assert stage.say("eve", b"set jobs%b 0 %d 1" % (options, expiry), b"x") == b"STORED\r\n"


def put_late(stage: ServerHarness, name: bytes) -> None:
    put(stage, b"/delay=60s")


def put_for_a_date(stage: ServerHarness, name: bytes) -> None:
    put(stage, b"/at=%d" % ((WALL_MS + LASTS_MS) // 1000))


def give_back_late(stage: ServerHarness, name: bytes) -> None:
    put(stage)
    stage.say("kim", b"get " + name + b"/open")
    assert stage.say("kim", b"get " + name + b"/defer/delay=60s") == END


def give_back_for_a_date(stage: ServerHarness, name: bytes) -> None:
    put(stage)
    stage.say("kim", b"get " + name + b"/open")
    at = b"%d" % ((WALL_MS + LASTS_MS) // 1000)
    assert stage.say("kim", b"get " + name + b"/defer/at=" + at) == END


def retry(stage: ServerHarness, name: bytes) -> None:
    stage.set_queue(retry_delay="60s")
    put(stage)
    stage.say("kim", b"get " + name + b"/open")
    assert stage.say("kim", b"get " + name + b"/abort") == END


def lease(stage: ServerHarness, name: bytes) -> None:
    put(stage)
    assert stage.say("kim", b"gets " + name + b"/open/lease=60s").startswith(b"VALUE")


def renew(stage: ServerHarness, name: bytes) -> None:
    put(stage)
    said = stage.say("kim", b"gets " + name + b"/open/lease=5s")
    line = b"touch " + name + b"/token=" + said.split()[4] + b" 60"
    assert stage.say("kim", line) == b"TOUCHED\r\n"


def lease_by_connection(stage: ServerHarness, name: bytes) -> None:
    stage.set_queue(lease="60s")
    put(stage)
    assert stage.say("kim", b"get " + name + b"/open").startswith(b"VALUE")


DURATIONS: Final[dict[str, Callable[[ServerHarness, bytes], None]]] = {
    "a delay": put_late, "a delay of a give-back": give_back_late, "a retry": retry,
    "a lease by token": lease, "a renewed lease": renew,
    "a lease by connection": lease_by_connection,
}  # fmt: skip
DATES: Final[dict[str, Callable[[ServerHarness, bytes], None]]] = {
    "a date": put_for_a_date, "a date of a give-back": give_back_for_a_date,
}  # fmt: skip


@pytest.fixture
def stage() -> ServerHarness:
    made = ServerHarness()
    made.say("eve", b"get jobs+kid")
    return made


def step(stage: ServerHarness, by_ms: int) -> None:
    """Set the clock, and let the server see that."""
    stage.broker.step_clock(stage.broker.clock.offset_ms + by_ms)
    stage.work()


def is_there(stage: ServerHarness, name: bytes) -> bool:
    return stage.say("eye", b"get " + name + b"/peek") != END


def comes_after(stage: ServerHarness, name: bytes) -> int:
    """After how many seconds is the item there?"""
    for second in range(200):
        if is_there(stage, name):
            return second
        stage.pass_time(1000)
    raise AssertionError("it never came")


@pytest.mark.parametrize("by_ms", [-STEP_MS, STEP_MS])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", DURATIONS)
def test_a_duration_does_not_follow_the_clock(
    stage: ServerHarness, kind: str, name: bytes, by_ms: int
) -> None:
    DURATIONS[kind](stage, name)
    step(stage, by_ms)
    assert comes_after(stage, name) in (LASTS_MS // 1000, LASTS_MS // 1000 + 1)


@pytest.mark.parametrize("by_ms", [-STEP_MS, STEP_MS])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", DATES)
def test_a_date_follows_the_clock(
    stage: ServerHarness, kind: str, name: bytes, by_ms: int
) -> None:
    DATES[kind](stage, name)
    step(stage, by_ms)
    lasts_s = (LASTS_MS - by_ms) // 1000
    assert comes_after(stage, name) in (lasts_s, lasts_s + 1)


@pytest.mark.parametrize("by_ms", [-STEP_MS, STEP_MS])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ["expiry", "max_age"])
def test_a_life_follows_the_clock(
    stage: ServerHarness, kind: str, name: bytes, by_ms: int
) -> None:
    if kind == "max_age":
        stage.set_queue(max_age="60s")
    put(stage, expiry=60 if kind == "expiry" else 0)
    step(stage, by_ms)
    stage.pass_time(LASTS_MS - by_ms - 1000)
    assert is_there(stage, name)
    stage.pass_time(2000)
    assert not is_there(stage, name)


@pytest.mark.parametrize("by_ms", [-STEP_MS, STEP_MS])
@pytest.mark.parametrize("name", NAMES)
def test_a_wait_does_not_follow_the_clock(stage: ServerHarness, name: bytes, by_ms: int) -> None:
    stage.send("kim", b"get " + name + b"/t=60s\r\n")
    step(stage, by_ms)
    stage.pass_time(LASTS_MS - 1)
    assert stage.client("kim").take() == b""
    stage.pass_time(1)
    assert stage.client("kim").take() == END
