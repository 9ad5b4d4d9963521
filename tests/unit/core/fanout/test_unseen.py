"""Items unseen by lazy children: one note for all children, which each takes in when it is read."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from kestrelpy.core.fanout.unseen import UNSEEN_MAX, Unseen
from kestrelpy.core.index.markers import Release
from tests.support.server_harness import ServerHarness


def values(answer: bytes) -> list[bytes]:
    """Return the bodies of an answer."""
    lines = answer.split(b"\r\n")
    return [body for line, body in pairwise(lines) if line[:5] == b"VALUE"]


def drained(stage: ServerHarness, name: bytes) -> list[bytes]:
    """Fetch all ready items; return the bodies in order."""
    found = list[bytes]()
    while body := values(stage.say("drain", b"get " + name)):
        found += body
    return found


# -- the notes ------------------------------------------------------------------------------------


def test_what_is_plain_needs_no_note() -> None:
    missed = Unseen()
    assert missed.between(0, 100) is None
    missed.delay(7, 30)
    assert missed.between(0, 6) is None
    assert missed.between(7, 100) is None


def test_a_digest_tells_each_number() -> None:
    missed = Unseen()
    missed.delay(3, 30)
    missed.pass_number(5)
    missed.delay(6, 60)
    missed.release(8, 3, 30, 800)
    found = missed.between(1, 9)
    assert found is not None
    assert list(found.ids) == [2, 3, 4, 6, 7, 9]
    assert (found.plain, found.first_plain) == (4, 2)
    assert (list(found.delayed), found.delayed_bytes) == ([3, 6], 90)
    assert found.released == [Release(8, 3, 30, 800)]
    assert (list(found.released_ids), found.released_bytes) == ([3], 30)
    assert missed.is_passed(5)
    assert not missed.is_passed(8), "8 is the place of a released item, not a number"


def test_a_digest_may_begin_and_end_anywhere() -> None:
    missed = Unseen()
    for number in (4, 5, 6):
        missed.pass_number(number)
    found = missed.between(4, 5)
    assert found is not None
    assert (list(found.ids), found.plain, found.first_plain) == ([], 0, 0)
    found = missed.between(5, 8)
    assert found is not None
    assert (list(found.ids), found.plain, found.first_plain) == ([7, 8], 2, 7)


def test_what_all_have_seen_is_forgotten() -> None:
    missed = Unseen()
    missed.pass_number(4)
    missed.pass_number(6)
    missed.forget(4)
    assert len(missed) == 1
    assert not missed.is_passed(4)
    assert missed.is_passed(6)


# -- a queue with lazy children -------------------------------------------------------------------


def test_a_delayed_item_has_one_entry_and_touches_no_lazy_child() -> None:
    stage = ServerHarness()
    for number in range(20):
        stage.say("eve", b"get jobs+c%d/peek" % number)
    queue = stage.queue("jobs")
    for number in range(10):
        stage.say("eve", b"set jobs/delay=1s 0 0 1", b"%d" % number)
    children = queue.children.values()
    assert queue.unseen is not None
    assert queue.unseen.due.count == 10
    assert {child.taken for child in children} == {0}
    assert all(reader.delays.entry_count == 0 for reader in queue.readers)
    assert queue.log.read_ahead is not None
    stage.pass_time(1000)
    assert queue.unseen.due.count == 0
    assert {child.taken for child in children} == {0}
    assert not any(child.needs_read for child in children), "no client asked: nothing is read"
    expected = [b"%d" % number for number in range(10)]
    assert drained(stage, b"jobs") == drained(stage, b"jobs+c7") == expected


def test_notes_do_not_become_many() -> None:
    stage = ServerHarness()
    for number in range(40):
        stage.say("eve", b"get jobs+c%d/peek" % number)
    queue = stage.queue("jobs")
    for number in range(2 * UNSEEN_MAX):
        stage.say("eve", b"set jobs/delay=1h 0 0 1", b"%d" % (number % 10))
        stage.pass_time(10)
    assert queue.unseen is not None
    assert len(queue.unseen) <= UNSEEN_MAX
    assert all(child.delays.count >= UNSEEN_MAX for child in queue.children.values())


def test_who_flushes_his_own_takes_nothing_from_the_others() -> None:
    stage = ServerHarness()
    for name in (b"a", b"b"):
        stage.say("eve", b"get jobs+%b/peek" % name)
    stage.say("eve", b"set jobs/delay=1s 0 0 1", b"1")
    for name in (b"jobs", b"jobs+a"):
        assert stage.say("eve", b"flush " + name) == b"END\r\n"
    stage.say("eve", b"set jobs/delay=1s 0 0 1", b"2")
    stage.pass_time(1000)
    assert drained(stage, b"jobs+b") == [b"1", b"2"]
    assert drained(stage, b"jobs") == drained(stage, b"jobs+a") == [b"2"]


def test_what_nobody_has_any_more_is_not_released() -> None:
    stage = ServerHarness()
    stage.say("eve", b"get jobs+a/peek")
    stage.say("eve", b"set jobs/delay=1s 0 0 1", b"1")
    for name in (b"jobs", b"jobs+a"):
        stage.say("eve", b"flush " + name)
    queue = stage.queue("jobs")
    last = queue.last_number
    stage.pass_time(2000)
    assert queue.last_number == last
    assert queue.unseen is not None
    assert queue.unseen.due.count == 0


def test_own_line_goes_on_when_its_last_child_is_gone() -> None:
    stage = ServerHarness()
    stage.say("eve", b"get jobs+a/peek")
    stage.say("eve", b"set jobs/delay=1s 0 0 1", b"1")
    stage.say("eve", b"delete jobs+a")
    stage.pass_time(1000)
    assert drained(stage, b"jobs") == [b"1"]


def test_what_was_put_off_before_a_child_that_begins_earlier() -> None:
    stage = ServerHarness()
    stage.say("eve", b"set jobs/delay=1s 0 0 1", b"1")
    stage.say("eve", b"set jobs/delay=2s 0 0 1", b"2")
    stage.say("eve", b"get jobs+a/from=1/peek")
    stage.say("eve", b"get jobs+b/peek")
    queue = stage.queue("jobs")
    assert queue.unseen is not None
    assert queue.unseen.due.count == 2
    assert all(reader.delays.entry_count == 0 for reader in queue.readers)
    stage.pass_time(1500)
    assert drained(stage, b"jobs+a") == [b"1"]
    stage.restart()
    stage.pass_time(1500)
    assert drained(stage, b"jobs+a") == [b"2"]
    assert drained(stage, b"jobs") == [b"1", b"2"]
    assert drained(stage, b"jobs+b") == []


def test_two_children_with_entries_of_their_own_release_it_once() -> None:
    stage = ServerHarness()
    stage.say("eve", b"set jobs 0 0 1", b"1")
    stage.say("eve", b"set jobs+b/delay=500ms 0 0 1", b"2")
    stage.say("eve", b"get jobs+a/from=1/peek")
    stage.say("eve", b"set jobs 0 0 1", b"3")
    stage.pass_time(500)
    for part in (b"a", b"b"):
        answer = stage.say("eve", b"gets jobs+%b/peek/after=3" % part)
        assert answer.endswith(b" 0 1 4\r\n2\r\nEND\r\n"), answer


def test_dates_follow_the_clock() -> None:
    stage = ServerHarness()
    stage.say("eve", b"get jobs+a/peek")
    at = (stage.unix_ms + 60_000) // 1000
    stage.say("eve", b"set jobs/at=%d 0 0 1" % at, b"1")
    stage.broker.step_clock(stage.broker.clock.offset_ms + 61_000)
    stage.pass_time(10)
    assert drained(stage, b"jobs+a") == [b"1"]


def test_ids_are_given_by_due_time_over_all_subscriptions() -> None:
    stage = ServerHarness()
    stage.say("eve", b"get jobs+a/peek")
    stage.say("eve", b"set jobs 0 0 1", b"1")
    stage.say("eve", b"set jobs/delay=600ms 0 0 1", b"2")
    stage.say("eve", b"get jobs+a/open")
    stage.say("eve", b"get jobs+a/abort/delay=500ms")
    stage.say("eve", b"set jobs/delay=400ms 0 0 1", b"3")
    queue = stage.queue("jobs")
    queue.tick(stage.now_ms + 1000, 100)  # nothing was looked at in between
    assert drained(stage, b"jobs+a") == [b"3", b"1", b"2"]


@pytest.mark.parametrize("seed", range(20))
def test_a_lazy_child_has_what_one_has_that_gets_items_at_once(seed: int) -> None:
    """`told` has a limit that it never meets, so it is given each item as it comes."""
    random, stage = Random(seed), ServerHarness()
    stage.set_queue("jobs+told", max_items=100_000)
    for name in (b"idle", b"told", b"other"):
        stage.say("eve", b"get jobs+%b/peek" % name)
    for number in range(60):
        what = random.randrange(8)
        key = [b"jobs", b"jobs", b"jobs/delay=%dms" % random.choice([5, 100, 900])][what % 3]
        if what < 5:
            body = b"%d" % number
            assert stage.say("eve", b"set %b 0 0 %d" % (key, len(body)), body) == b"STORED\r\n"
        elif what == 5:
            stage.say("eve", b"set jobs+other 0 0 1", b"x")
        elif what == 6:
            stage.pass_time(random.choice([10, 500]))
        elif random.random() < 0.2:
            random.choice([stage.restart, stage.kill, stage.cut_power])()
        else:
            for name in (b"idle", b"told"):
                stage.say("eve", b"get jobs+" + name)
    queue = stage.queue("jobs")
    idle, told = queue.children[b"idle"], queue.children[b"told"]
    idle.catch_up()
    told.catch_up()
    assert list(idle.live) == list(told.live)
    assert idle.live_bytes == told.live_bytes
    assert idle.total_items == told.total_items
    assert (idle.ready.count, idle.ready.bytes) == (told.ready.count, told.ready.bytes)
    assert (idle.delays.count, idle.delays.bytes) == (told.delays.count, told.delays.bytes)
    assert list(idle.delays.ids) == list(told.delays.ids)
    clock = stage.broker.clock
    assert sorted(idle.delays.entries(clock)) == sorted(told.delays.entries(clock))
    stage.pass_time(1000)
    assert drained(stage, b"jobs+idle") == drained(stage, b"jobs+told")


def test_who_waited_for_a_delayed_item_and_did_not_finish_it_gets_it_after_the_retry_delay() -> (
    None
):
    stage = ServerHarness()
    stage.set_queue(lease="1s", retry_delay="60s")
    stage.say("eve", b"get jobs+a/peek")
    stage.say("eve", b"set jobs/delay=1s 0 0 1", b"1")
    stage.say("worker", b"get jobs+a/open/t=5000")
    stage.pass_time(1000)
    assert values(stage.client("worker").take()) == [b"1"]

    stage.pass_time(2000)  # its lease ends
    assert values(stage.say("eve", b"get jobs+a/peek")) == [], "it is not due again"
    stage.pass_time(60_000)
    assert values(stage.say("eve", b"get jobs+a/peek")) == [b"1"]
