"""Delayed items: due in order, by two clocks; available at a place of their own; after a restart as
before. Spec 2 and 5.

Promise: delay.
"""

from __future__ import annotations

from random import Random

import pytest

from journal.format.checkpoint import Checkpoint
from kestrelpy.core.clock import ClockOffset
from kestrelpy.core.index.delayed import Delay, Delays
from kestrelpy.core.policy import Policy
from kestrelpy.core.queue.admin import Admin
from kestrelpy.core.subscription.where import Where
from kestrelpy.errors import ClientError
from tests.support.core_harness import WALL_MS, CoreHarness, make_queue, state_after_a_restart


def clock_at(offset_ms: int) -> ClockOffset:
    """Return a wall clock this far ahead of the running clock, which is the monotonic one here."""
    clock = ClockOffset()
    clock.offset_ms = offset_ms
    return clock


def popped(delays: Delays, now_ms: int, offset_ms: int = 0) -> list[int]:
    out = []
    while (found := delays.pop_due(now_ms, clock_at(offset_ms))) is not None:
        out.append(found[0])
    return out


# -- by two clocks -----------------------------------------------------------------------------


def test_the_soonest_are_those_of_both_clocks_and_of_shared_entries() -> None:
    delays, shared = Delays(), Delays()
    delays.shared = shared
    delays.add(1, 5, 1030, True)
    delays.add(2, 5, 10, False)
    for id_, due_ms in ((3, 1020), (4, 1000)):
        shared.add(id_, 5, due_ms, True)
    delays.add_shared(3, 5)
    assert delays.soonest(9, clock_at(1000)) == [(1010, 2), (1020, 3), (1030, 1)]
    assert delays.soonest(1, clock_at(1000)) == [(1010, 2)]


def test_dates_and_durations_are_due_in_one_sequence() -> None:
    delays = Delays()
    for id_, due_ms in ((1, 30), (2, 10)):
        delays.add(id_, 5, due_ms, False)
    for id_, due_ms in ((3, 1020), (4, 1005)):
        delays.add(id_, 5, due_ms, True)
    assert delays.next_due(clock_at(1000)) == 5
    assert (delays.count, delays.bytes) == (4, 20)
    assert popped(delays, 20, 1000) == [4, 2, 3]
    assert popped(delays, 30, 1000) == [1]
    assert (delays.count, delays.bytes, delays.next_due(clock_at(1000))) == (0, 0, None)


def test_a_clock_that_is_set_moves_dates_alone() -> None:
    delays = Delays()
    delays.add(1, 0, 100, False)
    delays.add(2, 0, 1200, True)
    assert delays.next_due(clock_at(1000)) == 100
    assert delays.next_due(clock_at(1150)) == 50
    assert popped(delays, 60, 1150) == [2]


def test_what_is_due_together_is_released_first_put_first() -> None:
    delays = Delays()
    for id_ in (3, 1, 2):
        delays.add(id_, 9 - id_, 10, False)
    assert popped(delays, 10) == [1, 2, 3]


def test_one_that_was_removed_and_put_off_again_goes_by_its_later_time() -> None:
    delays = Delays()
    delays.add(1, 7, 10, False)
    delays.remove(1, 7)
    assert (delays.count, delays.bytes, delays.next_due(clock_at(0))) == (0, 0, None)
    delays.add(1, 7, 50, True)
    assert popped(delays, 49) == []
    assert delays.find(1, clock_at(0)) == (50, 7)
    assert popped(delays, 50) == [1]


def test_removing_does_not_fill_the_memory() -> None:
    delays = Delays()
    for id_ in range(1, 5001):
        delays.add(id_, 1, id_, id_ % 2 == 0)
    for id_ in range(2, 5001):
        delays.remove(id_, 1)
    assert len(delays._dates._chunks) + len(delays._durations._chunks) == 1
    assert popped(delays, 9999) == [1]


