"""No reply leaves ahead of its record, and requests that come together share a write and a sync.

Promises: takeover, confirmed.
"""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any, cast
from unittest import mock
from unittest.mock import Mock

import pytest

from journal.format.kinds import Kind
from journal.format.record import decode, padded
from journal.format.segment import FILE_HEADER_BYTES
from kestrelpy.core.index.waiters import Want
from kestrelpy.core.log.log import JournalLog
from kestrelpy.core.policy import Policy
from kestrelpy.server import clock
from kestrelpy.server.clock import OFFSET_STEP_MS
from kestrelpy.server.journals import gathering, later_syncs
from kestrelpy.server.process import SWITCH_SECONDS, SWITCH_SECONDS_HURRIED
from kestrelpy.server.turn import Turn
from tests.support.disk_harness import DiskHarness, HandLoop
from tests.support.disks import HeldDisk, HeldHandle
from tests.support.running import Peer, Running, running


async def test_stored_is_not_said_before_the_sync_has_finished(tmp_path: Path) -> None:
    disk = HeldDisk()
    async with running(tmp_path, disk) as server:
        producer, other = await server.client(), await server.client()
        await producer.ask(b"set jobs 0 0 1\r\na\r\n")
        disk.go.clear()

        producer.writer.write(b"set jobs 0 0 1\r\nb\r\n")
        for _ in range(20):  # the loop is alive while the sync hangs
            assert (await other.ask(b"version\r\n")).startswith(b"VERSION")
        assert producer.has_heard_nothing()

        disk.go.set()
        assert await producer.line() == b"STORED\r\n"


async def test_an_item_is_not_shown_before_its_sync_has_finished(tmp_path: Path) -> None:
    disk = HeldDisk()
    async with running(tmp_path, disk) as server:
        producer, reader, other = [await server.client() for _ in range(3)]
        await producer.ask(b"set mail 0 0 1\r\na\r\n")
        await producer.ask(b"get mail\r\n")
        disk.go.clear()

        producer.writer.write(b"set mail 0 0 1\r\nb\r\n")
        await other.ask(b"version\r\n")
        reader.writer.write(b"get mail/open\r\n")
        for _ in range(20):
            await other.ask(b"version\r\n")
        assert reader.has_heard_nothing()

        disk.go.set()
        assert await reader.line() == b"VALUE mail/open 0 1\r\n"


async def test_a_confirm_is_answered_while_a_sync_hangs(tmp_path: Path) -> None:
    disk = HeldDisk()
    async with running(tmp_path, disk) as server:
        worker, producer = await server.client(), await server.client()
        await worker.ask(b"set jobs 0 0 1\r\na\r\n")
        await worker.ask(b"get jobs/open\r\n")
        await worker.line()
        await worker.line()
        disk.go.clear()
        producer.writer.write(b"set jobs 0 0 1\r\nb\r\n")

        assert await worker.ask(b"get jobs/close\r\n") == b"END\r\n"

        assert producer.has_heard_nothing()
        disk.go.set()
        assert await producer.line() == b"STORED\r\n"


async def test_a_confirm_waits_for_the_sync_when_confirms_are_synced(tmp_path: Path) -> None:
    disk = HeldDisk()
    config = '[queue_defaults]\nconfirms = "synced"\n'
    async with running(tmp_path, disk, config) as server:
        worker, other = await server.client(), await server.client()
        await worker.ask(b"set jobs 0 0 1\r\na\r\n")
        await worker.ask(b"get jobs/open\r\n")
        await worker.line()
        await worker.line()
        disk.go.clear()

        worker.writer.write(b"get jobs/close\r\n")
        for _ in range(20):
            await other.ask(b"version\r\n")
        assert worker.has_heard_nothing()

        disk.go.set()
        assert await worker.line() == b"END\r\n"


async def test_sets_that_come_together_share_one_sync(tmp_path: Path) -> None:
    disk = HeldDisk()
    async with running(tmp_path, disk) as server:
        peer = await server.client()
        await peer.ask(b"set jobs 0 0 1\r\na\r\n")
        before = disk.syncs
        peer.writer.write(b"set jobs 0 0 1\r\nb\r\n" * 500)
        for _ in range(500):
            assert await peer.line() == b"STORED\r\n"
        assert disk.syncs - before <= 50


