"""A move is exactly once, whatever crashes when: a crash on either side of every step.

Promise move: power cut and kill before every verb of the disk, a second one in the start that
    follows; failed writes and syncs on either side; deletion of either queue on the way; chains of
    queues in random lives; the whole server with crashes and faults, up to three queues in a chain;
    `kill -9` of the real process under load.
"""

from __future__ import annotations

from random import Random

import pytest

from journal.format.transfer import Origin
from kestrelpy.core.log.log import JournalLog
from kestrelpy.core.transfer.steps import TransferSource
from tests.support.memory_disk import Fault
from tests.support.transfer_harness import (
    TransferHarness,
    check_after_a_crash,
    cut_at_every_step,
    cut_twice,
)

SEEDS = range(40)


def dead_letters(town: TransferHarness) -> None:
    """Three items die and go on, one of them to the third queue of the chain."""
    town.set_queue("jobs", max_attempts=1, dead_letter_to="failed")
    town.set_queue("failed", max_attempts=1, dead_letter_to="old")
    for number in range(3):
        town.put("jobs", b"%d" % number)
    town.fail("jobs")
    town.fail("jobs")
    town.fail("failed")
    town.finish("failed")
    town.fail("jobs")


def test_dead_letters_arrive_exactly_once_whatever_crashes_when() -> None:
    def look(town: TransferHarness) -> None:
        check_after_a_crash(town)
        assert not town.broker.queues.get(b"jobs") or not town.queue("jobs").reader.dead.deaths

    assert cut_at_every_step(dead_letters, look) > 30


def expiring(town: TransferHarness) -> None:
    town.set_queue("jobs", expire_to="late")
    town.put("jobs", b"1", expiry=1)
    town.put("jobs", b"2")
    town.put("jobs", b"3", expiry=2)
    town.pass_time(3000)
    town.finish("late")


def test_what_expires_is_moved_exactly_once_whatever_crashes_when() -> None:
    def look(town: TransferHarness) -> None:
        check_after_a_crash(town)
        town.pass_time(3000)
        check_after_a_crash(town)
        assert len(town.queue("jobs").reader.live if b"jobs" in town.broker.queues else []) <= 1

    assert cut_at_every_step(expiring, look) > 20


def taken_at_once(town: TransferHarness) -> None:
    """A client waits in the target: it confirms the copy before the source logs MOVED."""
    town.set_queue("jobs", max_attempts=1, dead_letter_to="failed")
    town.put("failed", b"made")
    town.finish("failed")
    town.put("jobs", b"1")
    town.wait("failed", "waiter")
    town.fail("jobs")
    town.heard("waiter")


def test_a_copy_that_was_confirmed_before_its_origin_was_settled_is_not_moved_again() -> None:
    cut_at_every_step(taken_at_once, check_after_a_crash, seeds=6)


def test_a_second_crash_while_a_start_settles_changes_nothing() -> None:
    cut_twice(taken_at_once, 11)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_life_of_moves_and_crashes_loses_nothing_and_doubles_nothing(seed: int) -> None:
    random = Random(seed)
    town = TransferHarness()
    town.set_queue("jobs", max_attempts=1, dead_letter_to="failed", expire_to="late")
    town.set_queue("failed", max_attempts=1, dead_letter_to="old", expire_to="late")
    town.set_queue("old", sync=random.choice(("always", "never")), expire_to="late")
    number = 0
    for step in range(150):
        choice = random.randrange(20)
        queue = random.choice(("jobs", "jobs", "failed", "old", "late"))
        if choice <= 6:
            number += 1
            town.put("jobs", b"%d" % number, expiry=random.choice((0, 0, 1, 3)))
        elif choice <= 11 and town.syncs:
            town.fail(random.choice(("jobs", "jobs", "failed")))
        elif choice <= 13 and town.syncs:
            town.finish(queue)
        elif choice == 14:
            town.pass_time(random.randrange(1500))
            target, source = random.sample(("jobs", "failed", "old"), 2)
            source = random.choice((source, "late"))
            # A client asks for a move, and hangs up or waits for the answer.
            who = f"mover {step}"
            town.say(who, b"move %b %b 2" % (source.encode(), target.encode()))
            if random.random() < 0.3 and who in town.clients:
                town.hang_up(who)
        elif choice == 15:
            random.choice((town.hold_syncs, town.hold_writes))()
        elif choice == 16:
            random.choice((town.write_once, town.sync_once))()
        elif choice <= 18:
            town.go()
        else:
            town.crash(random)
        if step % 10 == 9:
            town.go()
            town.check()
    town.go()
    town.pass_time(5000)
    check_after_a_crash(town)


