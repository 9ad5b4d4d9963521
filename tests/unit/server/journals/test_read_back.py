"""Reads: an item that a shortage leaves unread is not damaged, not gone, and comes later.

Promises: unreadable, shortage.
"""

from __future__ import annotations

import errno
from unittest.mock import patch

import pytest

from journal.sets.id_set import IdSet
from journal.write.segment_file import Sizes
from kestrelpy.core.policy import Policy
from kestrelpy.core.queue.ack_up_to import AckUpTo
from kestrelpy.core.queue.admin import Admin
from kestrelpy.core.queue.child_queue import ChildQueue
from kestrelpy.core.queue.queue import NOT_STORED
from kestrelpy.core.subscription.subscription import ABORTED
from kestrelpy.operations import QueueAdmin, queue_state
from tests.support.disk_harness import NAME, DiskHarness, at_once
from tests.support.memory_disk import Fault

ITEMS = 40


@pytest.fixture
def life(monkeypatch: pytest.MonkeyPatch) -> DiskHarness:
    """Forty items over many segments, none in memory."""
    monkeypatch.setattr("kestrelpy.core.index.memory_budget.FREE_BYTES", 0)
    monkeypatch.setattr("kestrelpy.core.index.dead_letters.MEMORY_BYTES_MAX", 0)
    life = DiskHarness(Policy(max_memory_bytes=0, max_attempts=2), Sizes(2048, 2048, 1 << 20))
    for n in range(ITEMS):
        life.put(body(n))
        life.commit()
    life.do_all()
    return life


def body(n: int) -> bytes:
    return b"%03d" % n * 50


def be_short(life: DiskHarness, times: int) -> Fault:
    fault = Fault("read", "*.segment", times=times, error=errno.EMFILE)
    life.disk.faults = [fault]
    return fault


def look_in_vain(life: DiskHarness) -> None:
    """Look for the next item until the read scheduled for it has failed."""
    while not life.reader.unread:
        life.reader.first(life.now_ms)
        life.reader.first(life.now_ms, dead=True)
        assert life.do_some()


def test_ready_items_come_in_sequence_and_count_during_the_read(life: DiskHarness) -> None:
    fault = be_short(life, 3)
    look_in_vain(life)
    assert fault.fired == 1
    assert "Too many open files" in life.reader.unread
    assert life.reader.ready.count == ITEMS
    assert life.reader.is_busy(life.now_ms), "no client is told that the queue is empty"
    assert life.jobs.add(b"x", 0, 0, life.now_ms) == NOT_STORED
    assert not life.jobs.is_empty
    assert life.take_all() == [body(n) for n in range(ITEMS)]
    assert fault.fired == 3
    assert life.reader.unread == ""
    assert life.damages == []


def test_a_shortage_that_goes_on_is_tried_once_in_a_pause(life: DiskHarness) -> None:
    fault = be_short(life, 1 << 20)
    look_in_vain(life)
    work = list(life.background.work)
    for _ in range(10):
        life.reader.first(life.now_ms)
        life.end_turn()
    assert life.background.work == work, "not before the pause is over"
    assert fault.fired == 1


def test_an_out_of_order_item_comes_at_its_place(life: DiskHarness) -> None:
    leases = [life.open() for _ in range(6)]
    for lease in leases:
        assert lease is not None
        life.reader.ready_items.said(lease)
        life.reader.nack(lease, life.now_ms, ABORTED)
    life.commit()
    assert life.reader.ready.disk_refs.count
    fault = be_short(life, 2)
    look_in_vain(life)
    assert life.reader.ready.count == ITEMS
    assert life.take_all() == [body(n) for n in range(ITEMS)]
    assert fault.fired == 2
    assert life.damages == []


def test_a_dead_item_is_shown_when_it_can_be_read(life: DiskHarness) -> None:
    for _ in range(2):
        lease = life.open()
        assert lease is not None
        life.reader.ready_items.said(lease)
        life.reader.nack(lease, life.now_ms, ABORTED)
    life.commit()
    assert life.reader.dead.sought == 1
    fault = be_short(life, 2)
    look_in_vain(life)
    assert life.reader.dead.count == 1
    assert life.reader.is_busy(life.now_ms, dead=True)
    assert life.peek(dead=True) == body(0)
    assert fault.fired == 2
    assert life.damages == []


def test_a_flush_ends_the_shortage_of_its_items(life: DiskHarness) -> None:
    be_short(life, 1 << 20)
    look_in_vain(life)
    life.jobs.flush(life.now_ms)
    life.do_all()
    assert life.reader.unread == ""
    assert life.background._shortage.count == 0


