"""A deleted queue with children, and the new queue of its name."""

from __future__ import annotations

import errno
from random import Random

import pytest

from kestrelpy.core.index.waiters import Want
from kestrelpy.core.log.log import JournalLog
from kestrelpy.core.queue.queue import Queue
from kestrelpy.server.reloading import put_in_force
from tests.support.core_harness import no_queue
from tests.support.memory_disk import PowerCut
from tests.support.one_place import misplaced
from tests.support.server_harness import ServerHarness
from tests.support.transfer_harness import TransferHarness, both_deleted_and_the_first_failed


def replace_deleted(stage: ServerHarness) -> None:
    """Have the next queue of the name write a log of its own, as older versions did."""
    for tombstone in stage.broker.tombstones:
        tombstone.is_replaced = True


def test_a_child_of_the_configuration_reads_the_items_of_the_new_queue_after_the_old() -> None:
    stage = ServerHarness()
    stage.set_queue("jobs+audit", lease="1m")
    stage.say("eve", b"set jobs 0 0 1", b"1")
    stage.say("eve", b"delete jobs")

    stage.say("eve", b"set jobs 0 0 1", b"2")
    assert stage.say("bob", b"get jobs+audit") == b"VALUE jobs+audit 0 1\r\n1\r\nEND\r\n"
    stage.pass_time(1000)
    stage.say("eve", b"set jobs 0 0 1", b"3")

    for body in (b"2", b"3"):
        read = stage.say("bob", b"get jobs+audit")
        assert read == b"VALUE jobs+audit 0 1\r\n%b\r\nEND\r\n" % body
    stage.restart()
    stage.say("eve", b"set jobs 0 0 1", b"4")
    assert stage.say("bob", b"get jobs+audit") == b"VALUE jobs+audit 0 1\r\n4\r\nEND\r\n"


def test_a_reload_makes_no_child_of_a_queue_whose_log_failed_and_goes_on_with_the_next() -> None:
    stage = ServerHarness()
    stage.store(b"1")
    stage.say("eve", b"set mail 0 0 1", b"1")
    log = stage.queue("jobs").log
    assert isinstance(log, JournalLog)
    log.journal.fail("writing", "jobs", OSError(errno.EIO, "Input/output error"))
    log.advance()

    stage.set_queue("jobs+audit")
    stage.set_queue("mail+audit")

    assert b"jobs+audit" not in stage.broker.queues
    assert b"mail+audit" in stage.broker.queues


def test_a_deleted_queue_counts_nothing_of_its_items_any_more() -> None:
    """A snapshot of a tombstone would bring the counts back."""
    stage = ServerHarness()
    stage.say("eve", b"get jobs+audit/peek")
    stage.say("eve", b"set jobs/key=k 0 0 1", b"1")
    stage.say("eve", b"set jobs 0 0 1", b"2")
    stage.say("bob", b"get jobs/open")
    stage.say("bob", b"get jobs/abort/delay=1h")
    queue = stage.queue("jobs")
    assert (queue.reader.attempts.get(1), queue.reader.live_bytes) == (1, 2)

    stage.say("eve", b"delete jobs")

    assert queue.is_tombstone
    reader = queue.reader
    assert (reader.live.count, reader.live_bytes, reader.held_keys) == (0, 0, {})
    assert (bool(reader.attempts), reader.out_of_order.count) == (False, 0)


@pytest.mark.parametrize("generations", [1, 2])
@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_start_keeps_nothing_of_deleted_queues_whose_children_are_empty(
    is_replaced: bool, generations: int
) -> None:
    """Such a queue would be in memory for good, with a timer."""
    stage = ServerHarness()
    for name in (b"audit", b"other")[:generations]:
        stage.say("eve", b"get jobs+%b/peek" % name)
        stage.say("eve", b"set jobs/key=k 0 0 1", b"1")
        stage.say("eve", b"delete jobs")
        replace_deleted(stage)
    if is_replaced:
        stage.say("eve", b"set jobs 0 0 1", b"2")
    stage.removes = False
    for name in (b"audit", b"other")[:generations]:
        assert stage.say("bob", b"get jobs+%b" % name).split()[4] == b"1"

    stage.kill()

    timed = [each.thing for each in stage.broker._timers._heap]
    there = [*stage.broker.queues.values(), *stage.broker.tombstones]
    assert [each for each in timed if isinstance(each, Queue) and each not in there] == []


