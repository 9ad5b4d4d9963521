"""A restart changes nothing but the leases by connection: the log says the rest."""

from __future__ import annotations

from random import Random

import pytest

from journal.errors import NewerFormat
from journal.format.checkpoint import Checkpoint
from journal.format.kinds import IN_LOG, Kind
from journal.format.record import Record, number_given
from kestrelpy.core.replay.replay import Replay
from kestrelpy.core.replay.subscription_replay import PutSizes
from tests.support.core_harness import (
    NAME,
    WALL_MS,
    CoreHarness,
    all_read,
    in_sequence,
    make_queue,
    state_after_a_restart,
)


def do_something(q: CoreHarness, random: Random) -> None:
    """Take one random step; many steps make every kind of record."""
    who = random.choice(("anna", "bert", "carl"))
    leases = [*q.who(who).leases, *q.reader.token_holder.leases]
    choice = random.randrange(19)
    if choice <= 3:
        expires_ms = random.choice((0, 0, q.unix_ms + random.randrange(1, 300)))
        q.put(b"x" * random.randrange(5), expires_ms=expires_ms)
    elif choice <= 5:
        q.may_open(who, dead=random.random() < 0.2)
    elif choice == 6 and leases:
        q.close(random.choice(leases))
    elif choice == 7 and leases:
        q.abort(random.choice(leases))
    elif choice == 8 and leases:
        q.defer(random.choice(leases))
    elif choice == 9:
        q.pass_time(random.randrange(200))
    elif choice == 10:
        random.choice((q.hang_up, q.take, q.take))(who)
    elif choice == 11:
        q.may_open(lease_ms=random.choice((50, 100, 1000)))
    elif choice == 12 and leases:
        q.touch(random.choice(leases), random.randrange(1, 300))
    elif choice == 13 and leases:
        q.bury(random.choice(leases))
    elif choice == 14:
        q.pause(not q.reader.paused and random.random() < 0.3)
    elif choice == 15:
        q.cancel(random.randrange(1, q.queue.next_number + 1))
    elif choice == 16:
        q.purge(random.choice([*q.reader.dead.deaths, 1]))
    elif choice == 17:
        q.redrive(random.choice([*q.reader.dead.deaths, 1]))
    elif random.random() < 0.2:
        q.flush()


def lived(seed: int, steps: int = 120) -> tuple[CoreHarness, dict[int, dict[str, object]]]:
    """Return a queue with a history, and its state after each record that ended a step."""
    random = Random(seed)
    q = make_queue(
        lease_ms=random.choice((None, 100, 1000)),
        max_attempts=random.choice((None, 1, 2, 5)),
        max_items=random.choice((None, None, 5)),
        discard_old_when_full=True,
    )
    states = {0: state_after_a_restart(q.queue)}
    for _ in range(steps):
        do_something(q, random)
        states[len(q.records)] = state_after_a_restart(q.queue)
    return q, states


@pytest.mark.parametrize("seed", range(60))
def test_after_any_history_a_restart_finds_the_queue_as_it_was(seed: int) -> None:
    q, _ = lived(seed)
    again = q.restarted()
    assert state_after_a_restart(again.queue) == state_after_a_restart(q.queue)
    assert again.reader.watch.watched.keys() == {
        item.id for _, item in in_sequence(again.reader.ready) if item.expires_ms
    }


@pytest.mark.parametrize("seed", range(6))
def test_the_beginning_of_a_log_is_the_queue_as_it_was_at_that_moment(seed: int) -> None:
    q, states = lived(seed)
    for lsn, state in states.items():
        assert state_after_a_restart(q.restarted(q.records[:lsn]).queue) == state, f"lsn {lsn}"


@pytest.mark.parametrize("seed", range(6))
def test_any_beginning_of_a_log_can_be_replayed_and_gone_on_with(seed: int) -> None:
    q, _ = lived(seed, 60)
    for lsn in range(len(q.records)):
        again = q.restarted(q.records[:lsn])
        known = [number_given(r) for r in again.records]
        again.put(b"new")
        last = in_sequence(all_read(again.reader).ready)[-1]
        assert last[1].body == b"new"
        assert last[1].id == last[0] == max(known, default=0) + 1