async def a_set_during_a_sync(server: Running, disk: HeldDisk) -> list[Peer]:
    """Hold up the sync of a first client's set; a second one sends a set meanwhile.

    Return both, and a third client that waits for nothing.
    """
    first, second, other = [await server.client() for _ in range(3)]
    await first.ask(b"set jobs 0 0 1\r\na\r\n")
    disk.go.clear()
    first.writer.write(b"set jobs 0 0 1\r\nb\r\n")
    await other.ask(b"version\r\n")
    second.writer.write(b"set jobs 0 0 1\r\nc\r\n")
    for _ in range(20):
        await other.ask(b"version\r\n")
    return [first, second, other]


async def test_a_set_that_came_during_a_sync_has_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first sync answered it, and it waits: its own is not deferred like one without a
    waiter."""
    monkeypatch.setattr(later_syncs, "LAZY_SECONDS", 3600.0)
    disk = HeldDisk()
    async with running(tmp_path, disk) as server:
        first, second, _ = await a_set_during_a_sync(server, disk)
        assert first.has_heard_nothing()
        assert second.has_heard_nothing()

        disk.go.set()
        assert await first.line() == b"STORED\r\n"
        assert await second.line() == b"STORED\r\n"


async def test_with_sync_in_turn_no_thread_syncs_and_stored_waits_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kestrelpy.server.journals.syncs.SLOW_SECONDS", 3600.0)
    monkeypatch.setattr("kestrelpy.server.journals.syncs.IN_TURN_SECONDS", 3600.0)
    disk = HeldDisk()
    threads: set[str] = set()
    is_noting: list[bool] = []
    sync = HeldHandle.sync

    def noted(handle: HeldHandle) -> None:
        if is_noting:
            threads.add(threading.current_thread().name)
        sync(handle)

    config = "[queue_defaults]\nsync_in_turn = true\n"
    with mock.patch.object(HeldHandle, "sync", noted):
        async with running(tmp_path, disk, config) as server:
            peer = await server.client()
            assert await peer.ask(b"set jobs 0 0 1\r\na\r\n") == b"STORED\r\n"
            syncs = disk.syncs
            is_noting.append(True)
            for _ in range(3):
                assert await peer.ask(b"set jobs 0 0 1\r\na\r\n") == b"STORED\r\n"
            is_noting.clear()
            assert disk.syncs >= syncs + 3
            assert threads == {threading.current_thread().name}


@pytest.fixture
def long_gathering(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every sync count as slow, so that only more records end a gathering."""
    monkeypatch.setattr(gathering, "SLOW_SECONDS", 0.0)
    monkeypatch.setattr(gathering, "SHARE", 1e9)
    monkeypatch.setattr(gathering, "SECONDS_MAX", 3600.0)


@pytest.mark.usefixtures("long_gathering")
async def test_after_a_slow_sync_a_batch_waits_for_the_clients_just_answered(
    tmp_path: Path,
) -> None:
    disk = HeldDisk()
    async with running(tmp_path, disk) as server:
        first, second, other = await a_set_during_a_sync(server, disk)
        syncs, writes = disk.syncs, disk.writes
        disk.go.set()
        assert await first.line() == b"STORED\r\n"
        for _ in range(20):
            await other.ask(b"version\r\n")
        assert second.has_heard_nothing()
        assert disk.writes == writes, "its record is not even written"

        first.writer.write(b"set jobs 0 0 1\r\nd\r\n")
        assert await first.line() == b"STORED\r\n"
        assert await second.line() == b"STORED\r\n"
        assert disk.syncs == syncs + 2, "the one that was held back, and one for both"