def test_with_its_last_child_deleted_a_tombstone_goes_and_frees_the_name() -> None:
    stage = ServerHarness()
    stage.set_queue("jobs+audit", lease="1m")
    stage.say("eve", b"get jobs+other", b"set jobs 0 0 1", b"1", b"delete jobs")
    replace_deleted(stage)
    stage.say("eve", b"set jobs 0 0 1", b"2")
    assert stage.say("bob", b"delete jobs+other") == b"DELETED\r\n"
    assert stage.say("bob", b"get jobs+audit/peek") == b"VALUE jobs+audit/peek 0 1\r\n1\r\nEND\r\n"

    assert stage.say("bob", b"delete jobs+audit") == b"DELETED\r\n"
    stage.say("eve", b"set jobs 0 0 1", b"3")
    assert stage.say("bob", b"get jobs+audit") == b"VALUE jobs+audit 0 1\r\n3\r\nEND\r\n"
    assert stage.broker.tombstones == []
    assert len([name for name in stage.disk.names("data") if name.startswith("jobs.")]) == 1


@pytest.mark.parametrize(
    "lines",
    [
        (b"get jobs+kid/open", b"get jobs+kid/close/open", b"get jobs+kid/close"),
        (b"get jobs+kid", b"get jobs+kid"),
        (b"delete jobs+kid/upto=1", b"delete jobs+kid/upto=2"),
        (b"flush jobs+kid",),
        (b"get jobs+kid", b"delete jobs+kid/item=2"),
        (b"get jobs+kid", b"gets jobs+kid/open/lease=1s", b"get jobs+kid/close/token=TOKEN"),
    ],
    ids=["confirmed", "taken", "up to one", "flushed", "deleted", "by token"],
)
def test_with_the_last_item_of_its_child_a_tombstone_goes(lines: tuple[bytes, ...]) -> None:
    stage = ServerHarness()
    stage.say("eve", b"get jobs+kid/peek", b"set jobs 0 0 1", b"1", b"set jobs 0 0 1", b"2")
    stage.say("eve", b"delete jobs")
    replace_deleted(stage)
    token = 0
    for line in lines:
        assert stage.broker.tombstones, "the child still has an item"
        said = stage.say("bob", line.replace(b"TOKEN", b"%d" % token))
        assert b"ERROR" not in said
        if line.startswith(b"gets"):
            token = int(said.split(b"\r\n")[0].split()[4])
    stage.pass_time(10)

    assert stage.broker.tombstones == []
    assert not [name for name in stage.disk.names("data") if name.startswith("jobs.")]


def test_what_a_child_of_a_tombstone_was_handed_is_settled() -> None:
    town = TransferHarness()
    town.say("eve", b"get later+audit", b"set later 0 0 1", b"0", b"delete later")
    town.put("jobs", b"1")
    assert town.hand("jobs", "later+audit") == b"STORED\r\n"
    (remnant,) = town.broker.tombstones
    assert remnant.origins == {}
    town.kill()
    for body in (b"0", b"1|"):
        assert town.say("bob", b"get later+audit").split()[4] == body


def test_a_new_queue_on_disk_before_the_delete_takes_nothing_from_a_child_of_the_old_one() -> None:
    town = TransferHarness()
    town.set_queue("jobs+audit", lease="1m")
    town.put("jobs", b"1")
    town.hold_writes()
    assert town.say("eve", b"delete jobs") == b""
    replace_deleted(town)
    assert town.say("bob", b"set jobs 0 0 1", b"2") == b""
    town.write_queue("jobs")
    town.sync_queue("jobs")
    town.work()
    assert town.client("bob").take() == b"STORED\r\n"
    for _ in range(2):  # the delete is on disk with the start, or done by the next one
        town.cut_power()
        assert town.say("bob", b"get jobs/peek") == b"VALUE jobs/peek 0 1\r\n2\r\nEND\r\n"
        held = town.say("bob", b"get jobs+audit/open")
        assert held == b"VALUE jobs+audit/open 0 1\r\n1\r\nEND\r\n"
        assert [queue.name for queue in town.broker.tombstones] == [b"jobs"], "it was deleted"
    assert town.say("bob", b"get jobs+audit/close") == b"END\r\n"
    town.restart()
    assert len([name for name in town.disk.names("data") if name.startswith("jobs.")]) == 1


