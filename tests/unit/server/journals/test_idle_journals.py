"""An idle journal frees what it does not need: not sooner, nothing else, and after any end.

Promise idle-queue: a power cut at any step, with ready, delayed, leased and dead items; kills and
    restarts before it; files that cannot be removed, snapshots that cannot be written.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from journal.compaction import reclaim
from journal.format.item_header import ItemHeader
from journal.write.segment_file import Sizes
from kestrelpy.core.index.delayed import Delay
from kestrelpy.core.log.log import JournalLog
from kestrelpy.core.policy import Policy
from kestrelpy.server.journals import idle_journals
from tests.support.disk_harness import DiskHarness
from tests.support.memory_disk import Fault, MemoryDisk, PowerCut

SIZES = Sizes(2 << 10, 128 << 10, 1 << 20)
RESERVE = 16 << 10


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reclaim, "RESERVE_BYTES", RESERVE)
    monkeypatch.setattr("journal.snapshot.cadence.RECORDS_MAX", 150)


def life(disk: MemoryDisk | None = None, **settings: Any) -> DiskHarness:
    return DiskHarness(Policy(**settings), SIZES, disk)


def burst(server: DiskHarness, count: int = 200, size: int = 1000) -> None:
    """Items come, and all are fetched and confirmed."""
    for n in range(count):
        server.put(b"%04d" % n + b"x" * size)
        if n % 4 == 3:
            server.commit()
    while (lease := server.open()) is not None:
        server.reader.confirm(lease, server.now_ms)
        server.commit()
    server.do_all()


def on_disk(server: DiskHarness) -> int:
    """The bytes of the files of the queue's segments."""
    folder = server.directory.folder(server.jobs)
    names = [n for n in server.disk.names(folder) if ".segment" in n]
    return sum(server.disk.size(f"{folder}/{name}") for name in names)


def restarted(server: DiskHarness, how: str) -> DiskHarness:
    if how == "kill":
        server.kill()
    elif how == "power":
        server.cut_power()
    elif how == "restart":
        server.restart()
    return server


each_end = pytest.mark.parametrize("end", ["", "restart", "kill", "power"])


# -- what is freed ------------------------------------------------------------------------------


@each_end
@pytest.mark.parametrize("count", [100, 130, 200])
def test_an_emptied_queue_frees_all_beyond_the_reserve(end: str, count: int) -> None:
    server = life()
    burst(server, count)
    assert on_disk(server) > 4 * RESERVE, "the burst has left something"
    restarted(server, end)
    server.rest()
    assert on_disk(server) <= RESERVE
    assert on_disk(server) == server.log.disk_bytes(), "the figure is true"
    server.restart()
    assert on_disk(server) <= RESERVE
    server.put(b"after it")
    assert server.take_all() == [b"after it"]


def ready(server: DiskHarness) -> None:
    server.put(b"ready")


def delayed(server: DiskHarness) -> None:
    server.put(b"delayed", delay=Delay(10_000_000))


def dead(server: DiskHarness) -> None:
    server.put(b"dead")
    lease = server.open()
    assert lease is not None
    server.reader.dead_letter(lease, server.now_ms, b"why")


def leased(server: DiskHarness) -> None:
    server.put(b"leased")
    assert server.open(lease_ms=10_000_000) is not None


def remembered(server: DiskHarness) -> None:
    server.jobs.put(b"with an id", 0, 0, server.now_ms, header=ItemHeader(id=b"one"))


STORIES = [ready, delayed, dead, leased, remembered]


def there(server: DiskHarness) -> dict[int, bytes]:
    """The items that the queue has, with their bodies."""
    found = dict[int, bytes]()
    for item in list(server.reader.live):
        read = server.log.store.one(item)
        assert read is not None, f"item {item} is in no segment"
        record = read.run(server.disk)
        assert record is not None
        found[item] = bytes(record.body)
    return found


def with_one_left(story: Callable[[DiskHarness], None]) -> DiskHarness:
    """A queue that was emptied but for an item in its middle."""
    server = life()
    for n in range(60):
        server.put(b"%04d" % n + b"x" * 1000)
        server.commit()
    for _ in range(60):
        lease = server.open()
        assert lease is not None
        server.reader.confirm(lease, server.now_ms)
    server.commit()
    story(server)
    server.commit()
    burst_around(server)
    return server


