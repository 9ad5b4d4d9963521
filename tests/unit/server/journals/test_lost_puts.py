"""Items whose puts were in damaged bytes, where no snapshot names them: they count as unreadable
from the start on, until somebody gives them up.

Promise: unreadable.
"""

from __future__ import annotations

import pytest

from journal.tools.verify import check_journal
from journal.write.segment_file import Sizes
from kestrelpy.core.policy import Policy
from kestrelpy.core.queue.admin import Admin
from kestrelpy.core.queue.child_queue import ChildQueue
from kestrelpy.operations import queue_state
from tests.support.disk_harness import DiskHarness
from tests.unit.server.journals.test_read_back import give_up, write_and_sync

SIZES = Sizes(8 << 10, 8 << 10, 1 << 20)
ITEMS = 60


def body(n: int) -> bytes:
    return b"item %d " % n * 30


def damaged(child: bool = False, confirmed: int = 0) -> DiskHarness:
    """Start from a journal without a snapshot, whose second segment is half zeros."""
    h = DiskHarness(Policy(), SIZES)
    if child:
        h.broker.mention(b"jobs+audit", h.now_ms, 1)
    for n in range(1, ITEMS + 1):
        h.put(body(n))
        h.commit()
    for _ in range(confirmed):
        lease = h.open()
        assert lease is not None
        h.reader.confirm(lease, h.now_ms)
    write_and_sync(h)
    h.log.journal.close(h.unix_ms)
    disk = h.disk.kill_clone()
    folder = h.directory.folder(h.jobs)
    for name in disk.names(folder):
        if name.endswith(".snapshot"):
            disk.remove(f"{folder}/{name}")
    disk.damage(f"{folder}/0000000002.segment", 4096, bytes(4096))
    return DiskHarness(Policy(), SIZES, disk)


def test_they_are_counted_before_anybody_asks() -> None:
    h = damaged()
    lost = set(h.reader.unreadable)
    assert lost == set(h.log.store.unreadable) and lost
    assert queue_state(h.jobs, h.now_ms) == "damaged"
    assert set(h.take_all()) == {body(n) for n in range(1, ITEMS + 1) if n not in lost}
    assert set(h.reader.unreadable) == lost, "a client that has come to them changes nothing"
    assert h.put(b"new")
    assert h.take_all() == [b"new"]


@pytest.mark.parametrize("snapshot", [False, True])
def test_they_count_until_they_are_given_up_over_restarts(snapshot: bool) -> None:
    h = damaged()
    lost = set(h.reader.unreadable)
    for _ in range(2):
        h.take_all()
        if snapshot:
            h.commit()
            h.background.snapshot(h.log, h.unix_ms)
            h.commit()
            h.do_all()
            assert any(n.endswith(".snapshot") for n in h.disk.names(h.log.journal.folder))
        write_and_sync(h)
        h.kill()
        assert set(h.reader.unreadable) == lost
    folder = h.log.journal.folder
    assert set(check_journal(h.disk, folder).unreadable) == lost
    assert give_up(h) == len(lost)
    write_and_sync(h)
    h.kill()
    assert not h.reader.unreadable.count
    assert queue_state(h.jobs, h.now_ms) == "ok"
    assert not set(check_journal(h.disk, folder).unreadable)
    assert h.jobs.is_empty


def test_each_subscription_has_those_that_it_had_not_confirmed() -> None:
    h = damaged(child=True, confirmed=ITEMS)
    child = ChildQueue.of(h.jobs.children[b"audit"])
    lost = set(child.reader.unreadable)
    assert lost and not h.reader.unreadable.count, "the queue itself has confirmed all"
    assert h.jobs.is_empty
    while child.reader.unreadable.count:
        assert Admin(child).give_up(child.reader.unreadable.first_from(1), h.now_ms)
    write_and_sync(h)
    h.kill()
    child = ChildQueue.of(h.jobs.children[b"audit"])
    assert not child.reader.unreadable.count
    assert not lost & set(child.reader.live)


def test_their_numbers_are_given_to_no_other_item() -> None:
    h = damaged()
    lost = set(h.reader.unreadable)
    assert h.jobs.put(b"new", 0, 0, h.now_ms) > 0
    assert h.reader.live.last > max(lost)
    assert h.jobs.last_number == h.reader.live.last


def test_a_child_that_begins_with_them_takes_them_from_nobody() -> None:
    h = damaged()
    lost = set(h.reader.unreadable)
    h.broker.mention(b"jobs+late", h.now_ms, 1)
    assert set(h.jobs.children[b"late"].unreadable) == lost, "before a restart as well"
    for _ in range(2):
        write_and_sync(h)
        h.kill()
        assert set(h.reader.unreadable) == lost
        assert set(h.jobs.children[b"late"].unreadable) == lost
    h.jobs.flush(h.now_ms)
    write_and_sync(h)
    h.kill()
    assert not h.reader.unreadable.count
    assert set(h.jobs.children[b"late"].unreadable) == lost


def test_a_child_that_begins_after_them_needs_only_those_that_it_begins_with() -> None:
    h = damaged(confirmed=33)
    lost = set(h.reader.unreadable)
    assert lost and min(lost) == 34, "31 to 33 were confirmed, and are lost as well"
    h.broker.mention(b"jobs+late", h.now_ms, 1)
    h.commit()
    write_and_sync(h)
    folder = h.log.journal.folder
    assert set(check_journal(h.disk, folder).unreadable) == lost
    h.kill()
    assert set(h.jobs.children[b"late"].unreadable) == lost


def test_what_was_given_up_is_no_loss_again_after_a_snapshot() -> None:
    h = damaged()
    h.broker.mention(b"jobs+late", h.now_ms, 1)
    h.take_all()
    give_up(h)
    child = ChildQueue.of(h.jobs.children[b"late"])
    while child.reader.unreadable.count:
        assert Admin(child).give_up(child.reader.unreadable.first_from(1), h.now_ms)
    for _ in range(2):
        h.commit()
        h.background.snapshot(h.log, h.unix_ms)
        h.commit()
        h.do_all()
        h.kill()
        assert not h.reader.unreadable.count
        assert not h.jobs.children[b"late"].unreadable.count
        assert not set(check_journal(h.disk, h.log.journal.folder).unreadable)