@pytest.mark.parametrize("seed", range(10))
def test_a_life_of_many_restarts_is_like_one_without(seed: int) -> None:
    random = Random(seed)
    q = make_queue(lease_ms=500, max_attempts=3)
    for step in range(150):
        do_something(q, random)
        if step % 20 == 19:
            before = state_after_a_restart(q.queue)
            q = q.restarted()
            assert state_after_a_restart(q.queue) == before
            assert state_after_a_restart(q.restarted().queue) == before


def test_a_restart_puts_what_was_leased_back_and_counts_no_attempt() -> None:
    q = make_queue(max_attempts=2)
    q.put(b"1", b"2", b"3")
    q.abort(q.open())
    held = [q.open(), q.open()]
    again = q.restarted()
    assert (again.ready, again.leased) == ([b"1", b"2", b"3"], [])
    assert [again.open().attempts for _ in held] == [1, 0]


def test_a_redriven_item_that_dies_again_has_no_expiry_after_a_restart_either() -> None:
    q = make_queue(max_attempts=1)
    q.put(b"1", expires_ms=q.unix_ms + 100)
    q.abort(q.open())
    q.redrive(1)
    q.abort(q.open())
    before, after = q, q.restarted()
    for each in (before, after):
        assert each.open(dead=True).item.expires_ms == 0


def test_the_dead_have_their_sequence_reasons_and_attempts_after_a_replay() -> None:
    q = make_queue(max_attempts=2, lease_ms=1000)
    q.put(b"1", b"2", b"3")
    q.abort(q.open())
    q.abort(q.open())
    q.open("anna")
    q.open("bert")
    q.hang_up("bert")
    q.open("bert")
    q.hang_up("bert")
    q.open("dora", dead=True)  # a leased dead letter is a dead letter again after the replay
    again = q.restarted()
    assert again.dead == [b"1", b"3"]
    deaths = again.reader.dead.deaths
    assert [(d.reason, d.attempts) for d in deaths.values()] == [(b"abort", 2), (b"hangup", 2)]
    again.close(again.open(dead=True))
    assert again.restarted().dead == [b"3"]


def test_a_flush_leaves_what_was_open() -> None:
    q = make_queue()
    q.put(b"1", b"2", b"3")
    q.open()
    lease = q.open()
    q.flush()
    q.abort(lease)
    q.put(b"4")
    assert q.restarted().ready == [b"1", b"2", b"4"]
    assert dict(q.restarted().reader.attempts.items()) == {2: 1}


def test_what_expired_while_the_server_was_down_goes_when_it_is_back() -> None:
    q = make_queue()
    q.put(b"1", expires_ms=WALL_MS + 1000)
    q.put(b"2")
    q.now_ms = 5000
    again = q.restarted()
    again.pass_time(0)
    assert again.ready == [b"2"]
    assert again.reader.counters.expired == 1


def test_records_about_an_item_whose_put_is_gone_are_passed_over() -> None:
    q = make_queue(max_attempts=2, max_items=9, discard_old_when_full=True)
    q.put(b"1", expires_ms=WALL_MS + 10)
    q.pass_time(10)
    q.put(b"2", b"3")
    q.abort(q.open())
    q.abort(q.open())
    q.close(q.open(dead=True))
    q.close(q.open())
    q.put(b"4", b"5")
    q.reload(max_items=1)
    q.put(b"6")
    q.flush()
    kept = [r for r in q.records if r.kind != Kind.PUT or r.item == 6]
    kinds = {Kind(r.kind).name for r in kept}
    assert kinds == {"PUT", "DONE", "RETURNED", "DEAD", "EXPIRED", "DISCARDED", "FLUSHED", "TOKENS"}
    again = q.restarted([*kept, put_of(7)])
    assert (again.ready, again.dead) == ([b"7"], [])
    assert not again.reader.attempts


def put_of(item: int) -> Record:
    return Record(Kind.PUT, item, item, 0, WALL_MS, b"", b"%d" % item, 0, 99, 1, 0, 0)