def burst_around(server: DiskHarness) -> None:
    """Put and confirm a burst of items after the item that stays."""
    before = set(server.reader.live)
    for n in range(150):
        server.put(b"%04d" % n + b"y" * 1000)
        server.commit()
    held = []
    while (lease := server.open()) is not None:
        if lease.item.id in before:
            held.append(lease)
        else:
            server.reader.confirm(lease, server.now_ms)
        server.commit()
    for lease in held:
        server.reader.nack(lease, server.now_ms, b"abort")
    server.commit()
    server.do_all()


@each_end
@pytest.mark.parametrize("story", STORIES)
def test_a_queue_that_has_one_item_left_frees_the_rest(
    story: Callable[[DiskHarness], None], end: str
) -> None:
    server = with_one_left(story)
    kept = there(server)
    assert len(kept) == 1
    assert on_disk(server) > 4 * RESERVE
    restarted(server, end)
    server.rest()
    assert on_disk(server) <= RESERVE
    assert there(server) == kept
    server.kill()
    assert there(server) == kept
    assert not server.damages


# -- a crash anywhere -----------------------------------------------------------------------------


@pytest.mark.parametrize("story", STORIES)
def test_a_power_cut_at_any_step_loses_nothing_and_brings_nothing_back(
    story: Callable[[DiskHarness], None],
) -> None:
    first = with_one_left(story)
    kept = there(first)
    before, step = first.disk.kill_clone(), 0
    while True:
        step += 1
        server = life(before.kill_clone())
        server.disk.cut_power_at(step)
        try:
            server.rest()
        except PowerCut:
            pass
        else:
            break
        again = life(server.disk.crash_clone(Random(step)))
        assert there(again) == kept, f"after a power cut at step {step}"
        assert not again.damages, f"after a power cut at step {step}"
        again.rest()
        assert on_disk(again) <= RESERVE, f"after a power cut at step {step}"
        assert there(again) == kept
    assert step > 20


# -- not sooner, and not again and again ----------------------------------------------------------


def files_made(server: DiskHarness) -> int:
    return sum(line.startswith(("create:names", "rename:names")) for line in server.disk.trace)


@pytest.mark.parametrize("pause_s", [60, 5 * 60, 10 * 60])
def test_bursts_that_come_again_soon_make_no_more_files_than_without_it(pause_s: int) -> None:
    made = []
    for frees in (False, True):
        server = life()
        for _ in range(6):
            burst(server, 60)
            if frees:
                server.background.idle.watch(server.log)
            for _ in range(5):
                server.background.clock.seconds += pause_s / 5
                server.pass_second()
        made.append(files_made(server))
    assert made[0] == made[1]


def test_nothing_is_freed_before_the_time() -> None:
    server = life()
    burst(server)
    before = on_disk(server)
    server.background.idle.watch(server.log)
    server.background.clock.seconds += reclaim.IDLE_MS / 1000 - 5
    server.pass_second()
    assert on_disk(server) == before
    for _ in range(12):
        server.pass_second()
    assert on_disk(server) < before


def test_a_queue_with_an_item_a_minute_frees_its_disk_as_well() -> None:
    server = life()
    burst(server)
    server.background.idle.watch(server.log)
    for n in range(20):
        server.background.clock.seconds += 60
        server.put(b"%d" % n)
        assert server.take_all() == [b"%d" % n]
        for _ in range(12):
            server.pass_second()
        server.background.idle.watch(server.log)
    assert on_disk(server) <= RESERVE


def test_a_journal_with_nothing_to_free_is_not_watched() -> None:
    server = life()
    server.put(b"one")
    server.commit()
    server.background.idle.watch(server.log)
    assert not server.background.idle.is_watching(server.log)
    burst(server)
    server.rest()
    server.background.idle.watch(server.log)
    assert not server.background.idle.is_watching(server.log)