def test_any_mixture_is_due_in_sequence() -> None:
    for seed in range(40):
        random, delays, model = Random(seed), Delays(), dict[int, int]()
        now_ms = 0
        for id_ in range(1, 200):
            due_ms, is_date = random.randrange(400), random.random() < 0.5
            delays.add(id_, 1, due_ms + 1000 * is_date, is_date)
            model[id_] = due_ms
            if random.random() < 0.3:
                gone = random.choice(sorted(model))
                delays.remove(gone, 1)
                del model[gone]
                if random.random() < 0.5:
                    model[gone] = random.randrange(400)
                    delays.add(gone, 1, model[gone], False)
            if random.random() < 0.1:
                now_ms += random.randrange(30)
                due = sorted((m, i) for i, m in model.items() if m <= now_ms)
                assert popped(delays, now_ms, 1000) == [i for _, i in due], f"seed {seed}"
                for _, i in due:
                    del model[i]
            assert delays.count == delays.bytes == len(model), f"seed {seed}"
            soonest = min(model.values(), default=None)
            assert delays.next_due(clock_at(1000)) == soonest, f"seed {seed}"
        told = {e.item: e.due_ms for e in delays.entries(clock_at(1000))}
        assert told == {i: m + 1000 for i, m in model.items()}, f"seed {seed}"


# -- the retry policy ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "waits"),
    [
        ((0, 2.0, 5000), [0, 0, 0]),
        ((1000, 1.0, 5000), [1000, 1000, 1000]),
        ((1000, 2.0, 5000), [1000, 2000, 4000, 5000, 5000]),
        ((1000, 1.5, 5000), [1000, 1500, 2250, 3375, 5000]),
        ((9000, 2.0, 5000), [5000, 5000]),
    ],
)
def test_each_attempt_waits_so_many_times_as_long(
    settings: tuple[int, float, int], waits: list[int]
) -> None:
    delay_ms, backoff, most_ms = settings
    policy = Policy(
        retry_delay_ms=delay_ms, retry_backoff=backoff, retry_delay_max_ms=most_ms
    )
    assert [policy.retry_ms(n) for n in range(1, len(waits) + 1)] == waits
    assert policy.retry_ms(10**9) == waits[-1]


# -- a queue -------------------------------------------------------------------------------------


def later(q: CoreHarness, body: bytes, ms: int, is_date: bool = False) -> int:
    return q.queue.put(body, 0, 0, q.now_ms, delay=Delay(ms, is_date))


def test_a_delayed_item_takes_a_number_when_it_is_put_and_another_when_it_is_due() -> None:
    q = make_queue()
    later(q, b"later", 100)
    q.put(b"now")
    q.pass_time(100)
    assert q.story == (
        f"put 1 later due_ms={WALL_MS + 100} runs_ms={WALL_MS + 100}, put 2 now, "
        "released 1 place 3"
    )
    assert (q.queue.next_number, q.queue.total_items) == (4, 2)
    assert q.ready == [b"now", b"later"]
    first, second = q.open(), q.open()
    assert (first.item.marker, second.place, second.item.marker) == (2, 3, 3)
    q.abort(second)
    assert q.open().item.body == b"later", "it is back at its place"


def test_after_a_restart_each_follows_its_clock() -> None:
    q = make_queue()
    later(q, b"duration", 1000)
    later(q, b"date", WALL_MS + 2000, True)
    q = q.restarted()
    q.step_clock(1500)
    assert q.ready == []
    q.pass_time(1000)
    assert q.ready == [b"date", b"duration"]


def test_a_duration_does_not_follow_a_clock_that_is_set() -> None:
    q = make_queue()
    later(q, b"duration", 1000)
    later(q, b"date", WALL_MS + 1000, True)
    q.step_clock(-500)
    q.pass_time(1000)
    assert q.ready == [b"duration"]
    q.step_clock(500)
    assert q.ready == [b"duration", b"date"]


def test_one_that_would_expire_before_it_is_due_is_refused_and_drops_nobody() -> None:
    q = make_queue(max_items=1, discard_old_when_full=True)
    q.put(b"one")
    with pytest.raises(ClientError, match="would expire 5 ms before it is due"):
        q.queue.put(b"two", 0, WALL_MS + 10, q.now_ms, delay=Delay(15))
    assert q.ready == [b"one"]


def test_a_delayed_item_of_no_line_can_be_cancelled_and_retried() -> None:
    q = make_queue()
    later(q, b"gone", 1000)
    later(q, b"now", 1000)
    assert q.reader.where(1) is Where.DELAYED
    assert q.cancel(1)
    assert Admin(q.queue).retry(2, q.now_ms) is not None
    assert Admin(q.queue).retry(2, q.now_ms) is None
    assert q.ready == [b"now"]
    q.pass_time(5000)
    assert q.ready == [b"now"], "not again when it would have been due"
    assert q.restarted().ready == [b"now"]