def test_the_numbers_of_puts_that_are_gone_come_from_the_checkpoint() -> None:
    q = make_queue()
    q.put(b"1", b"2", b"3")
    tokens = [q.open().token for _ in range(3)]
    for lease in list(q.reader.leases):
        q.close(lease)
    again = q.restarted([], q.queue.checkpoint())
    assert again.queue.total_items == 3
    again.put(b"4")
    lease = again.open()
    assert (lease.item.id, lease.item.marker) == (4, 4)
    assert lease.token > max(tokens)


def test_a_checkpoint_older_than_the_records_takes_nothing_back() -> None:
    q = make_queue()
    q.put(b"1")
    checkpoint = q.queue.checkpoint()
    q.put(b"2")
    again = q.restarted(q.records, checkpoint)
    assert state_after_a_restart(again.queue) == state_after_a_restart(q.queue)


def test_replaying_twice_leaves_the_same_checkpoint() -> None:
    for seed in range(20):
        q, _ = lived(seed)
        once = q.restarted()
        twice = once.restarted()
        assert once.queue.checkpoint() == twice.queue.checkpoint(), f"seed {seed}"
        live, found = q.queue.checkpoint(), once.queue.checkpoint()
        assert found.live_items == live.live_items, f"seed {seed}"
        assert found.tokens == live.tokens, f"seed {seed}"


def replay_into_fresh(records: list[Record]) -> tuple[CoreHarness, Replay]:
    q = make_queue()
    queue = q.broker.fresh(b"found", 1, 0)
    replay = Replay(queue)
    replay.run(records)
    q.broker.adopt(queue, 0)
    return q, replay


def test_finishing_counts_what_is_there_and_how_large_it_is() -> None:
    q = make_queue(max_attempts=1)
    q.put(b"dead")
    q.abort(q.open())
    q.put(b"flushed")
    q.flush()
    q.put(b"done", b"lent", b"ready")
    q.take()
    q.open()
    q2, replay = replay_into_fresh(q.records)
    replay.finish(None, len(q.records))
    reader = q2.broker.queues[b"found"].reader
    assert list(reader.live) == [1, 4, 5]
    assert reader.live_bytes == len(b"dead" b"lent" b"ready")
    assert (reader.ready.count, reader.ready.bytes, len(reader.dead)) == (2, 9, 1)


def test_a_flush_goes_as_far_as_it_says() -> None:
    flush = Record(Kind.FLUSHED, 2, 0, 0, 0, b"", b"", 0, 4, 1, 0, 0)
    q, _ = replay_into_fresh([put_of(1), put_of(2), put_of(3), flush])
    assert list(q.broker.queues[b"found"].reader.live) == [3]


def test_numbers_that_may_have_been_lost_in_damage_are_not_given_again() -> None:
    q, replay = replay_into_fresh([put_of(1), put_of(2)])
    queue = q.broker.queues[b"found"]
    replay.finish(None, 2, item_lost=5)
    assert queue.next_number == 6
    replay.finish(Checkpoint(NAME, next_item=9, next_place=9), 2, item_lost=5)
    assert queue.next_number == 9


def test_tokens_reserved_before_a_restart_are_durable_after_it() -> None:
    q, replay = replay_into_fresh([put_of(1)])
    replay.finish(None, 17)
    assert q.broker.queues[b"found"].reader.tokens_lsn == 17


def test_a_record_of_a_later_version_is_not_guessed_at() -> None:
    unknown = Record(200, 1, 0, 0, 0, b"", b"", 0, 1, 3, 4096, 4160)
    with pytest.raises(NewerFormat, match="segment 3, byte 4096: records of kind 200"):
        replay_into_fresh([unknown])


def test_replay_makes_no_record() -> None:
    q = make_queue(max_attempts=1)
    q.put(b"1", b"2")
    q.abort(q.open())
    again = q.restarted()
    assert again.records == q.records
    assert again.dirty == []


def test_the_size_of_an_item_outside_of_what_was_met_is_not_known() -> None:
    sizes = PutSizes()
    assert sizes.of(1) == 0
    sizes.add(5, 50)
    sizes.add(7, 70)
    assert [sizes.of(id_) for id_ in range(4, 9)] == [0, 50, 0, 70, 0]


def test_it_knows_each_kind_that_a_log_has_and_no_other() -> None:
    assert Replay(make_queue().queue)._apply.keys() == IN_LOG