async def test_a_set_that_waits_for_room_is_not_held_back_for_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the write counts its room anew: no record comes that would end the wait for more."""
    async with running(tmp_path, HeldDisk()) as server:
        assert server.daemon is not None
        turn = server.daemon.turn
        monkeypatch.setattr(turn._gathering, "holds", lambda target: target.wants_room)
        peer = await server.client()
        peer.writer.write(b"set jobs 0 0 1\r\na\r\n" * 2000)
        for _ in range(2000):
            assert await peer.line() == b"STORED\r\n"


async def test_a_batch_that_waits_for_others_is_synced_without_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its clients never come back: the passing of time ends it."""
    monkeypatch.setattr(gathering, "SLOW_SECONDS", 0.0)
    disk = HeldDisk()
    async with running(tmp_path, disk) as server:
        first, second = await server.client(), await server.client()
        for _ in range(5):
            first.writer.write(b"set jobs 0 0 1\r\na\r\n" * 100)
            for _ in range(100):
                assert await first.line() == b"STORED\r\n"
            assert await second.ask(b"set jobs 0 0 1\r\nb\r\n") == b"STORED\r\n"


async def test_a_turn_writes_some_journals_and_the_next_one_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = HeldDisk()
    async with running(tmp_path, disk) as server:
        peer = await server.client()
        sets = b"".join(b"set q%d 0 0 1\r\na\r\n" % number for number in range(30))
        peer.writer.write(sets)
        for _ in range(30):
            assert await peer.line() == b"STORED\r\n"
        monkeypatch.setattr("kestrelpy.server.turn.WRITE_SECONDS", -1.0)
        assert server.daemon is not None
        turn, written = server.daemon.turn, list[int]()
        commit = turn._commit_dirty

        def counted(now_ms: int) -> None:
            before = disk.writes
            commit(now_ms)
            written.append(disk.writes - before)

        monkeypatch.setattr(turn, "_commit_dirty", counted)
        peer.writer.write(sets)
        for _ in range(30):
            assert await peer.line() == b"STORED\r\n"
        assert max(written) == 1
        assert sum(written) >= 30