def test_what_is_released_in_one_tick_is_bounded_and_the_rest_comes_at_once() -> None:
    q = make_queue()
    for n in range(50):
        later(q, b"%d" % n, 10)
    q.now_ms = 10
    assert q.queue.tick(10, 20) == 20
    assert q.reader.delays.count == 30
    assert q.queue.alarm.at_ms == 11
    q.pass_time(1)
    assert q.ready == [b"%d" % n for n in range(50)]


def test_on_a_full_disk_what_is_given_back_later_leaves_no_record_and_comes_all_the_same() -> None:
    q = make_queue()
    q.put(b"x")
    lease = q.open()
    q.queue.log.no_room = "full"
    q.reader.nack(lease, q.now_ms, b"abort", Delay(100))
    q.pass_time(100)
    assert q.story == "put 1 x"
    assert q.ready == [b"x"]
    q.pass_time(1)
    assert q.restarted().ready == [b"x"]


def test_each_delayed_item_and_each_lease_by_token_is_sure_of_room_for_one_record() -> None:
    q = make_queue()
    later(q, b"x", 100)
    q.put(b"y")
    q.open(lease_ms=50)
    assert q.queue.reserve.exact() == 2


@pytest.mark.parametrize("seed", range(30))
def test_a_restart_finds_everything_as_it_was(seed: int) -> None:
    """From the records, and from a checkpoint that counts what came before."""
    random, q = Random(seed), make_queue(max_attempts=3)
    q.put(b"first")
    for n in range(60):
        act = random.randrange(8)
        if act <= 1:
            q.put(b"%d" % n)
        elif act == 2:
            later(q, b"d%d" % n, random.randrange(1, 50))
        elif act == 3:
            q.pass_time(random.randrange(20))
        elif act == 4:
            q.cancel(random.randrange(1, q.queue.next_number))
        elif act == 5 and random.random() < 0.1:
            q.flush()
        elif (lease := q.may_open(lease_ms=random.choice([0, 0, 1000]))) is not None:
            delay = random.choice([None, Delay(random.randrange(1, 40))])
            if random.random() < 0.7:
                q.reader.nack(lease, q.now_ms, random.choice([b"abort", b"defer"]), delay)
            elif random.random() < 0.5:
                q.close(lease)
    for lease in [each for each in q.reader.leases if not each.by_token]:
        q.defer(lease)
    again = q.restarted(checkpoint=random.choice([None, q.queue.checkpoint()]))
    assert state_after_a_restart(again.queue) == state_after_a_restart(q.queue)
    for each in (q, again):
        each.pass_time(100_000_000)
    assert again.ready == q.ready


def test_a_checkpoint_of_the_middle_counts_what_came_before_it() -> None:
    q = make_queue()
    q.put(b"1")
    later(q, b"2", 10)
    q.pass_time(10)
    middle, at = q.queue.checkpoint(), len(q.records)
    q.put(b"4")
    later(q, b"5", 10)
    q.pass_time(10)
    q.put(b"7")
    assert q.queue.total_items == 5
    assert q.restarted(checkpoint=middle).queue.total_items == 5
    only_behind = q.restarted(q.records[at:], Checkpoint(b"jobs", 4, 4, total_items=2))
    assert only_behind.queue.total_items == 5


def test_a_deleted_queue_knows_of_nothing_delayed() -> None:
    q = make_queue()
    later(q, b"x", 100)
    queue = q.queue
    assert q.delete()
    state = queue.state()
    assert (list(state.delayed), list(state.placed), state.live.count) == ([], [], 0)


def test_no_place_is_remembered_when_the_last_item_is_gone() -> None:
    q = make_queue()
    later(q, b"one", 10)
    later(q, b"two", 20)
    q.pass_time(30)
    while q.take() is not None:
        pass
    assert not q.reader.live.count
    assert len(q.reader.placings) == 0


@pytest.mark.parametrize(("is_date", "at_ms"), [(True, 1_500), (False, 12_000)])
def test_a_date_comes_by_the_wall_clock_and_a_duration_from_now_on(
    is_date: bool, at_ms: int
) -> None:
    assert Delay(11_500, is_date).at_ms(clock_at(10_000), 500) == at_ms