def test_a_copy_goes_no_further_before_it_is_on_disk_itself() -> None:
    town = TransferHarness()
    town.set_queue("jobs", max_attempts=1, dead_letter_to="failed")
    for queue in ("failed", "later"):
        town.put(queue, b"made in " + queue.encode())
        town.finish(queue)
    town.put("jobs", b"1")
    town.say("client", b"get jobs/open")
    town.hold_syncs()
    town.say("client", b"get jobs/abort")
    town.say("mover", b"move failed later 1")
    town.work()
    assert town.queue("later").reader.live.count == 0
    later = town.queue("later").log
    assert isinstance(later, JournalLog)
    town.go()
    town.check()
    assert town.client("mover").take() == b"1\r\n"
    assert town.finish("later") == b"1"


@pytest.mark.parametrize("failing", ["jobs", "failed"])
@pytest.mark.parametrize("verb", ["write", "sync"])
@pytest.mark.parametrize("nth", range(1, 5))
def test_after_a_failed_write_or_sync_it_is_in_doubt_until_a_restart(
    failing: str, verb: str, nth: int
) -> None:
    town = TransferHarness()
    town.set_queue("jobs", max_attempts=1, dead_letter_to="failed")
    town.put("failed", b"made")
    town.finish("failed")
    town.put("jobs", b"1")
    town.disk.faults.append(Fault(verb, f"*/{failing}.*/*.segment", nth=nth, times=1_000_000))
    town.fail("jobs")
    town.pass_time(100_000)
    # A client that gets an item now has it alone: it is nowhere else, and will not be.
    town.wait("jobs/dead", "other")
    town.wait("failed", "third")
    town.heard("other")
    town.heard("third")
    assert len(town.done) <= 2
    del town.disk.faults[:]
    town.kill()
    check_after_a_crash(town)


def test_an_open_origin_outlives_its_copy_snapshots_and_the_segment_it_was_put_in() -> None:
    town = TransferHarness()
    town.set_queue("jobs", max_attempts=1, dead_letter_to="failed")
    town.put("failed", b"made")
    town.finish("failed")
    town.put("jobs", b"1")
    town.say("client", b"get jobs/open")
    town.disk.faults.append(Fault("write", "*/jobs.*/*.segment", times=1_000_000))
    town.wait("failed", "waiter")
    failed = town.queue("failed")
    # The dead letter is written before the journal fails; the copy is taken before the MOVED.
    log = town.queue("jobs").log
    assert isinstance(log, JournalLog)
    town.disk.faults[0].nth = 2
    town.say("client", b"get jobs/abort")
    town.heard("waiter")
    assert town.done == {b"made", b"1"}
    assert log.failure is not None
    assert failed.origins
    first = town.segments("failed")
    for number in range(300):
        town.put("failed", b"%d" % number * 500)
        town.finish("failed")
        if number % 100 == 50:
            town.snapshot("failed")
    assert not set(first) & set(town.segments("failed")), "the put is gone"
    assert failed.origins
    town.disk.faults.clear()
    town.kill()
    town.check()
    town.work()
    assert town.origins() == 0
    assert town.queue("jobs").is_empty


def test_without_a_snapshot_a_segment_with_an_open_origin_stays() -> None:
    town = TransferHarness()
    town.put("failed", b"made")
    town.finish("failed")
    queue = town.queue("failed")
    queue.origins[1] = Origin(b"s", b"jobs", 1, 1, lsn=1)
    first = town.segments("failed")
    for number in range(300):
        town.put("failed", b"%d" % number * 500)
        town.finish("failed")
    assert set(first) <= set(town.segments("failed"))
    queue.origins.clear()
    for number in range(100):
        town.put("failed", b"%d" % number * 500)
        town.finish("failed")
    assert not set(first) & set(town.segments("failed"))


def deleted_on_its_way(town: TransferHarness, which: bytes, later: bool) -> None:
    """An item is copied, and one of the two queues is deleted before the original says MOVED."""
    town.set_queue("jobs", max_attempts=1, dead_letter_to="failed")
    town.put("failed", b"made")
    town.put("jobs", b"1")
    town.say("client", b"get jobs/open")
    town.hold_syncs()
    town.say("client", b"get jobs/abort")
    town.perhaps |= town.stored
    town.stored = set()
    town.wait("failed", "waiter")
    town.wait("failed", "other")
    town.say("client", b"delete " + which)
    town.removes = not later
    town.go()
    for who in ("waiter", "other"):
        town.heard(who)
    town.removes = True
    town.work()