def test_an_unreadable_item_after_a_shortage_is_logged_and_ends_it(life: DiskHarness) -> None:
    be_short(life, 2)
    look_in_vain(life)
    life.disk.faults.append(Fault("read", "*.segment", times=1 << 20, error=errno.EIO))
    assert len(life.take_all()) < ITEMS
    assert life.damages, "the disk has lost them"
    assert life.reader.unread == ""
    assert life.background._shortage.count == 0


def test_an_unreadable_out_of_order_item_is_logged_at_once(life: DiskHarness) -> None:
    lease = life.open()
    assert lease is not None
    life.reader.ready_items.said(lease)
    life.reader.nack(lease, life.now_ms, ABORTED)
    life.commit()
    assert life.reader.ready.disk_refs.count == 1
    life.disk.faults = [Fault("read", "*.segment", times=1 << 20, error=errno.EIO)]
    life.reader.first(life.now_ms)
    life.end_turn()
    while life.background.do_one():
        pass
    assert [each.id_last for each in life.damages] == [1], "before anybody looks again"


def test_when_no_item_is_readable_each_file_and_the_queue_are_logged_at_once(
    life: DiskHarness,
) -> None:
    life.disk.faults = [Fault("read", "*.segment", times=1 << 20, error=errno.EIO)]
    assert life.take_all() == []
    *in_files, in_queue = life.damages
    assert (in_files[0].id_first, in_files[-1].id_last) == (1, ITEMS), "each file, also the last"
    assert (in_queue.id_first, in_queue.id_last) == (1, ITEMS)


def unreadable(life: DiskHarness) -> list[int]:
    """Return the items that the queue calls unreadable; its state is `damaged` if there are any."""
    found = list(life.reader.unreadable)
    assert queue_state(life.jobs, life.now_ms) == ("damaged" if found else "ok")
    return found


def lose(life: DiskHarness) -> None:
    """From now on the disk gives no segment."""
    life.disk.faults = [Fault("read", "*.segment", times=1 << 20, error=errno.EIO)]


def give_up(life: DiskHarness) -> int:
    """Acknowledge the loss; return of how many items."""
    steps = QueueAdmin(life.broker, life).acknowledge(life.jobs, life.now_ms)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return int(end.value[0])


def test_ready_items_that_cannot_be_read_count_until_they_are_given_up(life: DiskHarness) -> None:
    first = life.open()
    lose(life)
    came = 1 + len(life.take_all())  # with those that memory had
    lost = unreadable(life)
    assert lost == list(range(came + 1, ITEMS + 1)), "not the leased one"
    assert give_up(life) == ITEMS - came
    life.commit()
    assert unreadable(life) == []
    assert list(life.reader.live) == [1]
    assert life.reader.ready.count == 0
    assert first is not None
    life.reader.confirm(first, life.now_ms)
    life.disk.faults = []
    life.put(b"new")
    assert life.take_all() == [b"new"]
    life.commit()
    life.kill()
    assert life.take_all() == []
    assert life.jobs.is_empty


def write_and_sync(life: DiskHarness) -> None:
    """Write and sync all records, without a snapshot of them."""
    while life.write():
        pass
    life.sync()


@pytest.mark.parametrize("state", ["ready", "dead"])
def test_a_loss_that_was_acknowledged_is_none_after_a_kill_without_a_snapshot(
    life: DiskHarness, state: str
) -> None:
    if state == "dead":
        for _ in range(2):
            lease = life.open()
            assert lease is not None
            life.reader.ready_items.said(lease)
            life.reader.nack(lease, life.now_ms, ABORTED)
    life.commit()
    lose(life)
    assert life.peek(dead=True) is None if state == "dead" else life.take_all() is not None
    lost = unreadable(life)
    assert lost
    assert give_up(life) == len(lost)
    write_and_sync(life)
    life.disk.faults = []
    life.kill()
    assert not set(lost) & set(life.reader.live)
    assert not {body(id_ - 1) for id_ in lost} & set(life.take_all())
    life.kill()
    assert not set(lost) & set(life.reader.live)


def test_a_loss_is_named_once_though_several_reads_meet_it(life: DiskHarness) -> None:
    lose(life)
    life.take_all()
    lost = life.reader.unreadable
    assert lost.count
    told = len(life.damages) + len(life.reader.damages)
    life.jobs.know_unreadable(lost.copy())
    life.reader.name_unreadable(IdSet.of([lost.last]))
    assert len(life.damages) + len(life.reader.damages) == told
    assert life.reader.unreadable == lost


