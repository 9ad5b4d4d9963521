"""An idle journal frees files: which ones, in which order, and which stay for the confirms."""

from __future__ import annotations

import pytest

from journal.compaction import reclaim
from journal.sets.id_set import IdSet
from journal.write.preallocation import CONFIRM_BYTES
from journal.write.segment_file import Sizes
from tests.support.journals import TIME_MS, Writer, fresh
from tests.support.memory_disk import MemoryDisk

SIZES = Sizes(segment_min=4 << 10, segment_max=256 << 10, batch_max=1 << 20)
RESERVE = 32 << 10


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reclaim, "RESERVE_BYTES", RESERVE)


def burst(count: int, size: int = 1000, left: int = 0) -> Writer:
    """Return a journal that got `count` items; all but the last `left` are done."""
    writer = fresh(MemoryDisk(), SIZES)
    for _ in range(count):
        writer.put_all(b"x" * size)
    for item in sorted(writer.queue.live)[: count - left]:
        writer.done(item)
    writer.commit()
    writer.drop_dead()
    return writer


def go_round(writer: Writer) -> list[str]:
    """Run one round of a journal; return the files that it removed itself."""
    idle, removed = writer.store.reclaim, list[str]()
    idle.begin_round()
    while (paths := idle.next_step(TIME_MS, True)) is not None:
        for path in paths:
            writer.journal.files.remove(path)
        removed += paths
        if not paths:
            idle.begin_turn()
            writer.journal.append((10, 0, 1, 0, TIME_MS, b"", b"", 0, 0))
            writer.commit()
            writer.drop_dead()
    return removed


@pytest.mark.parametrize("count", [60, 100, 200, 300, 400])
def test_an_emptied_journal_goes_on_in_one_small_segment(count: int) -> None:
    writer = burst(count)
    assert writer.journal.disk_bytes() > RESERVE
    go_round(writer)
    journal = writer.journal
    assert journal.disk_bytes() <= RESERVE
    assert [segment.live for segment in journal.segments] == [0]
    assert journal.disk_use().live == 0


def test_only_files_without_a_record_are_removed_by_the_round_itself() -> None:
    writer = burst(300)
    writer.prepare()
    with_records = {segment.path for segment in writer.journal.segments}
    removed = go_round(writer)
    assert removed
    assert not with_records & set(removed)


@pytest.mark.parametrize("left", [1, 20, 100, 299])
def test_a_segment_with_a_live_item_stays(left: int) -> None:
    writer = burst(300, left=left)
    live = {segment.path for segment in writer.journal.segments if segment.live}
    go_round(writer)
    assert live <= {segment.path for segment in writer.journal.segments}
    assert sum(segment.live for segment in writer.journal.segments) == left


@pytest.mark.parametrize("left", [1, 50, 200, 1000])
def test_the_confirms_of_all_that_is_left_have_room_on_a_full_disk(left: int) -> None:
    """No segment is prepared any more, and every item is confirmed."""
    writer = burst(1500, size=100, left=left)
    go_round(writer)
    journal = writer.journal
    active = journal.active
    assert active is not None
    fullest = max(segment.live for segment in journal.segments)
    room = active.capacity - active.at + sum(s.capacity for s in journal.preallocation.waiting)
    assert room >= CONFIRM_BYTES * fullest
    for item in sorted(writer.queue.live):
        writer.done(item)
    while journal.has_pending:
        journal.write(TIME_MS)
        assert not journal.is_stalled, "a confirm waits for room"


def test_files_that_the_confirms_need_stay() -> None:
    writer = burst(300)
    preallocation = writer.journal.preallocation
    writer.prepare()
    preallocation.count_leases = lambda: preallocation._room(active) // CONFIRM_BYTES
    active = writer.journal.active
    assert active is not None
    assert preallocation.take_unused(0) == []
    preallocation.count_leases = int
    assert preallocation.take_unused(0)
    assert not preallocation.waiting