async def test_a_sync_of_a_small_request_gets_the_interpreter_soon_beside_a_flood(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as server:
        flood, victim = await server.client(), await server.client()
        assert server.daemon is not None
        switched: list[float] = []
        server.daemon.turn.commit_delay._switch = switched.append
        await victim.ask(b"set jobs 0 0 1\r\na\r\n")
        assert switched == [], "the client is alone"

        while not switched:
            flood.writer.write(b"touch a 1 noreply\r\n" * 5000)
            await victim.ask(b"set jobs 0 0 1\r\nb\r\n")

        assert switched[0] == SWITCH_SECONDS_HURRIED
        while len(switched) < 2:
            await victim.ask(b"version\r\n")
            await asyncio.sleep(0.001)
        assert switched[1] == SWITCH_SECONDS


async def test_with_sync_never_stored_waits_for_no_sync(tmp_path: Path) -> None:
    disk = HeldDisk()
    async with running(tmp_path, disk, '[queue_defaults]\nsync = "never"\n') as server:
        peer = await server.client()
        disk.syncs = 0
        assert await peer.ask(b"set jobs 0 0 1\r\na\r\n") == b"STORED\r\n"
        assert await peer.ask(b"set jobs 0 0 1\r\nb\r\n") == b"STORED\r\n"
        assert disk.syncs <= 1  # that of the new segment's file, before it had a name


async def test_with_sync_every_so_often_the_sync_comes_by_itself(tmp_path: Path) -> None:
    disk = HeldDisk()
    async with running(tmp_path, disk, '[queue_defaults]\nsync = "400ms"\n') as server:
        peer = await server.client()
        assert await peer.ask(b"set jobs 0 0 1\r\na\r\n") == b"STORED\r\n"
        before = disk.syncs
        while disk.syncs == before:
            await asyncio.sleep(0.005)


async def test_records_without_a_waiter_are_on_disk_soon(tmp_path: Path) -> None:
    async with running(tmp_path, HeldDisk()) as server:
        peer = await server.client()
        assert server.daemon is not None
        queues = server.daemon.broker.queues
        assert await peer.ask(b"set jobs 0 0 1\r\na\r\n") == b"STORED\r\n"
        assert await peer.ask(b"get jobs/open\r\n") == b"VALUE jobs/open 0 1\r\n"
        assert [await peer.line(), await peer.line()] == [b"a\r\n", b"END\r\n"]
        assert await peer.ask(b"set next/confirm 0 0 1\r\nb\r\n") == b"STORED\r\n"

        while queues[b"next"].origins:  # it leaves `jobs` by the passing of time alone
            await asyncio.sleep(0.005)
        for log in (queues[b"jobs"].log, queues[b"next"].log):
            while log.lsn_durable < log.lsn_appended:
                await asyncio.sleep(0.005)


async def test_a_confirm_whose_time_comes_during_a_sync_is_on_disk_soon(tmp_path: Path) -> None:
    disk = HeldDisk()
    async with running(tmp_path, disk) as server:
        peer = await server.client()
        for body in b"ab":
            assert await peer.ask(b"set jobs 0 0 1\r\n%c\r\n" % body) == b"STORED\r\n"
        assert server.daemon is not None
        log, later = server.daemon.broker.queues[b"jobs"].log, server.daemon.turn._later
        assert isinstance(log, JournalLog)
        disk.go.clear()
        for body in b"ab":
            assert await peer.ask(b"get jobs\r\n") == b"VALUE jobs 0 1\r\n"
            assert [await peer.line(), await peer.line()] == [b"%c\r\n" % body, b"END\r\n"]
            while log in later._timers or not log.journal.commit.lsn_in_flight:
                await asyncio.sleep(0.005)
        disk.go.set()

        while log.lsn_durable < log.lsn_appended:  # by the passing of time alone
            await asyncio.sleep(0.005)


async def test_a_snapshot_that_begins_during_a_sync_has_the_next_one_with_sync_never(
    tmp_path: Path,
) -> None:
    """A snapshot is written when its records are on disk, and only it needs that sync."""
    disk = HeldDisk()
    async with running(tmp_path, disk, '[queue_defaults]\nsync = "never"\n') as server:
        peer = await server.client()
        assert await peer.ask(b"set jobs 0 0 1\r\na\r\n") == b"STORED\r\n"
        assert server.daemon is not None
        log = server.daemon.broker.queues[b"jobs"].log
        assert isinstance(log, JournalLog)
        disk.go.clear()
        log.wait_durable(log.lsn_appended)
        server.daemon.turn.schedule()
        while not log.journal.commit.lsn_in_flight:
            await asyncio.sleep(0.005)
        log.store.maintenance.is_asked = True
        assert await peer.ask(b"get jobs\r\n") == b"VALUE jobs 0 1\r\n"
        assert [await peer.line(), await peer.line()] == [b"a\r\n", b"END\r\n"]
        assert log.store.maintenance.lsns, "it has begun"
        disk.go.set()

        while not log.store.maintenance.snapshots:  # by the passing of time alone
            await asyncio.sleep(0.005)


async def test_after_a_failed_sync_nothing_more_is_acknowledged(tmp_path: Path) -> None:
    disk = HeldDisk()
    async with running(tmp_path, disk) as server:
        peer, other = await server.client(), await server.client()
        assert await peer.ask(b"set jobs 0 0 1\r\na\r\n") == b"STORED\r\n"
        disk.fails = True
        assert (await peer.ask(b"set jobs 0 0 1\r\nb\r\n")).startswith(b"SERVER_ERROR")
        disk.fails = False
        syncs = disk.syncs

        for request in (b"set jobs 0 0 1\r\nc\r\n", b"get jobs/open\r\n", b"flush jobs\r\n"):
            answer = await peer.ask(request)
            assert answer.startswith(b"SERVER_ERROR journal failed"), answer
        assert disk.syncs == syncs, "a sync was tried again"
        assert await peer.ask(b"get jobs/peek\r\n") == b"VALUE jobs/peek 0 1\r\n"
        assert await other.ask(b"set mail 0 0 1\r\na\r\n") == b"STORED\r\n"


async def test_no_room_for_a_segment_refuses_sets_and_heals_by_itself(tmp_path: Path) -> None:
    disk = HeldDisk()
    async with running(tmp_path, disk) as server:
        peer, other = await server.client(), await server.client()
        disk.no_room = True
        peer.writer.write(b"set jobs 0 0 1\r\na\r\n")
        assert server.daemon is not None
        queues = server.daemon.broker.queues
        while b"jobs" not in queues or not queues[b"jobs"].log.no_room:
            await asyncio.sleep(0.005)

        answer = await other.ask(b"set jobs 0 0 1\r\nb\r\n")
        assert answer.startswith(b"SERVER_ERROR disk full"), answer
        assert peer.has_heard_nothing()

        disk.no_room = False
        assert await peer.line() == b"STORED\r\n"
        assert await other.ask(b"set jobs 0 0 1\r\nc\r\n") == b"STORED\r\n"


async def test_a_lease_ends_without_any_traffic(tmp_path: Path) -> None:
    async with running(tmp_path, config='[queue_defaults]\nlease = "50ms"\n') as server:
        holder, waiter = await server.client(), await server.client()
        await holder.ask(b"set jobs 0 0 1\r\na\r\n")
        await holder.ask(b"get jobs/open\r\n")
        assert await waiter.ask(b"get jobs/open/t=20s\r\n") == b"VALUE jobs/open/t=20s 0 1\r\n"


async def test_requests_executed_during_a_flush_are_written_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hand-off that comes with its open waits for the item: the item is stored during the flush,
    and no other turn may come for long."""
    monkeypatch.setattr("kestrelpy.server.turn.REST_SECONDS", 3600.0)
    monkeypatch.setattr("kestrelpy.server.turn.OFFSET_CHECK_MS", 3_600_000)
    async with running(tmp_path) as server:
        worker = await server.client()
        for _ in range(3):
            worker.writer.write(
                b"set jobs 0 0 1\r\na\r\nget jobs/open\r\nset next/confirm 0 0 1\r\nb\r\n"
            )
            lines = [await asyncio.wait_for(worker.line(), 30) for _ in range(5)]
            assert lines[0] == lines[4] == b"STORED\r\n"


async def test_work_begun_after_the_reply_to_a_hand_off_goes_on_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A move that comes with a hand-off begins during the flush, and no other turn may come for
    long."""
    monkeypatch.setattr("kestrelpy.server.turn.OFFSET_CHECK_MS", 3_600_000)
    async with running(tmp_path, config='[queue_defaults]\nlease = "none"\n') as server:
        worker = await server.client()
        for queue in (b"jobs", b"mail"):
            assert await worker.ask(b"set %b 0 0 1\r\na\r\n" % queue) == b"STORED\r\n"
        worker.writer.write(b"get jobs/open\r\n")
        assert [await worker.line() for _ in range(3)][1] == b"a\r\n"
        worker.writer.write(b"set jobs/confirm 0 0 1\r\nb\r\nmove mail later 1\r\n")
        lines = [await asyncio.wait_for(worker.line(), 30) for _ in range(2)]
        assert lines == [b"STORED\r\n", b"1\r\n"]


# -- a turn by hand -----------------------------------------------------------------------------


@pytest.fixture
def life() -> DiskHarness:
    life = DiskHarness(Policy())
    life.put(b"1")
    return life


def turn_of(life: DiskHarness) -> tuple[Turn, HandLoop]:
    loop = HandLoop()
    return Turn(life.broker, cast("Any", loop), life.dirty, Mock()), loop


def test_the_end_of_a_read_has_a_turn_that_answers_who_waited_for_it(life: DiskHarness) -> None:
    life.commit()
    life.kill()
    turn, loop = turn_of(life)
    life.broker.wait(Want.OPEN, b"jobs", life.who("anna"), False, "anna", 1000)
    turn.read_back(life.reader)
    assert len(loop.soon) == 1


def test_records_that_must_be_synced_before_a_file_is_closed_have_a_turn(life: DiskHarness) -> None:
    turn, loop = turn_of(life)
    turn._sync_now(life.log)
    assert life.dirty == [life.log]
    assert len(loop.soon) == 1


def test_records_without_a_waiter_have_a_turn_when_their_time_has_come(life: DiskHarness) -> None:
    turn, loop = turn_of(life)
    turn.committer = Mock()
    turn._sync_later(life.log)
    assert life.log.awaited_lsn == life.log.lsn_appended
    assert len(loop.soon) == 1


def test_a_time_that_comes_after_the_end_syncs_nothing(life: DiskHarness) -> None:
    turn, loop = turn_of(life)
    committer = turn.committer = Mock()
    turn.stop()
    turn._sync_later(life.log)
    life.commit()
    turn._sync_later(life.log)
    assert not committer.method_calls
    assert loop.soon == []


def test_what_is_written_again_as_segments_go_has_a_turn(life: DiskHarness) -> None:
    turn, loop = turn_of(life)
    life.commit()
    turn.retire_segments(life.log)
    assert loop.soon == []
    life.log.mark()
    turn.retire_segments(life.log)
    assert len(loop.soon) == 1


@pytest.mark.parametrize(
    ("sync_ms", "is_awaited", "gathers"),
    [(0, True, True), (0, False, False), (400, True, False), (-1, True, False)],
)
def test_only_a_sync_that_clients_waited_for_is_followed_by_a_gathering(
    life: DiskHarness, sync_ms: int, is_awaited: bool, gathers: bool
) -> None:
    turn, _ = turn_of(life)
    life.commit()
    gathering = Mock()
    turn._gathering = gathering
    life.log.sync_ms = sync_ms
    life.log.waiting_stored = {Mock(is_touched=True)} if is_awaited else set()
    turn.synced(life.log, 1.0)
    assert gathering.begin.called is gathers


def test_a_new_segment_has_a_turn_that_writes_to_it(life: DiskHarness) -> None:
    turn, loop = turn_of(life)
    turn.segment_ready(life.log)
    assert life.dirty == [life.log]
    assert len(loop.soon) == 1


def test_a_member_that_is_stopped_while_it_answers_sends_nothing_when_it_wakes(
    life: DiskHarness,
) -> None:
    """As if the member fell asleep after the first answer of a turn: the later answers wait."""
    life.commit()
    life.dirty.clear()
    turn, loop = turn_of(life)
    callers = [Mock(is_touched=False) for _ in range(3)]
    for caller in callers:
        turn.touch(caller)
    answers = iter([True, True, False])  # of the turn, the first caller, the second one
    turn.may_answer = lambda: next(answers)
    loop.soon.pop()[0]()
    assert [each.flush.called for each in callers] == [True, False, False]

    turn.may_answer = lambda: True
    loop.soon.pop()[0]()
    assert [each.flush.call_count for each in callers] == [1, 1, 1]


async def test_a_member_that_is_stopped_before_it_sends_hangs_up_instead(tmp_path: Path) -> None:
    async with running(tmp_path) as server:
        client = await server.client()
        await client.ask(b"set jobs 0 0 1\r\na\r\n")
        assert server.daemon is not None
        server.daemon.turn.may_answer = lambda: False
        client.writer.write(b"get jobs/open\r\n")
        (connection,) = server.daemon._connections
        async with asyncio.timeout(20):
            while connection.conversation is None or not connection.conversation.holder.leases:
                await asyncio.sleep(0.001)
        connection.flush_output(server.daemon.now_ms())  # as behind a turn that had been allowed to
        assert await client.closed()
        server.daemon.turn.may_answer = None

        other = await server.client()
        assert await other.ask(b"get jobs/open\r\n") == b"VALUE jobs/open 0 1\r\n"


def test_what_is_written_says_the_time_of_day(life: DiskHarness) -> None:
    life.commit()
    life.now_ms += 5
    life.put(b"2")
    turn, _ = turn_of(life)
    turn.committer = Mock()
    turn._commit_dirty(life.now_ms)
    journal = life.log.journal
    assert journal.active is not None
    data, number, at = life.disk.read(journal.active.path), journal.active.number, FILE_HEADER_BYTES
    times = dict[int, int]()
    while (record := decode(data, at, journal.short_identity, number)) is not None:
        times[record.kind] = record.time_ms
        at = padded(record.end)
    assert times[Kind.BATCH] == life.unix_ms


@pytest.mark.parametrize(("ahead_ms", "is_set"), [(0, False), (1, False), (OFFSET_STEP_MS, True)])
def test_the_clock_of_the_queues_is_set_when_the_wall_clock_was(
    life: DiskHarness, monkeypatch: pytest.MonkeyPatch, ahead_ms: int, is_set: bool
) -> None:
    turn, _ = turn_of(life)
    set_to = Mock()
    monkeypatch.setattr(life.broker, "step_clock", set_to)
    offset_ms = life.broker.clock.offset_ms + ahead_ms
    monkeypatch.setattr(clock, "wall_clock_offset_ms", lambda: offset_ms)
    turn._check_clock_offset(5)
    assert set_to.called == is_set