def test_a_dry_run_of_acknowledge_counts_what_it_would_end(unchecked: DiskHarness) -> None:
    life = unchecked
    assert life.open() is not None
    check_bodies(life)
    would, steps = -1, QueueAdmin.would_acknowledge(life.jobs)
    while would < 0:
        try:
            next(steps)
        except StopIteration as end:
            would = end.value
    assert 0 < would < life.reader.unreadable.count, "not those that clients and memory have"
    assert give_up(life) == would


def test_a_crash_before_the_loss_is_on_disk_has_the_items_again(life: DiskHarness) -> None:
    lose(life)
    assert life.take_all() == []
    give_up(life)
    life.disk.faults = []
    life.kill()
    assert unreadable(life) == []
    assert life.take_all() == [body(n) for n in range(ITEMS)]


def test_an_out_of_order_item_that_cannot_be_read_counts_until_it_is_given_up(
    life: DiskHarness,
) -> None:
    lease = life.open()
    assert lease is not None
    life.reader.ready_items.said(lease)
    life.reader.nack(lease, life.now_ms, ABORTED)
    life.commit()
    lose(life)
    came = len(life.take_all())
    assert unreadable(life) == [1, *range(came + 2, ITEMS + 1)]
    assert give_up(life) == ITEMS - came
    assert unreadable(life) == []
    assert life.reader.ready.count == 0


def test_a_dead_letter_that_cannot_be_read_counts_until_it_is_given_up(life: DiskHarness) -> None:
    for _ in range(2):
        lease = life.open()
        assert lease is not None
        life.reader.ready_items.said(lease)
        life.reader.nack(lease, life.now_ms, ABORTED)
    life.commit()
    lose(life)
    assert life.peek(dead=True) is None
    assert unreadable(life) == [1]
    assert give_up(life) == 1
    assert unreadable(life) == []
    assert 1 not in life.reader.dead.deaths
    life.disk.faults = []
    assert life.take_all() == [body(n) for n in range(1, ITEMS)]


@pytest.mark.parametrize("end", ["flush", "upto", "purge"])
def test_an_item_that_ended_otherwise_is_no_loss_any_more(life: DiskHarness, end: str) -> None:
    if end == "purge":
        for _ in range(2):
            lease = life.open()
            assert lease is not None
            life.reader.ready_items.said(lease)
            life.reader.nack(lease, life.now_ms, ABORTED)
        life.commit()
    lose(life)
    if end == "purge":
        life.peek(dead=True)
        Admin(life.jobs).purge(1, life.now_ms)
    else:
        life.take_all()
        assert unreadable(life)
        if end == "flush":
            life.jobs.flush(life.now_ms)
        else:
            AckUpTo(life.jobs, life.jobs.last_number).finish(life.now_ms)
    assert unreadable(life) == []


def check_bodies(life: DiskHarness) -> None:
    """Check the bodies that the start has not, while the disk gives no segment."""
    lose(life)
    check = life.background.check_bodies(life.found.unchecked)
    threads = patch("kestrelpy.server.journals.journal_jobs.wrap", at_once)
    with threads, pytest.raises(StopIteration):
        check.send(None)


@pytest.fixture
def unchecked(life: DiskHarness) -> DiskHarness:
    """The forty items after a start that had no time to look at their bodies, with a child."""
    life.broker.mention(b"jobs+audit", life.now_ms, 1)
    life.commit()
    life.do_all()
    with patch("kestrelpy.server.restart.adoption._CHECKED_FIRST_BYTES", 0):
        life.kill()
    assert len(life.found.unchecked) == 1
    return life


def test_what_a_check_finds_while_the_server_serves_counts_before_anybody_asks(
    unchecked: DiskHarness,
) -> None:
    life = unchecked
    first = life.open()
    assert first is not None
    life.reader.confirm(first, life.now_ms)
    leased = life.open()
    assert unreadable(life) == []

    check_bodies(life)

    settled = set(unreadable(life))
    assert settled > {leased.item.id} and 1 not in settled
    child = ChildQueue.of(life.jobs.children[b"audit"])
    assert set(child.reader.unreadable) == {1, *settled}, "each subscription has its own"
    assert set(life.log.store.unreadable) >= {1, *settled}


