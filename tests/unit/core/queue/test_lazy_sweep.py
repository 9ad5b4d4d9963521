"""Lazy children: their items expire even if no client asks, and empty segments are removed."""

from __future__ import annotations

import pytest

from kestrelpy.core.log.log import JournalLog
from kestrelpy.core.queue.lazy_sweep import LOOK_MS, LOOKS_MAX
from kestrelpy.core.timers import NEVER_MS
from tests.support.server_harness import ServerHarness
from tests.support.tidying import tidy

HOUR_MS = 3_600_000
BODY = b"x" * 1000


def there(stage: ServerHarness, child: bytes) -> int:
    """Return how many items the child has, without a look that would bring it up to date."""
    queue = stage.queue("jobs")
    found = queue.children[child]
    return found.live.count + queue.last_number - found.taken


def put(stage: ServerHarness, count: int, words: bytes = b"set jobs 0 0 1000") -> None:
    for _ in range(count):
        stage.say("eve", words, BODY)


@pytest.mark.parametrize("moves", [False, True])
def test_what_expires_goes_where_nobody_looks(moves: bool) -> None:
    stage = ServerHarness()
    if moves:
        stage.set_queue("jobs+old", max_age="1s", expire_to="gone")
    else:
        stage.set_queue("jobs+old", max_age="1s")
    stage.say("eve", b"get jobs+old/peek")
    put(stage, 200)
    for _ in range(200):
        stage.say("eve", b"get jobs")
    stage.pass_time(900)
    assert there(stage, b"old") == 200
    stage.pass_time(HOUR_MS)
    assert there(stage, b"old") == 0
    if moves:
        assert stage.queue("gone").reader.live.count == 200
    log = stage.queue("jobs").log
    assert isinstance(log, JournalLog)
    for _ in range(2):  # the first two snapshots have to name the child
        tidy(stage, log)
        put(stage, 1)
    assert len(log.journal.segments) == 1


def test_items_that_expire_by_themselves_go_and_others_stay() -> None:
    stage = ServerHarness()
    stage.say("eve", b"get jobs+old/peek")
    put(stage, 3)
    put(stage, 100, b"set jobs 0 2 1000")
    stage.pass_time(3000)
    assert there(stage, b"old") == 3


def test_what_came_while_others_were_looked_at_is_looked_at_too() -> None:
    stage = ServerHarness()
    stage.set_queue("jobs+old", max_age="1s")
    stage.say("eve", b"get jobs+old/peek")
    for _ in range(30):
        put(stage, 10)
        stage.pass_time(300)
    assert there(stage, b"old") <= 50
    stage.pass_time(2000)
    assert there(stage, b"old") == 0


def test_its_own_set_behind_what_it_has_not_looked_at_expires() -> None:
    stage = ServerHarness()
    stage.say("eve", b"get jobs+old/peek")
    put(stage, 2)
    put(stage, 1, b"set jobs+old 0 1 1000")
    stage.pass_time(2000)
    assert there(stage, b"old") == 2


@pytest.mark.parametrize("how", ["restart", "kill", "reload", "from"])
def test_a_start_a_reload_and_a_beginning_in_the_past_count(how: str) -> None:
    stage = ServerHarness()
    if how != "from":
        stage.say("eve", b"get jobs+old/peek")
    put(stage, 20, b"set jobs 0 0 1000" if how == "reload" else b"set jobs 0 2 1000")
    if how in ("restart", "kill"):
        stage.say("eve", *[b"get jobs"] * 20)  # that line rings for nothing
    if how == "reload":
        stage.pass_time(1000)
        stage.set_queue("jobs+old", max_age="2s")
        stage.say("eve", b"reload")
    elif how == "from":
        stage.say("eve", b"get jobs+old/from=0/peek")
    elif how == "kill":
        stage.kill()
    else:
        stage.restart()
    stage.pass_time(1000)
    stage.pass_time(2000)
    assert there(stage, b"old") == 0


def behind(stage: ServerHarness, name: bytes, words: bytes) -> None:
    """Put an item that never expires, and after it one with these options."""
    stage.say("eve", b"set %b 0 0 1" % name, b"1")
    stage.say("eve", b"set %b%b 1" % (name, words), b"2")


@pytest.mark.parametrize("begins", ["at once", "restart", "kill", "from"])
@pytest.mark.parametrize("name", [b"jobs", b"jobs+old"])
def test_what_was_put_off_expires_at_its_time_behind_what_does_not(
    begins: str, name: bytes
) -> None:
    stage = ServerHarness()
    stage.set_queue("jobs+old", expire_to="gone")
    if begins == "from":
        name = b"jobs"
    else:
        stage.say("eve", b"get jobs+old/peek")
    behind(stage, name, b"/delay=10s 0 20")
    if begins == "from":
        stage.say("eve", b"get jobs+old/from=0/peek")
    elif begins != "at once":
        getattr(stage, begins)()
    stage.pass_time(5000)
    put(stage, 1, b"set jobs 0 1 1000")  # this item makes a look due before the other expires
    stage.pass_time(14_000)
    assert stage.queue("gone").reader.live.count == 1
    stage.pass_time(1000 + LOOK_MS)
    assert there(stage, b"old") == 1
    assert stage.queue("gone").reader.live.count == 2


