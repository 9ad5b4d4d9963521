"""Retention in a log that several subscriptions share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from journal.write.segment_file import Sizes
from tests.support import server_harness
from tests.support.server_harness import ServerHarness
from tests.support.tidying import reclaim, tidy
from tests.unit.core.queue.test_retention import fill, log_of, markers, put, seen, take


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Iterator[ServerHarness]:
    monkeypatch.setattr(server_harness, "_SIZES", Sizes(2048, 4096, 1 << 20))
    stage = ServerHarness()
    stage.set_queue(retain="10s")
    assert stage.say("cons", b"get jobs+audit") == b"END\r\n"
    yield stage


def seen_by_child(stage: ServerHarness) -> list[bytes]:
    said = stage.say("eye", b"gets jobs+audit/peek/after=0/n=1000")
    return said.split(b"\r\n")[1:-2:2]


def drain(stage: ServerHarness, name: bytes, count: int) -> None:
    for _ in range(count):
        said = stage.say("cons", b"get " + name)
        while not said:
            stage.work()
            said = stage.client("cons").take()
        assert said.startswith(b"VALUE")


def test_a_segment_goes_when_every_reader_is_done_and_its_time_is_over(
    stage: ServerHarness,
) -> None:
    fill(stage, 60)
    take(stage, 60)
    stage.pass_time(20_000)
    tidy(stage, log_of(stage))
    tidy(stage, log_of(stage))
    assert markers(stage)["marker_earliest"] == 1, "the child has not read it"
    drain(stage, b"jobs+audit", 60)
    reclaim(stage, log_of(stage))
    assert markers(stage)["marker_earliest"] > 20
    fill(stage, 30, 61)
    take(stage, 30)
    drain(stage, b"jobs+audit", 30)
    reclaim(stage, log_of(stage))
    assert [m for m, _, _ in seen(stage, 60)] == list(range(61, 91)), "their time is not over"


@pytest.mark.parametrize("how", ["restart", "kill", "cut_power"])
@pytest.mark.parametrize("tidies", [0, 2])
def test_what_is_put_for_a_child_alone_is_seen_there_alone(
    stage: ServerHarness, how: str, tidies: int
) -> None:
    put(stage, b"all")
    put(stage, b"own", key=b"jobs+audit")
    put(stage, b"more")
    take(stage, 1)
    before = [(1, b"done", b"all"), (3, b"ready", b"more")]
    for _ in range(tidies):
        tidy(stage, log_of(stage))
    assert seen(stage) == before
    assert seen_by_child(stage) == [b"all", b"own", b"more"]
    getattr(stage, how)()
    assert seen(stage) == before
    assert seen_by_child(stage) == [b"all", b"own", b"more"]
    drain(stage, b"jobs+audit", 3)
    assert seen_by_child(stage) == []
    assert seen(stage) == before


@pytest.mark.parametrize("how", ["restart", "kill", "cut_power"])
@pytest.mark.parametrize("tidies", [0, 1])
@pytest.mark.parametrize("passes_on", [False, True])
def test_what_is_delayed_has_its_marker_whoever_gets_it(
    stage: ServerHarness, how: str, tidies: int, passes_on: bool
) -> None:
    if passes_on:
        stage.set_queue(fanout_only=True)
        stage.restart()
    put(stage, b"first")
    put(stage, b"later", key=b"jobs/delay=2s")
    if not passes_on:
        assert stage.say("prod", b"flush jobs") == b"END\r\n"
    assert seen(stage) == [(1, b"done", b"first")]
    for _ in range(tidies):
        tidy(stage, log_of(stage))
    stage.pass_time(2000)
    put(stage, b"last")
    before = seen(stage)
    assert [(m, body) for m, _, body in before] == [(1, b"first"), (3, b"later"), (4, b"last")]
    getattr(stage, how)()
    assert seen(stage) == before
    drain(stage, b"jobs+audit", 3)
    assert [m for m, _, _ in seen(stage)] == [1, 3, 4]


@pytest.mark.parametrize("how", ["restart", "kill"])
def test_it_stays_so_when_its_segment_goes_or_is_rewritten(
    monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr(server_harness, "_SIZES", Sizes(16 << 10, 16 << 10, 1 << 20))
    stage = ServerHarness()
    stage.set_queue(retain="5s")
    assert stage.say("cons", b"get jobs+audit") == b"END\r\n"
    fill(stage, 10)
    put(stage, b"own", key=b"jobs+audit")
    put(stage, b"due", key=b"jobs+audit/delay=900s")
    put(stage, b"last")
    fill(stage, 200)
    take(stage, 211)
    drain(stage, b"jobs+audit", 10)
    assert stage.say("hold", b"gets jobs+audit/open").startswith(b"VALUE")  # 11, its own
    drain(stage, b"jobs+audit", 201)
    for _ in range(3):
        tidy(stage, log_of(stage))
    stage.pass_time(6000)
    fill(stage, 200)
    tidy(stage, log_of(stage))
    after = [m for m, _, _ in seen(stage)]
    assert after[0] > 50
    assert not {0, 11, 12} & {*stage.queue("jobs").readable, *after}
    getattr(stage, how)()
    assert [m for m, _, _ in seen(stage)] == after
    assert not {11, 12} & {*stage.queue("jobs").readable}
    assert b"own" in seen_by_child(stage)


def test_what_a_child_puts_off_is_seen_once_after_a_start(stage: ServerHarness) -> None:
    put(stage, b"later", key=b"jobs/delay=1s")
    stage.pass_time(1000)
    put(stage, b"next")
    assert stage.say("prod", b"flush jobs") == b"END\r\n"
    assert stage.say("hold", b"get jobs+audit/open").startswith(b"VALUE")
    assert stage.say("hold", b"get jobs+audit/abort/delay=1s") == b"END\r\n"
    stage.pass_time(1000)
    before = seen(stage)
    assert [(m, body) for m, _, body in before] == [(2, b"later"), (3, b"next")]
    stage.kill()
    assert seen(stage) == before


@pytest.mark.parametrize("restarts", [False, True])
def test_retain_begins_with_what_the_queue_itself_has(stage: ServerHarness, restarts: bool) -> None:
    stage.set_queue(retain="none")
    put(stage, b"own", key=b"jobs+audit")
    put(stage, b"done")
    put(stage, b"waits")
    take(stage, 1)
    tidy(stage, log_of(stage))
    stage.set_queue(retain="10s")
    if restarts:
        stage.kill()
    assert seen(stage) == [(3, b"ready", b"waits")]
    take(stage, 1)
    assert seen(stage) == [(3, b"done", b"waits")]


# -- what a child begins with ---------------------------------------------------------------------


def late_has(stage: ServerHarness, count: int) -> list[bytes]:
    """Take `count` items from the child `late`; return their bodies."""
    bodies = []
    for _ in range(count):
        said = stage.say("late", b"get jobs+late")
        while not said:
            stage.work()
            said = stage.client("late").take()
        bodies.append(said.split(b"\r\n")[1])
    return bodies


@pytest.mark.parametrize("how", ["", "restart", "kill", "cut_power"])
@pytest.mark.parametrize("since", [False, True])
def test_a_child_begins_with_what_is_retained_sorted_by_marker(
    stage: ServerHarness, how: str, since: bool
) -> None:
    put(stage, b"1")
    stage.pass_time(2000)
    since_s = stage.unix_ms // 1000
    put(stage, b"2")
    put(stage, b"later", key=b"jobs/delay=1s")
    put(stage, b"own", key=b"jobs+audit")
    put(stage, b"3")
    stage.pass_time(1000)
    take(stage, 4)
    drain(stage, b"jobs+audit", 5)
    begin = b"since=%d" % since_s if since else b"from=2"
    assert b"\r\n2\r\n" in stage.say("late", b"get jobs+late/%b/peek" % begin)
    if how:
        getattr(stage, how)()
    assert late_has(stage, 3) == [b"2", b"3", b"later"]
    assert stage.say("late", b"get jobs+late") == b"END\r\n"


def _lived(monkeypatch: pytest.MonkeyPatch) -> ServerHarness:
    """Most of 200 items are done and retained; segments will be rewritten when that is over."""
    monkeypatch.setattr(server_harness, "_SIZES", Sizes(16 << 10, 16 << 10, 1 << 20))
    stage = ServerHarness()
    stage.set_queue(retain="10s")
    put(stage, b"due", key=b"jobs/delay=900s")
    fill(stage, 200)
    for _ in range(3):
        take(stage, 60)
        put(stage, b"stays", key=b"jobs/delay=900s")
        tidy(stage, log_of(stage))
    return stage


@pytest.mark.parametrize("how", ["", "restart", "kill"])
@pytest.mark.parametrize("meanwhile", [False, True])
def test_what_a_child_began_with_is_not_left_out_by_a_rewriting(
    monkeypatch: pytest.MonkeyPatch, how: str, meanwhile: bool
) -> None:
    stage = _lived(monkeypatch)
    seen_before: list[bytes] = []

    def name() -> None:
        seen_before.extend(body for _, _, body in seen(stage))
        said = stage.say("late", b"get jobs+late/from=0/peek")
        assert said.startswith((b"VALUE", b"END")), said

    def name_before_it_is_over() -> None:
        name()
        stage.pass_time(11_000)

    if meanwhile:
        stage.pass_time(11_000)
        tidy(stage, log_of(stage), meanwhile=name)
    else:
        tidy(stage, log_of(stage), before=name_before_it_is_over)
    assert seen_before, "nothing was rewritten"
    tidy(stage, log_of(stage))
    if how:
        getattr(stage, how)()
    ready = stage.queue("jobs+late").reader.ready.count
    had = late_has(stage, ready)
    assert len(had) == ready and stage.say("late", b"get jobs+late") == b"END\r\n"
    if not meanwhile:
        assert had == seen_before
    assert set(had) <= set(seen_before)