@pytest.mark.parametrize(
    ("verb", "path"), [("remove", "*data/jobs*"), ("create", "*.snapshot"), ("free", "*data/jobs*")]
)
def test_what_cannot_be_freed_is_not_tried_for_ever(verb: str, path: str) -> None:
    server = life()
    burst(server)
    server.disk.faults.append(Fault(verb, path, times=1000, error=5))
    for _ in range(reclaim.STEPS_MAX + 1):
        server.rest()
    records = server.log.lsn_appended
    for _ in range(3):
        server.rest()
    assert server.log.lsn_appended == records


def test_the_round_of_a_queue_that_syncs_never_begins_with_a_sync() -> None:
    server = life(sync_ms=-1)
    burst(server)
    server.put(b"not synced")
    while server.write():
        pass
    log, idle = server.log, server.background.idle
    assert log.lsn_durable < log.lsn_appended
    idle.watch(log)
    server.background.clock.seconds += reclaim.IDLE_MS / 1000
    for call, args in list(server.background.clock.soon):
        call(*args)
    assert log.awaited_lsn == log.lsn_appended
    assert server.dirty == [log]


@pytest.mark.parametrize("why", ["written to", "hangs"])
def test_a_round_that_ends_early_is_left_and_comes_again(
    monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    server = life()
    burst(server)
    idle = server.background.idle
    idle.watch(server.log)
    server.background.clock.seconds += reclaim.IDLE_MS / 1000
    server.pass_second()
    assert idle.has_round(server.log)
    if why == "written to":
        server.put(b"x" * RESERVE)
        server.commit()
    else:
        monkeypatch.setattr(idle_journals, "WAITS_MAX", 1)
    server.pass_second()
    assert not idle.has_round(server.log)
    assert idle.is_watching(server.log)
    server.background.clock.seconds += reclaim.IDLE_MS / 1000
    server.pass_second()
    assert idle.has_round(server.log)


def test_a_journal_that_is_gone_has_no_round() -> None:
    server = life()
    burst(server)
    idle = server.background.idle
    idle.watch(server.log)
    server.background.clock.seconds += reclaim.IDLE_MS / 1000
    server.log.is_reported = True
    server.pass_second()
    assert not idle.is_watching(server.log)


# -- with other settings --------------------------------------------------------------------------


def test_retained_items_stay() -> None:
    server = life(retain_ms=None)
    burst(server)
    retained = list(server.jobs.readable)
    server.rest()
    assert list(server.jobs.readable) == retained != []
    assert all(server.log.store.one(item) is not None for item in retained)


def test_of_many_journals_some_are_looked_at_in_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idle_journals, "LOOKS_MAX", 3)
    server = life()
    for n in range(8):
        log = server.broker.create(b"q%d" % n, server.now_ms).log
        assert isinstance(log, JournalLog)
        log.journal.preallocation.recycled = [("nowhere", 2 << 10)]
        server.background.idle.watch(log)
    server.background.clock.seconds += reclaim.IDLE_MS / 1000
    server.pass_second()
    due = list(server.background.idle._watched.values())
    assert len(due) == 8
    assert sum(due_ms > due[0] for due_ms in due) == 3


def test_a_deleted_queue_is_forgotten() -> None:
    server = life()
    burst(server)
    idle = server.background.idle
    idle.watch(server.log)
    server.background.let_go(server.log)
    assert not idle.is_watching(server.log)
    idle.close()


def test_of_many_journals_a_few_have_their_round_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idle_journals, "ROUNDS_MAX", 2)
    server = life()
    logs = []
    for n in range(7):
        queue = server.broker.create(b"q%d" % n, server.now_ms)
        for _ in range(60):
            queue.put(b"x" * 1000, 0, 0, server.now_ms)
            while server.write():
                pass
            server.sync()
        queue.flush(server.now_ms)
        while server.write():
            pass
        server.sync()
        assert isinstance(queue.log, JournalLog)
        logs.append(queue.log)
        server.background.idle.watch(queue.log)
    server.background.clock.seconds += reclaim.IDLE_MS / 1000
    server.pass_second()
    assert len(server.background.idle._rounds) == 2
    for _ in range(60):
        server.pass_second()
        for log in logs:
            server.settled(log)
    assert [log.disk_bytes() <= RESERVE for log in logs] == [True] * 7
