"""A confirmed item stays readable by marker until its retention ends."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import suppress

import pytest

from journal.write.segment_file import Sizes
from kestrelpy.core.log.log import JournalLog
from tests.golden.build import GOLDEN, NEWEST
from tests.support import server_harness
from tests.support.memory_disk import PowerCut
from tests.support.server_harness import ServerHarness
from tests.support.tidying import reclaim, tidy

_VALUE = re.compile(rb"VALUE \S+ \d+ \d+ (\d+) \d+ (?:\d+|-) \d+ (\w+) \S+ -\r\n([^\r]*)\r\n")


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Iterator[ServerHarness]:
    monkeypatch.setattr(server_harness, "_SIZES", Sizes(2048, 4096, 1 << 20))
    stage = ServerHarness()
    stage.set_queue(retain="forever")
    yield stage


def put(stage: ServerHarness, *bodies: bytes, key: bytes = b"jobs") -> None:
    for body in bodies:
        said = stage.say("prod", b"set %b 0 0 %d\r\n%b" % (key, len(body), body))
        assert said == b"STORED\r\n"


def take(stage: ServerHarness, count: int) -> None:
    for _ in range(count):
        assert stage.say("cons", b"get jobs").startswith(b"VALUE")


def seen(stage: ServerHarness, after: int = 0, most: int = 1000) -> list[tuple[int, bytes, bytes]]:
    """Marker, state, body of each."""
    said = stage.say("eye", b"gets jobs/peek/after=%d/n=%d/full" % (after, most))
    return [(int(m[1]), m[2], m[3]) for m in _VALUE.finditer(said)]


def markers(stage: ServerHarness) -> dict[str, int]:
    said = stage.say("eye", b"stats markers").decode()
    return {word: int(n) for word, n in re.findall(r"STAT queue_jobs_(\w+) (\d+)", said)}


def log_of(stage: ServerHarness) -> JournalLog:
    log = stage.queue("jobs").log
    assert isinstance(log, JournalLog)
    return log


def fill(stage: ServerHarness, count: int, first: int = 1) -> None:
    put(stage, *(b"%03d" % n + b"." * 37 for n in range(first, first + count)))


def test_what_is_done_is_seen_as_such(stage: ServerHarness) -> None:
    put(stage, b"one", b"two", b"three")
    take(stage, 1)
    assert stage.say("cons", b"get jobs/open").startswith(b"VALUE")
    assert seen(stage) == [(1, b"done", b"one"), (2, b"lent", b"two"), (3, b"ready", b"three")]
    assert markers(stage)["marker_earliest"] == 1


def test_without_it_what_is_done_is_gone(stage: ServerHarness) -> None:
    stage.set_queue(retain="none")
    put(stage, b"one", b"two")
    take(stage, 1)
    assert seen(stage) == [(2, b"ready", b"two")]
    assert stage.queue("jobs").readable is stage.queue("jobs").reader.live


@pytest.mark.parametrize("how", ["restart", "kill", "cut_power"])
@pytest.mark.parametrize("tidies", [0, 1, 2])
def test_a_start_finds_the_same(stage: ServerHarness, how: str, tidies: int) -> None:
    fill(stage, 60)
    put(stage, b"later", b"never", key=b"jobs/delay=3s")
    take(stage, 50)
    stage.pass_time(3000)
    put(stage, b"flushed", key=b"jobs/delay=100s")
    assert stage.say("prod", b"flush jobs") == b"END\r\n"
    put(stage, b"last")
    before, said = seen(stage), markers(stage)
    assert [m for m, _, _ in before] == [*range(1, 61), 63, 64, 66], "65 was never available"
    for _ in range(tidies):
        tidy(stage, log_of(stage))
        put(stage, b"more")
        before.append((before[-1][0] + 1, b"ready", b"more"))
    getattr(stage, how)()
    assert seen(stage) == before
    assert markers(stage)["marker_earliest"] == said["marker_earliest"] == 1
    put(stage, b"next")
    assert seen(stage, before[-1][0]) == [(before[-1][0] + 1, b"ready", b"next")]


def test_segments_go_when_their_time_is_over_and_not_before(stage: ServerHarness) -> None:
    stage.set_queue(retain="10s")
    fill(stage, 60)
    take(stage, 60)
    stage.pass_time(9000)
    tidy(stage, log_of(stage))
    tidy(stage, log_of(stage))
    assert reclaim(stage, log_of(stage)) == []
    assert len(seen(stage)) == 60
    stage.pass_time(3000)
    gone = reclaim(stage, log_of(stage))
    assert gone
    left = [m for m, _, _ in seen(stage)]
    assert left == list(range(markers(stage)["marker_earliest"], 61))
    for _ in range(6):  # the segment that is written to turns, and goes too
        stage.pass_time(4000)
        reclaim(stage, log_of(stage))
    assert seen(stage) == []
    assert markers(stage)["marker_earliest"] == 61
    assert markers(stage)["marker_latest"] == 60
    stage.restart()
    assert seen(stage) == []
    assert stage.say("eye", b"stats jobs").count(b"gaps 0") == 1


@pytest.mark.parametrize("trouble", ["", "failed", "no room"])
def test_a_log_in_trouble_gets_no_record_that_would_let_items_go(
    stage: ServerHarness, trouble: str
) -> None:
    stage.set_queue(retain="10s")
    fill(stage, 60)
    take(stage, 60)
    log = log_of(stage)
    if trouble == "failed":
        log.journal.fail("writing", "jobs", OSError(errno.EIO, "Input/output error"))
        log.advance()
    elif trouble:
        log.stall("the test", trouble)
    before = log.lsn_appended

    for _ in range(5):
        stage.pass_time(4000)

    assert (log.lsn_appended > before) is (not trouble)


def test_one_who_comes_too_late_is_shown_the_oldest_and_counted(stage: ServerHarness) -> None:
    stage.set_queue(retain="10s")
    fill(stage, 60)
    take(stage, 60)
    stage.pass_time(12_000)
    assert reclaim(stage, log_of(stage))
    fill(stage, 1, 61)
    earliest = markers(stage)["marker_earliest"]
    assert earliest > 20
    assert seen(stage, 20)[0][0] == earliest
    assert b"gaps 1\r\n" in stage.say("eye", b"stats jobs")


def test_what_is_retained_up_to_a_size_goes_oldest_first(stage: ServerHarness) -> None:
    stage.set_queue(retain="16KiB")
    for n in range(0, 400, 10):
        fill(stage, 10, n)
        take(stage, 10)
        reclaim(stage, log_of(stage))
    tidy(stage, log_of(stage))
    assert 8 << 10 < markers(stage)["kept_bytes"] < 32 << 10
    left = [m for m, _, _ in seen(stage)]
    assert left == list(range(markers(stage)["marker_earliest"], 401))
    assert 20 < len(left) < 100


def test_a_segment_whose_time_is_over_is_rewritten_with_what_is_alive(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server_harness, "_SIZES", Sizes(16 << 10, 16 << 10, 1 << 20))
    stage = ServerHarness()
    stage.set_queue(retain="5s")
    fill(stage, 300)
    put(stage, b"delayed", key=b"jobs/delay=1s")
    assert stage.say("hold", b"get jobs/open").startswith(b"VALUE")
    take(stage, 49)
    assert stage.say("held", b"get jobs/open").startswith(b"VALUE")
    stage.pass_time(1000)
    take(stage, 250)
    for _ in range(3):
        tidy(stage, log_of(stage))
    assert len(seen(stage)) == 301, "what is kept is left as it is"
    stage.pass_time(20_000)
    put(stage, b"x")
    tidy(stage, log_of(stage))  # no snapshot knows the compacted segment
    kept = seen(stage)
    assert [(m, state) for m, state, _ in kept[:2]] == [(1, b"lent"), (51, b"lent")]
    assert kept[2][0] > 90, "nothing else of their segment is kept"
    stage.kill()
    assert seen(stage)[0] == (1, b"ready", b"001" + b"." * 37)
    assert list(stage.queue("jobs").readable) == [m for m, _, _ in seen(stage)]


def test_what_went_since_the_last_snapshot_is_not_there_after_a_start(stage: ServerHarness) -> None:
    stage.set_queue(retain="5s")
    fill(stage, 60)
    take(stage, 60)
    for _ in range(2):
        tidy(stage, log_of(stage))
    stage.pass_time(7000)
    fill(stage, 10, 61)
    assert reclaim(stage, log_of(stage))
    before = markers(stage)
    assert before["marker_earliest"] > 20
    stage.kill()
    assert markers(stage)["marker_earliest"] == before["marker_earliest"]
    assert list(stage.queue("jobs").readable) == [m for m, _, _ in seen(stage)]


def test_what_was_delayed_and_went_since_the_last_snapshot_is_not_there_either(
    stage: ServerHarness,
) -> None:
    stage.set_queue(retain="5s")
    put(stage, b"later", key=b"jobs/delay=1s")
    put(stage, b"first")
    stage.pass_time(2000)
    fill(stage, 60)
    take(stage, 62)
    for _ in range(2):
        tidy(stage, log_of(stage))
    assert [m for m, _, _ in seen(stage)][:3] == [2, 3, 4], "what is due has a marker of its own"
    stage.pass_time(7000)
    fill(stage, 10, 61)
    assert reclaim(stage, log_of(stage))
    before = markers(stage)
    assert before["marker_earliest"] > 20

    stage.kill()

    assert markers(stage)["marker_earliest"] == before["marker_earliest"]
    assert seen(stage, 10)[0][0] == before["marker_earliest"]
    assert b"gaps 1\r\n" in stage.say("eye", b"stats jobs")


def test_a_longer_time_keeps_what_is_still_there(stage: ServerHarness) -> None:
    stage.set_queue(retain="5s")
    fill(stage, 30)
    take(stage, 30)
    stage.pass_time(4000)
    stage.set_queue(retain="1h")
    stage.pass_time(60_000)
    reclaim(stage, log_of(stage))
    assert len(seen(stage)) == 30
    stage.set_queue(retain="5s")
    stage.pass_time(2000)
    reclaim(stage, log_of(stage))
    assert len(seen(stage)) < 30


@pytest.mark.parametrize("retain", ["none", "4KiB", "1s"])
def test_less_lets_the_rest_go_at_once(stage: ServerHarness, retain: str) -> None:
    fill(stage, 60)
    take(stage, 60)
    tidy(stage, log_of(stage))
    tidy(stage, log_of(stage))
    stage.pass_time(5000)
    before = log_of(stage).lsn_durable
    stage.set_queue(retain=retain)
    stage.work()
    stage.pass_time(10)
    assert log_of(stage).lsn_durable > before, "a record that is synced, and what is over may go"
    assert log_of(stage).store.maintenance.wants_snapshot or retain == "1s"
    reclaim(stage, log_of(stage))
    assert len(seen(stage)) < 20


def test_off_shows_nothing_that_is_done_and_on_again_what_comes(stage: ServerHarness) -> None:
    fill(stage, 30)
    take(stage, 29)
    stage.set_queue(retain="none")
    assert [m for m, _, _ in seen(stage)] == [30]
    stage.set_queue(retain="1h")
    assert [m for m, _, _ in seen(stage)] == [30]
    take(stage, 1)
    assert seen(stage)[0][:2] == (30, b"done")


def test_what_is_past_its_expiry_is_passed_over_done_or_not(stage: ServerHarness) -> None:
    for body in (b"a", b"b"):
        assert stage.say("prod", b"set jobs 0 2 1\r\n" + body) == b"STORED\r\n"
    put(stage, b"c")
    take(stage, 1)
    assert [m for m, _, _ in seen(stage)] == [1, 2, 3]
    stage.pass_time(2000)
    assert [m for m, _, _ in seen(stage)] == [3]


def test_stats_of_an_item_say_that_it_is_retained(stage: ServerHarness) -> None:
    put(stage, b"one")
    take(stage, 1)
    said = stage.say("eye", b"stats jobs/item=1")
    assert b"STAT state done\r\n" in said
    assert b"STAT why confirmed,_expired_or_removed,_and_retained\r\n" in said
    assert b"STAT bytes 3\r\n" in said


def test_a_waiting_observer_is_notified_of_what_comes(stage: ServerHarness) -> None:
    put(stage, b"one")
    take(stage, 1)
    stage.send("eye", b"gets jobs/peek/after=1/t=5s\r\n")
    assert stage.client("eye").take() == b""
    put(stage, b"two")
    assert b"\r\ntwo\r\n" in stage.client("eye").take()


@pytest.mark.parametrize("step", range(60))
def test_the_power_may_fail_at_any_step_around_a_segments_going(step: int) -> None:
    """Wherever the disk stops, live items and those whose retention is not over are there."""
    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.setattr(server_harness, "_SIZES", Sizes(2048, 4096, 1 << 20))
    try:
        stage = ServerHarness()
        stage.set_queue(retain="5s")
        fill(stage, 40)
        take(stage, 30)
        stage.pass_time(6000)
        fill(stage, 20, 41)
        take(stage, 20)
        stage.disk.cut_power_at(step + 1)
        with suppress(PowerCut):
            for _ in range(2):
                tidy(stage, log_of(stage))
                reclaim(stage, log_of(stage))
        stage.cut_power()
        found = {marker: state for marker, state, _ in seen(stage)}
        assert all(m in found for m in range(41, 61)), "their time is not over"
        assert [m for m, state in found.items() if state == b"ready"] == list(range(51, 61))
        put(stage, b"next")
        assert seen(stage)[-1] == (61, b"ready", b"next")
    finally:
        monkeypatch.undo()


def test_the_golden_journal_of_what_is_retained_is_read_as_it_was_meant(
    stage: ServerHarness,
) -> None:
    for path in sorted((GOLDEN / NEWEST / "retained.1").iterdir()):
        data = path.read_bytes()
        stage.disk.make_folder("data/retained.1")
        stage.disk.create(f"data/retained.1/{path.name}", data, len(data)).close()
    stage.kill()
    said = stage.say("eye", b"gets retained/peek/after=0/n=9/full")
    assert [(int(m[1]), m[2], m[3]) for m in _VALUE.finditer(said)] == [
        (1, b"done", b"one"), (3, b"done", b"later"), (5, b"ready", b"ready"), (6, b"done", b"six"),
    ]  # fmt: skip
    assert b"queue_retained_marker_latest 6\r\n" in stage.say("eye", b"stats markers")


def test_a_retained_segment_is_not_rewritten_along_with_one_whose_time_is_over(
    stage: ServerHarness,
) -> None:
    stage.set_queue(retain="4s")
    fill(stage, 12)
    stage.say("one", b"get jobs/open")
    take(stage, 11)
    stage.pass_time(3000)
    fill(stage, 40, first=13)
    stage.say("two", b"get jobs/open")
    take(stage, 39)
    tidy(stage, log_of(stage))
    stage.pass_time(2000)
    put(stage, b"later")

    tidy(stage, log_of(stage))

    assert [marker for marker, _, _ in seen(stage)][-41:] == [*range(13, 54)]

    stage.pass_time(4000)
    tidy(stage, log_of(stage))
    assert [marker for marker, _, _ in seen(stage)][:2] == [1, 13], "what is lent stays"