@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize("which", [b"jobs", b"failed"])
def test_a_queue_deleted_on_the_way_doubles_nothing_whatever_crashes_when(
    which: bytes, later: bool
) -> None:
    def look(town: TransferHarness) -> None:
        town.removes = True
        check_after_a_crash(town)

    cut_at_every_step(lambda town: deleted_on_its_way(town, which, later), look, seeds=4)


def redriven(town: TransferHarness) -> None:
    town.set_queue("jobs", max_attempts=1)
    for body in (b"1", b"2", b"3"):
        town.put("jobs", body)
    town.fail("jobs")
    town.fail("jobs")
    town.say("client", b"redrive jobs all")
    town.fail("jobs")
    town.say("client", b"redrive jobs 3 again")
    town.finish("jobs")


def test_what_is_redriven_is_there_once_whatever_crashes_when() -> None:
    cut_at_every_step(redriven, check_after_a_crash)


def leased_dead_letters(town: TransferHarness) -> None:
    """By token: one is given back and moved away, the other is confirmed, behind a snapshot."""
    town.set_queue("jobs", max_attempts=1)
    for body in (b"1", b"2"):
        town.put("jobs", body)
        town.fail("jobs")
    first = token_of(town.say("client", b"gets jobs/dead/open/lease=60s"))
    second = token_of(town.say("client", b"gets jobs/dead/open/lease=60s"))
    town.snapshot("jobs")
    town.say("client", b"touch jobs/token=%b 90" % second)
    town.say("client", b"get jobs/abort/token=%b" % first)
    town.say("client", b"redrive jobs 1 failed")
    town.stored.discard(b"2")
    town.perhaps.add(b"2")
    if town.say("client", b"delete jobs/token=%b" % second) == b"DELETED\r\n":
        town.perhaps.discard(b"2")
        town.done.add(b"2")


def token_of(answer: bytes) -> bytes:
    return answer.split()[4] if answer.startswith(b"VALUE ") else b"1"


def test_a_dead_letter_leased_by_token_is_there_once_whatever_crashes_when() -> None:
    def look(town: TransferHarness) -> None:
        check_after_a_crash(town)
        town.pass_time(95_000)
        if b"jobs" in town.broker.queues:
            reader = town.queue("jobs").reader
            assert not reader.leases
            assert reader.dead.count == len(reader.dead.deaths)
            assert reader.dead.bytes + reader.ready.bytes == reader.live_bytes
            while town.finish("jobs") or town.finish("jobs/dead"):
                pass
            assert not reader.live
        check_after_a_crash(town)

    assert cut_at_every_step(leased_dead_letters, look, seeds=4) > 20


def test_a_redriven_item_that_goes_by_itself_dies_again_and_is_moved_once() -> None:
    town = TransferHarness()
    town.set_queue("jobs", max_attempts=1)
    town.put("jobs", b"1")
    town.fail("jobs")
    assert town.say("client", b"redrive jobs all") == b"1\r\n"
    town.set_queue("jobs", dead_letter_to="failed")
    town.fail("jobs")
    town.check()
    assert town.finish("failed") == b"1"
    town.kill()
    town.check()


def test_a_dead_letter_of_a_child_goes_on_after_a_kill_before_it_was_moved() -> None:
    town = TransferHarness()
    town.set_queue(dead_letter_to="failed")  # the queue and its child alike
    town.set_queue("failed", dead_letter_to="none")
    town.say("eve", b"get jobs+a/peek")
    town.put("jobs", b"1")
    town.say("eve", b"get jobs+a/open")
    town.hold_writes()
    town.say("eve", b"get jobs+a/abort/dead=why")
    town.write_queue("jobs")

    town.kill()
    town.work()

    assert town.finish("failed") == b"1"
    assert not town.queue("jobs+a").reader.live


def test_a_start_ends_a_delayed_item_whose_copy_is_on_disk() -> None:
    town = TransferHarness()
    town.say("client", b"set jobs/delay=1h 0 0 3", b"one")
    town.say("client", b"set jobs/delay=1h 0 0 3", b"two")
    town.kill()
    reader = town.queue("jobs").reader
    TransferSource(reader).leave_unread(1, 3, Origin(b"server", b"old", 1, 1), town.now_ms)
    assert (reader.delays.count, list(reader.live), reader.live_bytes) == (1, [2], 3)
    town.work()
    town.kill()
    reader = town.queue("jobs").reader
    assert (reader.delays.count, list(reader.live)) == (1, [2])
    town.pass_time(3_600_000)
    assert town.say("client", b"get jobs") == b"VALUE jobs 0 3\r\ntwo\r\nEND\r\n"
    assert town.say("client", b"get jobs") == b"END\r\n"