def test_after_a_restart_too_a_new_queue_has_another_folder_than_a_tombstone_of_its_name() -> None:
    stage = ServerHarness()
    stage.set_queue("jobs+audit", lease="1m")
    stage.say("eve", b"set jobs 0 0 1", b"1")
    stage.say("eve", b"delete jobs")
    replace_deleted(stage)
    stage.restart()
    stage.say("eve", b"set jobs 0 0 1", b"2")
    assert stage.say("bob", b"get jobs+audit") == b"VALUE jobs+audit 0 1\r\n1\r\nEND\r\n"
    stage.restart()
    assert stage.say("bob", b"get jobs") == b"VALUE jobs 0 1\r\n2\r\nEND\r\n"


@pytest.mark.parametrize("has_child", [False, True])
def test_a_delete_is_answered_when_no_earlier_queue_of_the_name_can_come_back(
    has_child: bool,
) -> None:
    town = TransferHarness()
    town.put("jobs", b"1")
    if has_child:
        assert town.say("eve", b"get jobs+audit/from=0/peek").startswith(b"VALUE")
    town.hold_writes()
    assert town.say("bob", b"set jobs 0 0 1", b"2") == b""  # holds the first delete up
    assert town.say("eve", b"delete jobs") == b""
    assert town.say("eva", b"set jobs 0 0 1", b"3") == b""
    town.write_queue("jobs")
    town.sync_queue("jobs")
    town.work()
    assert town.client("eva").take() == b"STORED\r\n"
    assert town.say("eva", b"delete jobs") == b"", "the files of the first are there still"
    town.go()
    assert town.client("bob").take() == b"STORED\r\n"
    assert town.client("eve").take() == b"DELETED\r\n"
    assert town.client("eva").take() == b"DELETED\r\n"
    town.cut_power()
    assert town.say("eva", b"get jobs/peek") == b"END\r\n"
    if has_child:
        assert town.take("jobs+audit", "ann") == b"1"


def test_a_delete_is_answered_when_an_earlier_queue_that_was_in_its_way_has_gone() -> None:
    town = TransferHarness()
    town.say("eve", b"get jobs+audit/peek")
    town.put("jobs", b"old")
    town.say("eve", b"delete jobs")
    replace_deleted(town)
    town.put("jobs", b"new")
    town.removes = False
    assert town.say("eve", b"delete jobs") == b""
    replace_deleted(town)
    assert town.say("bob", b"delete jobs+audit") == b"DELETED\r\n", "the earlier one goes as well"
    town.removes = True
    town.work()
    assert town.client("eve").take() == b"DELETED\r\n"
    assert not [name for name in town.disk.names("data") if name.startswith("jobs.")]


MISTAKEN = (
    b"items of %b do not go to %b: one is of a queue jobs that was deleted, the other of a later "
    b"one; name another queue"
)


def after_a_delete(town: TransferHarness) -> None:
    """A child has an item of a deleted queue, and the queue made since has one."""
    town.set_queue("jobs+audit", lease="1m")
    town.put("jobs", b"old")
    town.say("eve", b"delete jobs")
    replace_deleted(town)
    town.put("jobs", b"new")
    town.stored.add(b"old")


@pytest.mark.parametrize(
    ("source", "body", "target"), [("jobs+audit", b"old", "jobs"), ("jobs", b"new", "jobs+audit")]
)
def test_between_a_tombstone_and_the_later_queue_of_its_name_nothing_is_handed_off(
    source: str, body: bytes, target: str
) -> None:
    town = TransferHarness()
    after_a_delete(town)
    assert town.take(source) == body
    answer = town.pass_on(target, body)
    assert answer == b"CLIENT_ERROR " + MISTAKEN % (source.encode(), target.encode()) + b"\r\n"
    assert town.pass_on("next", body) == b"STORED\r\n", "it is with its holder"
    town.cut_power()
    assert town.take("next") == body + b"|"
    assert town.take(source) is None


def test_before_the_later_queue_is_made_a_tombstone_hands_nothing_off_to_its_name() -> None:
    town = TransferHarness()
    town.set_queue("jobs+audit", lease="1m")
    town.put("jobs", b"old")
    town.say("eve", b"delete jobs")
    replace_deleted(town)
    assert town.take("jobs+audit") == b"old"
    answer = town.pass_on("jobs", b"old")
    assert answer == b"CLIENT_ERROR " + MISTAKEN % (b"jobs+audit", b"jobs") + b"\r\n"
    assert b"jobs" not in town.broker.queues, "a refusal leaves nothing behind"