def test_what_was_delayed_stays_no_longer_than_a_later_max_age() -> None:
    stage = ServerHarness()
    stage.say("eve", b"get jobs+old/peek", b"set jobs/delay=10s 0 0 1", b"x")
    stage.set_queue("jobs+old", max_age="20s")
    stage.pass_time(19_000)
    assert there(stage, b"old") == 1
    stage.pass_time(1000 + LOOK_MS)
    assert there(stage, b"old") == 0


def test_what_expires_behind_large_ones_that_were_put_off_is_read_too() -> None:
    stage = ServerHarness()
    stage.say("eve", b"get jobs+old/peek")
    size = (5 << 20) // 2
    for end in (0, 0, 10):
        stage.say("eve", b"set jobs/delay=1s 0 %d %d" % (end, size), b"x" * size)
    stage.pass_time(10_000 + LOOK_MS)
    assert there(stage, b"old") == 2


def test_memory_is_not_filled_with_bodies_that_are_not_next() -> None:
    stage = ServerHarness()
    stage.set_queue(max_memory="100KiB")
    for _ in range(30):
        stage.say("eve", b"set jobs/delay=1s 0 100 30000", b"x" * 30_000)
    stage.pass_time(1000)
    reader = stage.queue("jobs").reader
    for _ in range(30):
        reader.tick(stage.now_ms, 500)
        stage.work()
    assert reader.ready.disk_refs.count >= 25
    for _ in range(30):
        assert len(stage.say("eve", b"get jobs")) > 30_000


@pytest.mark.parametrize(("end", "looks_at"), [(b"0", 0), (b"100", 100_000)])
def test_nobody_looks_at_what_was_put_off_before_it_expires(end: bytes, looks_at: int) -> None:
    stage = ServerHarness()
    for number in range(3):
        stage.say("eve", b"get jobs+c%d/peek" % number)
    began_ms = stage.now_ms
    put(stage, 5, b"set jobs/delay=1s 0 %b 1000" % end)
    put(stage, 1, b"set jobs/delay=9s 0 %b 1000" % end)
    queue = stage.queue("jobs")
    stage.say("eve", b"delete jobs/item=1")
    stage.pass_time(50_000)
    assert all(child.taken == 0 for child in queue.children.values())
    assert queue.unseen is not None
    assert queue.unseen.expiries.count == 0, "what was released is not remembered twice"
    if looks_at:
        assert queue.lazy_sweep.next_due() == began_ms + looks_at
        stage.pass_time(51_000)
        assert all(there(stage, child) == 0 for child in queue.children)
    else:
        assert queue.lazy_sweep.next_due() == NEVER_MS


def test_nobody_looks_for_the_sake_of_a_max_age_that_was_taken_away() -> None:
    stage = ServerHarness()
    stage.set_queue("jobs+old", max_age="1s")
    stage.say("eve", b"get jobs+old/peek")
    put(stage, 1, b"set jobs 0 0 1000")
    stage.pass_time(2000)
    stage.set_queue("jobs+old", max_age="none")
    stage.pass_time(2000)
    put(stage, 1, b"set jobs 0 0 1000")
    assert stage.queue("jobs").lazy_sweep.next_due() == NEVER_MS
    stage.set_queue("jobs+old", max_age="1s")
    stage.pass_time(3000)
    assert there(stage, b"old") == 0


def test_many_children_are_looked_at_a_few_at_a_time() -> None:
    stage = ServerHarness()
    count = 2 * LOOKS_MAX + 1
    for number in range(count):
        stage.say("eve", b"get jobs+c%d/peek" % number)
    put(stage, 5, b"set jobs 0 1 1000")
    queue = stage.queue("jobs")
    stage.now_ms += 1000
    behind = []
    for _ in range(3):
        stage.now_ms += 1
        queue.tick(stage.now_ms, 500)
        behind.append(sum(child.taken < queue.last_number for child in queue.children.values()))
    assert behind == [LOOKS_MAX + 1, 1, 0]
    stage.pass_time(2000)
    assert all(there(stage, child) == 0 for child in queue.children)


def test_rounds_begin_at_most_once_in_a_second() -> None:
    stage = ServerHarness()
    stage.say("eve", b"get jobs+old/peek")
    put(stage, 1, b"set jobs 0 1 1000")
    stage.pass_time(1000)
    assert there(stage, b"old") == 0
    queue = stage.queue("jobs")
    queue.lazy_sweep.need(stage.unix_ms)
    assert queue.lazy_sweep.next_due() == stage.now_ms + LOOK_MS


def test_a_release_counts_a_step_for_each_subscription_that_gets_it_at_once() -> None:
    stage = ServerHarness()
    for number in range(9):
        stage.set_queue(f"jobs+c{number}", max_items=1000)
        stage.say("eve", b"get jobs+c%d/peek" % number)
    put(stage, 5, b"set jobs/delay=1s 0 0 1000")
    queue = stage.queue("jobs")
    assert queue.tick(stage.now_ms + 1000, 15) >= 20
    assert queue.reader.delays.count == 3, "two were released, each in ten lines"
    stage.pass_time(2000)
    assert queue.reader.delays.count == 0
    assert all(child.ready.count == 5 for child in queue.children.values())