def test_an_acknowledged_loss_leaves_what_clients_have_and_what_memory_has(
    unchecked: DiskHarness,
) -> None:
    life = unchecked
    leased, child = life.open(), ChildQueue.of(life.jobs.children[b"audit"])
    assert leased is not None
    items = filter(None, map(life.reader.item, range(1, ITEMS + 1)))
    in_memory = {item.id for item in items if item.is_whole}
    check_bodies(life)
    lost = set(unreadable(life)) - in_memory
    assert leased.item.id in in_memory and lost

    assert give_up(life) == len(lost)

    assert unreadable(life) == []
    assert in_memory <= set(life.reader.live)
    assert not lost & set(life.reader.live)
    assert lost <= set(life.log.store.unreadable), "the child needs them"
    while child.reader.unreadable.count:
        Admin(child).give_up(child.reader.unreadable.first_from(1), life.now_ms)
    assert not lost & set(life.log.store.unreadable)
    life.reader.confirm(leased, life.now_ms)


def test_a_check_is_for_the_children_of_a_deleted_queue_as_long_as_there_are_any(
    unchecked: DiskHarness, caplog: pytest.LogCaptureFixture
) -> None:
    life, child = unchecked, unchecked.jobs.children[b"audit"]
    life.broker.delete(NAME, life.now_ms)
    check_bodies(life)
    active = child.log.journal.active
    read = active.item_first or ITEMS + 1  # from here on the start has read the bodies
    assert read > ITEMS - 4
    assert set(child.unreadable) == set(range(1, read))
    caplog.clear()
    child.unreadable = IdSet()

    life.broker.remove_child(child, life.now_ms)
    check_bodies(life)
    assert caplog.text == ""
    assert not child.unreadable.count


def test_a_failed_journal_does_not_pass_for_empty_in_a_shortage(life: DiskHarness) -> None:
    be_short(life, 2)
    look_in_vain(life)
    life.log.journal.fail("testing", "x", OSError(errno.EIO, "Input/output error"))
    life.log.advance()
    assert life.reader.is_busy(life.now_ms, leases=False)
    assert life.peek() == body(0)


def test_a_start_that_is_short_of_descriptors_reads_the_first_items_later(
    life: DiskHarness,
) -> None:
    life.kill()
    life.disk.faults = [Fault("read", "*.segment", times=5, error=errno.EMFILE)]
    assert life.take_all() == [body(n) for n in range(ITEMS)]
    assert life.damages == []


def test_a_start_holds_no_descriptor_for_a_queue_without_writes(life: DiskHarness) -> None:
    life.kill()
    assert life.log.journal.active is not None
    assert [each.handle for each in life.log.journal.segments if each.handle is not None] == []
    assert life.put(b"more")
    life.commit()
    life.kill()
    assert life.take_all() == [*(body(n) for n in range(ITEMS)), b"more"]


def test_an_add_does_not_store_next_to_a_damaged_item(life: DiskHarness) -> None:
    life.kill()
    life.disk.faults = [Fault("read", "*.segment", times=1 << 20)]
    assert len(life.take_all()) < ITEMS
    assert life.damages, "the disk has lost them"
    assert life.jobs.add(b"lock", 0, 0, life.now_ms) == NOT_STORED
    life.jobs.flush(life.now_ms)
    life.log.has_room(100) or life.write()  # as a connection that waits
    assert life.jobs.add(b"lock", 0, 0, life.now_ms) > 0


@pytest.mark.parametrize(
    ("verb", "path"), [("create", "*.snapshot"), ("remove", "*.snapshot"), ("read", "*.segment")]
)
def test_snapshots_and_rewriting_go_on_after_a_shortage(
    life: DiskHarness, verb: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("journal.snapshot.cadence.RECORDS_MAX", 5)
    fault = Fault(verb, path, times=4, error=errno.ENFILE)
    life.disk.faults = [fault]
    kept = []
    for n in range(ITEMS):
        lease = life.open()
        assert lease is not None
        if n % 10:
            life.reader.confirm(lease, life.now_ms)
        else:
            kept.append(lease.item.body)
        life.commit()
        life.do_all()
    assert fault.fired == 4
    life.kill()
    assert life.take_all() == kept
    assert life.damages == []


def test_a_look_at_an_item_that_no_segment_holds_ends(life: DiskHarness) -> None:
    """Otherwise nothing out of order is ever read again, and whoever fetches waits for good."""
    life.reader.ready.disk_refs.unsure.add(10_000)
    life.reader.schedule_read()
    life.do_all()
    assert not life.reader.ready.disk_refs.is_fetching
    assert 10_000 not in life.reader.ready.disk_refs.unsure, "the look has ended"
    assert life.take_all() == [body(n) for n in range(ITEMS)]