@pytest.mark.parametrize("is_made", [True, False])
def test_a_tombstone_moves_nothing_to_the_later_queue_of_its_name(is_made: bool) -> None:
    town = TransferHarness()
    after_a_delete(town)
    if not is_made:
        town.finish("jobs")
        town.say("eve", b"delete jobs")
    answer = town.say("eve", b"move jobs+audit jobs 10")
    assert answer == b"CLIENT_ERROR " + MISTAKEN % (b"jobs+audit", b"jobs") + b"\r\n"
    assert (b"jobs" in town.broker.queues) == is_made
    assert town.say("eve", b"move jobs+audit next 10") == b"1\r\n"
    town.cut_power()
    assert town.take("next") == b"old"


@pytest.mark.parametrize("other", [b"jobs+other", b""])
def test_a_child_is_deleted_when_that_of_the_earlier_queue_cannot_come_back(other: bytes) -> None:
    town = TransferHarness()
    town.set_queue("jobs+audit", lease="1m")
    if other:  # so that something is left of the earlier queue
        town.say("eve", b"get %b/peek" % other)
    town.put("jobs", b"old")
    town.say("eve", b"delete jobs")
    replace_deleted(town)
    town.put("jobs", b"new")
    town.hold_syncs()
    assert town.say("bob", b"delete jobs+audit") == b""
    town.hang_up("bob")
    assert town.say("eve", b"delete jobs+audit") == b"", "that of the queue which is there now"
    town.sync_queue("jobs")
    town.work()
    assert town.client("eve").take() == b"", "the other one is not gone for good"
    town.go()
    assert town.client("eve").take() == b"DELETED\r\n"
    town.cut_power()
    assert town.take("jobs+audit") is None


@pytest.mark.parametrize("restarts", [False, True])
def test_with_its_last_child_deleted_a_tombstone_goes_and_gives_the_name_on(restarts: bool) -> None:
    town = TransferHarness()
    town.set_queue("jobs+audit", lease="1m")
    town.put("jobs", b"old")
    town.say("eve", b"delete jobs")
    replace_deleted(town)
    town.put("jobs", b"new")
    if restarts:
        town.restart()
    assert len([name for name in town.disk.names("data") if name.startswith("jobs.")]) == 2
    assert town.say("eve", b"delete jobs+audit") == b"DELETED\r\n"
    assert town.broker.tombstones == []
    assert len([name for name in town.disk.names("data") if name.startswith("jobs.")]) == 1
    town.put("jobs", b"newer")
    assert town.take("jobs+audit") == b"newer"


def two_with_a_child_of_one_name(*later: bytes) -> TransferHarness:
    """Make a deleted queue whose jobs+audit has `first`, and a new one whose child has `later`."""
    town = TransferHarness()
    town.set_queue("jobs+audit", lease="1m")
    town.put("jobs", b"first")
    town.say("eve", b"delete jobs")
    replace_deleted(town)
    town.put("jobs", b"for nobody")
    town.hold_writes()
    assert town.say("eve", b"delete jobs+audit") == b"", "frees the name: the later queue has one"
    for body in later:
        town.put("jobs", body)
    town.write_queue("jobs")
    town.sync_queue("jobs")
    town.cut_power()  # the earlier one is back
    return town


@pytest.mark.parametrize("restarts", [False, True])
def test_of_two_tombstones_with_a_child_of_one_name_the_later_one_is_read_next(
    restarts: bool,
) -> None:
    town = two_with_a_child_of_one_name(b"second")
    town.put("jobs", b"third")
    assert town.say("eve", b"delete jobs") == b"DELETED\r\n"
    replace_deleted(town)
    if restarts:
        town.restart()
    assert len(town.broker.tombstones) == 2
    for body in (b"first", b"second", b"third"):
        assert town.finish("jobs+audit") == body
    assert len(town.broker.tombstones) == restarts, "a start keeps the newest for its child"


@pytest.mark.parametrize("has_file", [False, True])
def test_a_later_queue_that_was_never_written_makes_no_earlier_one_go(has_file: bool) -> None:
    """Else what was handed off there would be gone now, and back with the next start."""
    town = TransferHarness()
    town.put("jobs", b"1")
    town.put("next", b"0")
    town.take("jobs")
    town.hold_syncs()
    town.pass_on("next", b"1")
    town.sync_queue("next")
    town.removes = False
    if has_file:
        town.say("eve", b"delete next")
        town.say("bob", b"set next 0 0 1", b"2")
    else:
        town.disk.make_folder(f"data/next.{town.queue('next').generation + 1}")
    town.come_back(town.disk.crash_clone(Random(0), "lost"), False)
    for _ in range(3):
        assert sorted(town.stored_bodies()) == [("next", b"0"), ("next", b"1|")]
        assert len([name for name in town.disk.names("data") if name.startswith("next.")]) == 1
        town.kill()