def test_files_to_be_used_again_stay_if_the_confirms_need_them() -> None:
    """A start makes them of prepared segments."""
    writer = burst(300)
    preallocation, active = writer.journal.preallocation, writer.journal.active
    assert active is not None
    preallocation.waiting.clear()
    preallocation.count_sealed([])
    files = [(f"/data/jobs.1/{n}", size) for n, size in enumerate((4 << 10, 64 << 10, 16 << 10))]
    room = preallocation._room(active)
    for needed, left in ((room - 8000, 0), (room, 1), (room + (70 << 10), 2)):
        preallocation.recycled = files[:]
        preallocation.count_leases = lambda needed=needed: needed * 4 // 5 // CONFIRM_BYTES
        gone = preallocation.take_unused(0)
        assert len(preallocation.recycled) == left
        assert len(gone) == 3 - left
        assert sorted(preallocation.recycled + [f for f in files if f[0] in gone]) == sorted(files)


def test_the_next_segment_stays_prepared_while_the_active_one_is_full_of_items() -> None:
    writer = burst(300, left=300)
    writer.prepare()
    before = list(writer.journal.preallocation.waiting)
    assert before
    go_round(writer)
    assert list(writer.journal.preallocation.waiting) == before[:1]


def test_a_round_that_was_of_no_use_is_not_repeated_until_there_is_more() -> None:
    writer = burst(300)
    idle = writer.store.reclaim
    idle.begin_round()
    while idle.next_step(TIME_MS, may_write=False):
        pass
    assert idle.surplus(TIME_MS) > RESERVE
    assert not idle.is_worth_it(TIME_MS)
    writer.put_all(*[b"x" * 1000] * 400)
    for item in sorted(writer.queue.live):
        writer.done(item)
    writer.commit()
    assert idle.is_worth_it(TIME_MS), "the log has gone on elsewhere"


def test_segments_that_a_compaction_would_leave_are_no_surplus() -> None:
    """Three of five items are there: a rewrite would save too little. One of five is not."""
    writer = fresh(MemoryDisk(), Sizes(32 << 10, 32 << 10, 1 << 20))
    for _ in range(150):
        writer.put_all(b"x" * 1000)
    surplus = []
    for left in (3, 1):
        live = IdSet()
        for item in range(1, 151):
            if item % 5 < left:
                live.add(item)
        writer.journal.adopt(live, 1000 * len(live))
        surplus.append(writer.store.reclaim.surplus(TIME_MS))
    assert surplus[0] <= RESERVE < surplus[1]


def test_a_round_has_a_last_step() -> None:
    writer = burst(300)
    idle = writer.store.reclaim
    idle.begin_round()
    steps = 0
    while idle.next_step(TIME_MS, may_write=True) is not None:
        steps += 1  # nothing comes of any
    assert steps == reclaim.STEPS_MAX


def test_a_journal_writes_little_up_to_the_reserve() -> None:
    writer = fresh(MemoryDisk(), Sizes(1 << 20, 1 << 20, 1 << 20))
    idle = writer.store.reclaim
    assert idle.mark(5) == 5 + reclaim.IDLE_MS
    assert idle.writes_little
    writer.put_all(b"x")
    idle.mark(0)
    writer.put_all(b"x" * (RESERVE // 2))
    assert idle.writes_little
    writer.put_all(b"x" * (RESERVE // 2))
    assert not idle.writes_little


def test_files_of_done_segments_are_not_recycled_while_it_shrinks() -> None:
    writer = burst(300)
    preallocation = writer.journal.preallocation
    preallocation.waiting.clear()
    assert preallocation.may_recycle
    writer.store.reclaim.begin_turn()
    assert not preallocation.may_recycle
    preallocation.is_short = True
    assert preallocation.may_recycle, "on a full disk its room is not given away"
    preallocation.is_short = False
    go_round(writer)
    writer.put_all(*[b"x" * 1000] * 40)
    assert not preallocation.shrinks, "it grows again"


def test_a_round_waits_for_each_job_of_the_journal() -> None:
    writer = burst(60)
    store, idle = writer.store, writer.store.reclaim
    assert idle.is_ready
    store.writer.segment_list.busy = store.writer.segments[:1]
    assert not idle.is_ready
    store.writer.segment_list.busy = []
    assert idle.is_ready
    writer.put(b"x")
    assert not idle.is_ready
    writer.commit()
    assert idle.is_ready
