"""A hand-off is both or neither, whatever crashes when: a crash on either side of every step.

Promise hand-off: power cut and kill before every verb of the disk, a second one in the start that
    follows; snapshots between the steps; failed writes and syncs on either side; random lives, and
    random histories against a model that knows where each item may be, with queues and children
    deleted and made anew between any two steps; fan-out children as sides; a chain of three queues
    under `kill -9` of the real process, 60 times in the soak.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from journal.format.kinds import Kind
from journal.write.writer import Journal
from kestrelpy.core.log.log import JournalLog
from tests.golden.build import GOLDEN, NEWEST
from tests.support.transfer_harness import (
    TransferHarness,
    check_after_a_crash,
    cut_at_every_step,
    cut_twice,
)

SEEDS = range(40)
QUEUES = ("one", "two", "three")


def through_three_queues(town: TransferHarness) -> None:
    """Two items through three queues, one of them at the end."""
    for number in range(2):
        town.put("one", b"%d" % number)
    town.hand("one", "two")
    town.hand("two", "three")
    town.hand("one", "two")
    town.finish("three")


def test_a_row_of_queues_hands_on_exactly_once_whatever_crashes_when() -> None:
    assert cut_at_every_step(through_three_queues, check_after_a_crash) > 20


def put_off(town: TransferHarness) -> None:
    """Hand off one item into its own queue several times, with other bodies, keys and delays."""
    town.put("jobs", b"1")
    town.put("jobs", b"2")
    town.hand("jobs", "jobs")
    town.hand("jobs", "jobs", options="/key=A")
    town.hand("jobs", "jobs", options="/delay=1s")
    town.pass_time(1000)
    town.hand("jobs", "jobs")
    town.finish("jobs")


def test_within_one_queue_it_is_both_or_neither_whatever_crashes_when() -> None:
    assert cut_at_every_step(put_off, check_after_a_crash) > 10


def by_token(town: TransferHarness) -> None:
    """Another connection hands off items that are leased by token, dead, or were delayed."""
    town.set_queue("jobs", max_attempts=1)
    for body in (b"1", b"2"):
        town.put("jobs", body)
    town.take("jobs", "anna", "/lease=1h")
    town.pass_on("next", b"1", "ben", f"=jobs:{town.token}")
    town.fail("jobs")
    town.say("client", b"get jobs/dead/open")
    town.pass_on("next", b"2", options="/delay=1s")
    town.pass_time(1000)
    town.finish("next")


def test_by_token_and_from_the_dead_line_too() -> None:
    def look(town: TransferHarness) -> None:
        check_after_a_crash(town)
        town.pass_time(4_000_000)
        check_after_a_crash(town)

    assert cut_at_every_step(by_token, look) > 15


def taken_at_once(town: TransferHarness) -> None:
    """A client waits in the target: it confirms the copy before the source logs MOVED."""
    town.put("next", b"made")
    town.finish("next")
    town.put("jobs", b"1")
    town.wait("next", "waiter")
    town.hand("jobs", "next")
    town.heard("waiter")


def test_a_copy_that_was_confirmed_before_its_origin_was_settled_stays_done() -> None:
    cut_at_every_step(taken_at_once, check_after_a_crash, seeds=6)


CHILDREN = [
    ("orders+audit", "next"), ("next", "orders+audit"), ("orders+audit", "orders+mail"),
    ("orders+audit", "orders+audit"),
]  # fmt: skip


@pytest.mark.parametrize(("source", "to"), CHILDREN)
def test_fan_out_children_are_sides_of_it_whatever_crashes_when(source: str, to: str) -> None:
    """An item that is put into a child is seen only there, and so it is there once."""

    def act(town: TransferHarness) -> None:
        town.put(source, b"1")
        town.hand(source, to)
        town.put(source, b"2")
        body = town.take(source, "anna", "/lease=1h")
        assert body is not None
        town.pass_on(to, body, "ben", f"={source}:{town.token}/delay=1s")
        town.finish(to)

    def look(town: TransferHarness) -> None:
        check_after_a_crash(town)
        town.pass_time(4_000_000)
        check_after_a_crash(town)

    cut_at_every_step(act, look)


def test_what_a_child_hands_off_its_parent_and_the_others_have_still() -> None:
    town = TransferHarness()
    town.say("a", b"get orders+audit", b"get orders+mail")
    town.put("orders", b"1")
    for source in ("orders+audit", "orders", "orders+mail"):
        assert town.take(source) == b"1"
        assert town.pass_on("next", b"1") == b"STORED\r\n"
    town.kill()
    town.work()
    assert [body for _, body in town.stored_bodies()] == [b"1|"] * 3
    assert town.origins() == 0
    assert {queue for queue, _ in town.stored_bodies()} == {"next"}


def snapshots_between(town: TransferHarness) -> None:
    """Both queues take snapshots during the hand-off, and write enough that segments go."""
    town.put("next", b"made")
    town.finish("next")
    town.put("jobs", b"1")
    town.take("jobs")
    town.hold_syncs()
    town.pass_on("next", b"1")
    town.sync_once()
    for queue in ("jobs", "next"):
        if town.queue(queue).log.lsn_durable == town.queue(queue).log.lsn_appended:
            town.snapshot(queue)
    town.go()
    for queue in ("jobs", "next"):
        town.snapshot(queue)


def test_snapshots_between_its_steps_change_nothing() -> None:
    cut_at_every_step(snapshots_between, check_after_a_crash)


@pytest.mark.parametrize("act", [through_three_queues, put_off])
def test_a_second_crash_while_a_start_settles_changes_nothing(
    act: Callable[[TransferHarness], object],
) -> None:
    cut_twice(act, 9)


def journal_of(town: TransferHarness) -> Journal:
    log = town.queue("jobs").log
    assert isinstance(log, JournalLog)
    return log.journal


def test_where_the_record_for_those_who_count_was_torn_a_start_says_it_again() -> None:
    """The PUT is enough: the MOVED after it may be lost."""
    town = TransferHarness()
    town.put("jobs", b"1")
    town.put("jobs", b"2")
    town.take("jobs")
    town.hold_writes()
    town.pass_on("jobs", b"1")
    journal = journal_of(town)
    assert [draft[0] for draft in journal._pending] == [Kind.PUT, Kind.MOVED]
    del journal._pending[1]
    journal.commit.lsn_appended -= 1
    town.writes = True
    town.write()
    for _ in range(2):  # and again, should that be lost as well
        town.kill()
        town.check()
        assert town.queue("jobs").reader.live.count == 2
        assert sum(segment.live for segment in journal_of(town).segments) == 2
    town.work()
    assert sum(segment.live for segment in journal_of(town).segments) == 2, "counted once"
    town.restart()
    check_after_a_crash(town)
    assert [r.item for r in town.records("jobs") if r.kind == Kind.MOVED] == [1]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_life_of_hand_offs_and_crashes_loses_nothing_and_doubles_nothing(seed: int) -> None:
    random = Random(seed)
    town = TransferHarness()
    town.set_queue("one", max_attempts=2, dead_letter_to="three")
    number = 0
    for step in range(150):
        choice = random.randrange(20)
        source, target = random.choice(QUEUES), random.choice(QUEUES)
        if choice <= 5:
            number += 1
            town.put("one", b"%d" % number)
        elif choice <= 11:
            options = random.choice(("", "", "", "/delay=1s", "/key=A", "/key=B"))
            # The client hangs up, or stays and is answered.
            who = f"worker {step}"
            town.hand(source, target, who, options)
            if random.random() < 0.5 and who in town.clients:
                town.hang_up(who)
        elif choice == 12 and town.syncs:
            town.finish(random.choice(QUEUES))
        elif choice == 13:
            who = f"anna {step}"
            body = town.take(source, who, "/lease=5s")
            if body is not None and random.random() < 0.7:
                town.pass_on(target, body, f"ben {step}", f"={source}:{town.token}")
        elif choice == 14:
            town.pass_time(random.randrange(1500))
        elif choice == 15:
            random.choice((town.hold_syncs, town.hold_writes))()
        elif choice == 16:
            random.choice((town.write_once, town.sync_once))()
        elif choice == 17 and town.syncs:
            town.work()
            for name in [*town.broker.queues]:
                town.snapshot(name.decode())
        elif choice == 18:
            town.go()
        else:
            town.crash(random)
        if step % 10 == 9:
            town.go()
            town.check()
    town.go()
    town.pass_time(5000)
    check_after_a_crash(town)


def test_the_golden_journal_is_read_as_it_was_meant() -> None:
    town = TransferHarness()
    folder = "data/flow.1767323000"
    town.disk.make_folder(folder)
    for path in (GOLDEN / NEWEST / "handed.1").iterdir():
        data = path.read_bytes()
        town.disk.create(f"{folder}/{path.name}", data, len(data)).close()
    town.kill()
    flow, audit = town.queue("flow"), town.queue("flow+audit")
    assert list(flow.reader.live) == [4, 5, 7, 8, 9, 11, 12]
    assert flow.reader.live_bytes == sum(map(len, (
        b"two, later", b"drei!", b"seven", b"eight", b"for all now", b"eleven", b"instead of ten",
    )))  # fmt: skip
    assert list(audit.reader.live) == [7, 8, 9, 10, 11, 12], "what the parent hands off it has"
    assert flow.reader.delays.count == 1
    assert flow.origins == {}
    town.work()
    assert [r.item for r in town.records("flow") if r.kind == Kind.MOVED] == [1, 2, 3, 6, 10]


def test_a_move_within_one_log_is_settled_with_a_snapshot_between() -> None:
    town = TransferHarness()
    town.put("orders+audit", b"1")
    town.hold_syncs()
    town.say("client", b"move orders+audit orders 1")
    town.sync()
    town.snapshot("orders")
    for _ in range(2):
        town.kill()
        town.work()
        assert sorted(town.stored_bodies()) == [("orders", b"1"), ("orders+audit", b"1")]
        assert town.origins() == 0


def test_the_origin_of_a_hand_off_to_a_child_is_open_until_its_source_is_on_disk() -> None:
    town = TransferHarness()
    town.say("client", b"get orders+audit")
    town.put("jobs", b"1")
    body = town.take("jobs")
    assert body is not None
    town.hold_syncs()
    town.pass_on("orders+audit", body)
    assert town.origins() == 1
    town.go()
    town.work()
    assert town.origins() == 0
    assert [r.item for r in town.records("orders") if r.kind == Kind.SETTLED] == [1]