def test_a_child_that_is_there_is_not_made_again_when_one_of_its_name_goes() -> None:
    town = two_with_a_child_of_one_name()
    town.say("eve", b"get jobs+other/peek")
    town.put("jobs+other", b"so that the later queue stays")
    assert town.take("jobs+audit", "bob", "/lease=1m") == b"first"
    town.hold_syncs()
    assert town.say("bob", b"set next/confirm=jobs+audit:%d 0 0 1" % town.token, b"2") == b""
    town.say("eve", b"delete jobs")  # and the later one's child, empty
    replace_deleted(town)
    assert b"_leased 1\r\n" in town.say("ann", b"stats jobs+audit")
    assert len([*town.queue("jobs+audit").reader.leases]) == 1
    town.say("ann", b"delete jobs+audit")
    town.go()
    assert town.client("bob").take() == b"STORED\r\n"
    assert town.client("ann").take() == town.client("eve").take() == b"DELETED\r\n"


@pytest.mark.parametrize("sync", ["never", "1h"])
def test_that_a_queue_is_deleted_is_synced_whatever_its_items_wait_for(sync: str) -> None:
    town = TransferHarness()
    town.set_queue("jobs", sync=sync)
    town.say("eve", b"get jobs+audit/peek")
    town.put("jobs", b"1")
    town.hold_syncs()
    assert town.say("eve", b"delete jobs") == b""
    put_in_force(town.policies, town.broker, town.now_ms)
    town.work()
    assert town.client("eve").take() == b"", "not even after a reload"
    town.go()
    assert town.client("eve").take() == b"DELETED\r\n"
    town.cut_power()
    assert town.take("jobs") is None
    assert town.take("jobs+audit") == b"1"


def test_what_was_handed_off_to_a_child_that_was_deleted_stays_gone_when_its_queue_goes() -> None:
    town = TransferHarness()
    town.say("eve", b"get jobs+audit/peek")
    town.put("next", b"0")
    town.take("next")
    town.hold_syncs()
    town.removes = False
    assert town.pass_on("jobs+audit", b"0") == b""
    town.sync_queue("jobs")
    town.work()
    assert town.client("client").take() == b"STORED\r\n"
    log = town.queue("jobs").log
    assert isinstance(log, JournalLog)
    town.say("eve", b"delete jobs")
    town.say("bob", b"delete jobs+audit")
    town.write_log(log)
    job = log.journal.begin_sync()
    assert job is not None
    job.run()
    town.removes = True
    town.come_back(town.disk.crash_clone(Random(0), "lost"), False)
    for _ in range(3):
        town.go()
        assert town.stored_bodies() == []
        assert not [name for name in town.disk.names("data") if name.startswith("jobs.")]
        town.cut_power()


def test_a_child_that_a_start_found_deleted_stays_so_while_what_came_to_it_is_settled() -> None:
    town = TransferHarness()
    town.say("eve", b"get jobs+audit/peek", b"set jobs 0 0 1", b"1", b"delete jobs")
    replace_deleted(town)
    town.put("jobs", b"2")
    town.put("next", b"0")
    town.take("next")
    town.hold_syncs()
    assert town.pass_on("jobs+audit", b"0") == b""
    assert town.say("bob", b"delete jobs+audit") == b""
    town.kill()
    assert b"jobs+audit" not in town.broker.queues

    town.come_back(town.disk.crash_clone(Random(0), "lost"), False)

    assert town.take("jobs+audit") is None, "what was gone is back"
    town.go()
    assert len([name for name in town.disk.names("data") if name.startswith("jobs.")]) == 1
    assert town.take("jobs") == b"2"


@pytest.mark.parametrize("source", ["jobs", "jobs+audit"])
def test_what_was_handed_off_stays_gone_when_its_queue_and_where_it_went_are_deleted(
    source: str,
) -> None:
    town = TransferHarness()
    town.say("eve", f"get {source}/peek".encode())
    assert town.say("ann", f"set {source} 0 0 1".encode(), b"0") == b"STORED\r\n"
    town.take(source)
    town.put("next", b"1")
    town.hold_writes()
    assert town.say("ann", b"set jobs 0 0 1", b"2") == b"", "what waits for the disk holds jobs up"
    assert town.pass_on("next", b"0") == b""
    assert town.say("eve", b"delete jobs") == b""
    if source != "jobs":
        assert town.say("bob", b"delete jobs+audit") == b""
    town.write_queue("next")
    town.sync_queue("next")
    town.work()
    assert town.client("client").take() == b"STORED\r\n"
    assert town.say("eva", b"delete next") == b""
    town.work()
    town.come_back(town.disk.crash_clone(Random(0), "lost"), False)
    for _ in range(3):
        assert ("next", b"0|") in town.stored_bodies(), "its delete was not answered"
        assert (source, b"0") not in town.stored_bodies(), "what was handed off came back"
        town.go()
        town.cut_power()


def test_the_files_that_still_have_an_original_go_before_those_with_its_copy() -> None:
    for step in range(1, 100):
        town = both_deleted_and_the_first_failed()
        town.disk.cut_power_at(step)
        try:
            town.work()
        except PowerCut:
            town.come_back(town.disk.crash_clone(Random(step), "random"), True)
            assert ("jobs", b"0") not in town.stored_bodies(), f"it came back at step {step}"
        else:
            assert town.client("eve").take() == town.client("eva").take() == b"DELETED\r\n"
            assert step > 5
            return
    raise AssertionError("it never ended")


def test_two_deleted_queues_with_copies_of_each_other_s_originals_do_not_wait_for_good() -> None:
    town = both_deleted_and_the_first_failed(is_back=True)
    town.work()
    assert town.client("eve").take() == town.client("eva").take() == b"DELETED\r\n"
    assert not [name for name in town.disk.names("data") if "." in name]


def test_the_files_of_a_deleted_queue_wait_for_no_hand_off_between_others() -> None:
    town = TransferHarness()
    town.put("other", b"1")
    town.put("jobs", b"0")
    town.take("jobs")
    town.hold_syncs()
    assert town.pass_on("next", b"0") == b"", "under way"

    assert town.say("eve", b"delete other") == b"DELETED\r\n"
    assert town.client("client").take() == b"", "it is under way still"


def test_what_is_delayed_in_a_child_of_a_tombstone_follows_the_clock() -> None:
    stage = ServerHarness()
    stage.say("eve", b"get jobs+audit/peek")
    at = stage.unix_ms // 1000 + 60
    stage.say("eve", b"set jobs/at=%d 0 0 1" % at, b"1")
    stage.say("eve", b"delete jobs")

    stage.broker.step_clock(stage.broker.clock.offset_ms + 61_000)
    stage.pass_time(10)

    assert stage.say("bob", b"get jobs+audit") == b"VALUE jobs+audit 0 1\r\n1\r\nEND\r\n"


def test_children_that_clients_waited_for_are_absent_no_more_when_they_are_made() -> None:
    q = no_queue()
    names = [b"jobs+a", b"jobs+b"]
    for name in names:
        q.broker.wait(Want.OPEN, name, q.who("anna"), False, name, q.now_ms + 1000)
    assert q.broker.absent_children(b"jobs") == names
    q.broker.create(b"jobs", q.now_ms)
    assert {*names} <= q.broker.queues.keys()
    assert misplaced(q.broker) == []


def test_a_tombstone_is_deleted_also_after_a_start_and_retains_nothing_at_once() -> None:
    stage = ServerHarness()
    stage.set_queue("jobs", retain="forever")
    stage.say("eve", b"get jobs+audit/peek")
    stage.say("eve", b"set jobs 0 0 1", b"1")
    stage.say("eve", b"get jobs")
    stage.say("eve", b"delete jobs")
    (remnant,) = stage.broker.tombstones
    assert remnant.retained is None

    stage.restart()

    (remnant,) = stage.broker.tombstones
    assert remnant.deleted


def test_a_waiter_whose_queue_is_deleted_as_its_time_ends_is_answered_once() -> None:
    q = no_queue()
    q.put(b"1")
    q.take()
    q.wait("anna", 100)
    q.delete()
    q.now_ms += 100

    q.broker.tick(q.now_ms)

    assert q.answers() == [("anna", None)]


def test_a_queue_has_the_second_of_its_creation_for_a_generation_over_restarts() -> None:
    stage = ServerHarness()
    stage.store(b"1")
    created_ms = stage.queue("jobs").created_ms
    assert stage.queue("jobs").generation == stage.unix_ms // 1000

    stage.pass_time(60_000)
    stage.restart()
    assert created_ms - 1000 <= stage.queue("jobs").created_ms <= created_ms
