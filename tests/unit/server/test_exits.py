"""Every mark and list of the server's parts has an exit: the held work is done later."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import pytest

from journal.errors import JournalFailed
from journal.write.segment_file import Sizes
from kestrelpy.core.log.log import JournalLog
from kestrelpy.errors import ServerError
from kestrelpy.operations import Caller
from kestrelpy.protocol import Conversation, LogLimit
from kestrelpy.server.connections import logins as logins_module
from kestrelpy.server.connections.connection import Connection
from kestrelpy.server.connections.logins import Attempt, Logins, WaitingLogins
from kestrelpy.server.directory.beat import Heart
from kestrelpy.server.directory.data_directory import DataDirectory
from kestrelpy.server.journals.committer import Committer
from kestrelpy.server.journals.idle_journals import IdleJournals
from kestrelpy.server.journals.journal_jobs import JournalJobs
from kestrelpy.server.journals.open_journals import OpenJournals
from kestrelpy.server.journals.read_back import ReadBack
from kestrelpy.server.journals.read_cache import ReadCache
from kestrelpy.server.journals.shortage import Shortage
from kestrelpy.server.queue_deletion import QueueDeletions
from kestrelpy.server.shares import Shares
from kestrelpy.server.turn import Turn
from tests.support.memory_disk import MemoryDisk

ORIGIN = ("10.0.0.1", "anna")


class Loop:
    """A loop whose timers ring when the test says so."""

    def __init__(self) -> None:
        self.timers: list[SimpleNamespace] = []

    def time(self) -> float:
        return 0.0

    def call_soon(self, call: Callable[..., object], *arguments: object) -> None:
        pass

    def call_later(
        self, seconds: float, call: Callable[..., object], *arguments: object
    ) -> SimpleNamespace:
        made = SimpleNamespace(
            ring=lambda: call(*arguments), cancel=lambda: self.timers.remove(made)
        )
        self.timers.append(made)
        return made

    def ring(self) -> None:
        for each in [*self.timers]:
            self.timers.remove(each)
            each.ring()


@pytest.fixture
def loop() -> Loop:
    return Loop()


# -- the turn ---------------------------------------------------------------------------------


@pytest.fixture
def turn(loop: Loop) -> Turn:
    made = Turn(Mock(), cast(Any, loop), [], Mock())
    broker = cast(Any, made._broker)
    broker.counters.bytes_written = broker.clock.offset_ms = 0
    made.may_answer = None
    return made


@pytest.mark.parametrize("kind", [Conversation, Caller])
def test_a_caller_waits_in_line_once_and_again_when_it_had_its_turn(turn: Turn, kind: type) -> None:
    caller = Mock(kind, is_touched=False)
    for number in (1, 2):
        turn.touch(caller)
        turn.touch(caller)
        assert turn._touched == [caller]
        touched, turn._touched = turn._touched, []
        assert turn._flush(touched, 100, 0) == []
        assert not caller.is_touched
        assert caller.flush.call_count == number


def test_a_refusal_of_a_move_is_logged_once(turn: Turn, caplog: pytest.LogCaptureFixture) -> None:
    moves = cast(Any, turn._broker).moves
    moves.refusals, moves.has_more = ["queue b is full"], False
    moves.take_over.return_value = moves.in_flight.take_unawaited.return_value = []
    turn._move(0)
    turn._move(1)
    assert caplog.messages == ["queue b is full"]


def test_a_journal_that_failed_is_logged_once(
    turn: Turn, caplog: pytest.LogCaptureFixture
) -> None:
    target = Mock(failure=JournalFailed("disk on fire"), is_reported=False)
    target.take_waiting_room.return_value = []
    turn._report_failure(target)
    turn._report_failure(target)
    assert len(caplog.messages) == 1


@pytest.mark.parametrize("is_over", [False, True])
def test_a_journal_that_may_rest_may_do_so_again(turn: Turn, loop: Loop, is_over: bool) -> None:
    target = Mock()
    turn._resting[target] = cast(Any, loop.call_later(1, turn._rest, target))
    if is_over:
        turn.stop()
    loop.ring()
    assert turn._resting == {}
    assert target.journal.rest.called != is_over


def test_segments_that_are_empty_go_to_who_removes_them(turn: Turn) -> None:
    turn.committer = Mock()
    target = Mock()
    for dead in ([], ["a", "b"]):
        target.take_dead.return_value = dead
        turn.retire_segments(target)
    turn.committer.remove.assert_called_once_with(target, ["a", "b"])


def test_the_timer_rings_for_the_same_time_again_and_for_none(turn: Turn, loop: Loop) -> None:
    due = cast(Any, turn._broker).next_due
    due.return_value = 500
    turn._arm(0)
    turn._arm(0)
    assert len(loop.timers) == 1
    loop.ring()
    assert (turn._timer, turn._timer_ms) == (None, None)
    turn._arm(0)  # the turn was too early for it
    assert len(loop.timers) == 1
    due.return_value = None
    turn._arm(0)
    assert (turn._timer, loop.timers) == (None, [])
    due.return_value = 700
    turn._arm(0)
    assert len(loop.timers) == 1


def test_a_connection_lines_up_again_after_its_turn() -> None:
    now = 0.0
    shares = Shares(lambda: now)
    sharer = Mock(is_lined_up=False, heavy_until_ms=0, is_long=False)
    for _ in range(2):
        shares.line_up(sharer, 0)
        shares.line_up(sharer, 0)
        assert [each for each, _ in shares.take(0)] == [sharer]
        assert not sharer.is_lined_up


# -- a connection -----------------------------------------------------------------------------


def test_a_client_that_reads_again_is_answered_again() -> None:
    conversation = Mock(paused=False)
    connection = cast(Any, Mock(conversation=conversation))
    for _ in range(2):
        Connection.pause_writing(connection)
        assert conversation.paused
        Connection.resume_writing(connection)
        assert not conversation.paused
    assert connection._turn.touch.call_count == 2
    connection.conversation = None
    Connection.pause_writing(connection)
    Connection.resume_writing(connection)


@pytest.mark.parametrize("is_leaving", [False, True])
def test_a_lost_connection_has_no_transport_and_hangs_up_once(is_leaving: bool) -> None:
    conversation = Mock()
    connection = cast(Any, Mock(conversation=conversation))
    connection._daemon.is_leaving = is_leaving
    Connection.connection_lost(connection, None)
    Connection.connection_lost(connection, None)
    assert (connection.conversation, connection._transport) == (None, None)
    assert conversation.hang_up.call_count == (not is_leaving)
    connection._memory.leave.assert_called_once_with(connection)


# -- journals ---------------------------------------------------------------------------------


def test_what_was_read_for_others_is_forgotten_after_a_moment(loop: Loop) -> None:
    cache, target, record = ReadCache(cast(Any, loop)), Mock(), Mock()
    cache.begin(target)
    assert cache.is_reading(target)
    cache.end(target, {1: record})
    assert (cache.is_reading(target), cache.of(target, [1, 2])) == (False, [record])
    cache.end(target, {2: record})  # the first one's time ends, and not that of this one
    first, second = loop.timers
    first.ring()
    assert cache.of(target, [1, 2]) == [record]
    second.ring()
    assert (cache.of(target, [2]), cache._cached) == ([], {})


def opened(loop: Loop) -> tuple[OpenJournals, Mock]:
    again = Mock()
    return OpenJournals(cast(Any, loop), Shortage(cast(Any, loop)), Mock(), again), again


def test_an_engine_that_is_behind_is_looked_at_again_each_time(loop: Loop) -> None:
    files, again = opened(loop)
    target = Mock(is_local=False)
    for number in (1, 2, 3):
        target.journal.files.is_behind = True
        assert not files.has_room_for(target, 0)
        assert not files.has_room_for(target, 0)
        assert len(loop.timers) == 1
        loop.ring()
        assert (again.call_count, files._behind) == (number, None)
    target.journal.files.is_behind = False
    assert files.has_room_for(target, 0)


def test_a_journal_that_could_not_open_its_file_does_when_it_can(loop: Loop) -> None:
    files, again = opened(loop)
    target = Mock(failure=None)
    for number in (1, 2):
        target.journal.shortage = OSError(errno.EMFILE, "Too many open files")
        files.wrote(target, 0)
        assert files.is_waiting(target)
        loop.timers.pop(0).ring()
        assert (files.is_waiting(target), again.call_count) == (False, number)
        target.journal.shortage = None
        files.wrote(target, 0)
        assert (files._stalled, files._shortage.count) == (set(), 0)
    assert target.stall.call_count == 4


def test_the_journal_written_longest_ago_rests_first(loop: Loop) -> None:
    files, _ = opened(loop)
    one, two = Mock(failure=None), Mock(failure=None)
    for target in (one, two, one):
        target.journal.shortage = None
        files.wrote(target, 0)
    assert [*files._open] == [two, one]


def test_an_idle_journal_is_not_looked_at_after_the_end(loop: Loop) -> None:
    idle = IdleJournals(Mock(), cast(Any, loop), Mock(), Mock(), Mock(), lambda: 0)
    waits, goes = Mock(), Mock()
    for target in (waits, goes):
        target.store.reclaim.mark.return_value = 0
        idle.watch(target)
    idle._rounds[goes] = 0
    idle.close()
    assert not (idle.is_watching(waits) or idle.is_watching(goes))
    assert loop.timers == []


async def test_a_journal_is_busy_until_the_last_of_its_jobs_has_ended(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    jobs = JournalJobs(Mock(), asyncio.get_running_loop(), *[Mock()] * 4)
    target, gates = Mock(), [asyncio.Event() for _ in range(3)]

    async def fail() -> None:
        await gates[2].wait()
        raise ValueError("a mistake")

    for work in (gates[0].wait(), gates[1].wait(), fail()):
        jobs._start(target, cast(Any, work))
    for gate in gates:
        assert jobs.is_busy(target)
        gate.set()
        for _ in range(4):
            await asyncio.sleep(0)
    assert not jobs.is_busy(target)
    assert (jobs._busy, jobs._tasks, caplog.messages) == ({}, set(), ["a bug in the server"])


def test_a_snapshot_is_written_once_when_the_log_is_durable() -> None:
    target, job, begun = Mock(), Mock(), list[object]()
    job.snapshot.lsn = 5
    jobs = cast(Any, SimpleNamespace(_snapshots={target: job}, _write_snapshot=Mock()))
    jobs._start = lambda *work: begun.append(work)
    for durable in (4, 5, 6, 7):
        target.journal.commit.lsn_durable = durable
        JournalJobs.log_advanced(jobs, target)
    assert (len(begun), jobs._snapshots) == (1, {})


# -- segments ---------------------------------------------------------------------------------


class Preparing:
    """A committer whose preallocation does what the test says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.loop = asyncio.get_running_loop()
        self.prepared = Mock()
        self.committer = Committer(Mock(is_local=True), self.loop, Mock(), self.prepared)
        self.committer._prepare = cast(Any, self.prepare)
        self.target = Mock(
            spec=JournalLog, is_short=False, is_reported=False, no_room="", archive_to=""
        )
        self.target.journal = Mock()
        self.target.journal.preallocation.recycled = []
        self.seen: list[tuple[bool, bool]] = []
        self.results: list[OSError | None] = []
        real = asyncio.sleep

        async def sleep(_: float) -> None:
            marks = self.target.journal.preallocation
            self.seen.append((self.committer.is_preparing(self.target), marks.is_under_way))
            await real(0)

        monkeypatch.setattr("kestrelpy.server.journals.committer.asyncio.sleep", sleep)

    async def prepare(self, *_: object) -> object:
        assert self.committer.is_preparing(self.target)
        if (error := self.results.pop(0)) is not None:
            self.target.journal.preallocation.is_under_way = False
            raise error
        return Mock()


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EMFILE])
async def test_between_two_attempts_for_a_segment_no_thread_makes_one(
    monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    stage = Preparing(monkeypatch)
    committer, target = stage.committer, stage.target
    for _ in range(2):
        stage.results = [OSError(error, "no"), OSError(error, "no"), None]
        stage.seen.clear()
        await committer._preallocate(target, Mock(path="q/2.segment"))
        assert stage.seen and {*stage.seen} == {(False, True)}
        assert not committer.is_preparing(target)
        assert committer.without_room == set()
        assert committer._shortage.count == 0
        assert target.stall.call_args.args[1] == ""


async def test_a_deleted_queue_waits_for_no_segment(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Preparing(monkeypatch)
    stage.target.is_reported = True
    stage.results = [OSError(errno.ENOSPC, "no")]
    await stage.committer._preallocate(stage.target, Mock(path="q/2.segment"))
    assert (stage.committer._preparing, stage.committer.without_room) == (set(), set())


async def test_segments_are_removed_once_and_those_of_a_deleted_queue_are_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = Preparing(monkeypatch)
    committer, target, gone = stage.committer, stage.target, list[str]()
    fails = [OSError(errno.EIO, "no")]

    async def retire(_: object, path: str, *more: object) -> tuple[str, int]:
        if fails:
            raise fails.pop()
        gone.append(path)
        return "", 0

    committer._retire = cast(Any, retire)

    async def finish_tasks() -> None:
        for task in [*committer._tasks]:
            await task
        await asyncio.get_running_loop().run_in_executor(ThreadPoolExecutor(1), bool)

    committer.remove(target, ["1"])
    await finish_tasks()
    assert (gone, committer.is_removing(target)) == ([], False)
    committer.remove(target, ["2"])
    assert committer.is_removing(target)
    await finish_tasks()
    assert (gone, committer._removals, committer._removing) == (["1", "2"], {}, set())

    fails.append(OSError(errno.EIO, "no"))
    committer.remove(target, ["3"])
    await finish_tasks()
    committer.let_go(target)
    assert committer._removals == {}
    assert committer._tasks == set()


# -- logins -----------------------------------------------------------------------------------


async def test_a_line_of_logins_is_empty_when_all_have_left_or_given_up() -> None:
    line = WaitingLogins()
    for _ in range(3):
        begun = 0
        while line.is_free:
            await line.enter(ORIGIN)
            begun += 1
        attempts = [Attempt(line) for _ in range(4)]
        for each in attempts:
            each.task = asyncio.create_task(line.enter(ORIGIN))
        await asyncio.sleep(0)
        assert line.waiting_tasks == {each.task for each in attempts}

        attempts[0].note_eof()
        attempts[1].give_up()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert (attempts[0].is_over, attempts[0].at_end, attempts[0].refusal != "") == (True,) * 3
        assert (attempts[1].is_over, attempts[1].at_end, attempts[1].refusal) == (True, False, "")
        for _ in range(begun + 2):
            line.leave(ORIGIN)
            await asyncio.sleep(0)
        assert all(each.task is not None and each.task.done() for each in attempts)
        assert (line.count, line.waiting_tasks, line._waiting) == (0, set(), {})
        assert not line._counts
        attempts[2].note_eof()
        assert (attempts[2].is_over, attempts[2].at_end) == (False, True), "it is checked already"


async def test_too_many_logins_are_refused_until_some_have_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(logins_module, "PENDING_EACH_MAX", 2)
    line = WaitingLogins()
    for _ in range(2):
        await line.enter(ORIGIN)
        await line.enter(ORIGIN) if line.is_free else None
        left = line.count
        monkeypatch.setattr(logins_module, "PENDING_EACH_MAX", left)
        with pytest.raises(ServerError):
            await line.enter(ORIGIN)
        for _ in range(left):
            line.leave(ORIGIN)
        monkeypatch.setattr(logins_module, "PENDING_EACH_MAX", 2)


def test_a_beat_that_is_not_written_is_one_line_each_time(
    caplog: pytest.LogCaptureFixture,
) -> None:
    beat, broker = Mock(), Mock(refusal="")
    broker.clock.running_ms, broker.clock.last_ms = 0, 10
    heart = Heart(beat, broker, lambda: 1)
    for turn in (1, 2):
        beat.save.side_effect = OSError("no room")
        heart.try_to_save()
        heart.try_to_save()
        assert len(caplog.messages) == turn
        beat.save.side_effect = None
        heart.try_to_save()


# -- deleted queues ---------------------------------------------------------------------------


class Deletions:
    """Removals of queues whose files go at once, or cannot."""

    def __init__(self) -> None:
        self.broker, self.directory, self.tasks = Mock(), Mock(), list[asyncio.Task[None]]()
        self.broker.moves.in_flight.holds.return_value = False
        self.broker.moves.in_flight.doubts.return_value = False
        self.made = QueueDeletions(self.broker, self.directory, self.start)
        self.made.turn = Mock()
        self.made.turn.shortage.retry = lambda _, work: work()

    def start(self, work: Any) -> None:
        self.tasks.append(asyncio.create_task(work))

    def delete(self, name: bytes) -> Any:
        queue = Mock()
        queue.name, queue.children, queue.is_tombstone = name, {}, False
        queue.log = Mock(JournalLog)
        queue.log.journal = Mock()
        queue.log.failure, queue.log.no_room = None, ""
        queue.log.waiting_stored = queue.log.waiting_written = set()
        self.made.begin(queue)
        return queue

    async def finish_tasks(self) -> None:
        while self.tasks:
            await self.tasks.pop()


@pytest.mark.parametrize("fails", [False, True])
async def test_queues_that_are_deleted_later_go_as_well(
    fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Deletions()
    monkeypatch.setattr(stage.made, "_is_needed", lambda *_: False)

    def remove(queues: list[Any], removed: Any) -> None:
        if fails:
            removed.errors.update({each: OSError(errno.EIO, "no") for each in queues})

    stage.directory.remove_queues.side_effect = remove
    ended = stage.broker.end
    for turn in (1, 2):
        two = [stage.delete(b"a"), stage.delete(b"a")]
        assert len(stage.tasks) == 1, "one at a time removes files"
        assert stage.made._going == {b"a": two}
        await stage.finish_tasks()
        assert (stage.made._going, stage.made._is_working) == ({}, False)
        assert [each.args[0] for each in ended.call_args_list[-2:]] == two
        assert ended.call_count == 2 * turn


# -- the rest ---------------------------------------------------------------------------------


def test_when_the_directory_is_gone_each_queue_is_logged_once(
    turn: Turn, caplog: pytest.LogCaptureFixture
) -> None:
    logs = [Mock(JournalLog, is_reported=False, failure=JournalFailed("gone")) for _ in range(2)]
    for each in logs:
        each.end_waiting_room.return_value = each.take_waiting_room.return_value = []
        each.waiting_stored, each.waiting_written = set(), set()
        each.lsn_stored = each.lsn_notified = 0
    cast(Any, turn._broker).logged = [Mock(log=each) for each in logs]
    turn.lose_all("data is gone")
    for each in logs:
        turn._report_failure(each)
    assert len(caplog.messages) == 1


async def test_a_login_that_is_known_is_known_for_a_bounded_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(logins_module, "_KNOWN_MAX", 3)
    made = Logins(Mock(), lambda: 0, Mock(), Mock())
    monkeypatch.setattr(made, "is_current", lambda _: True)

    async def checked(*_: object) -> tuple[Any, bool]:
        return Mock(), True

    monkeypatch.setattr(made, "_checked", checked)
    for number in range(10):
        await made.check("anna", b"%d" % number, "peer")
        assert len(made._known) <= 3
        assert made.known("anna", b"%d" % number) is not None


def reading(loop: Loop) -> tuple[ReadBack, list[str], list[Any]]:
    found, begun = list[str](), list[Any]()

    def on_thread(work: Any) -> Any:
        async def run(*_: object) -> object:
            result = found.pop(0)
            if result:
                raise OSError(errno.EIO, result)
            return Mock()

        return run

    made = ReadBack(
        Mock(), cast(Any, loop), on_thread, Shortage(cast(Any, loop)), Mock(), Mock(),
        lambda _, work: begun.append(work),
    )  # fmt: skip
    return made, found, begun


@pytest.mark.parametrize("how", ["", "Input/output error"])
async def test_a_dead_letter_is_read_again_after_each_read(loop: Loop, how: str) -> None:
    made, found, begun = reading(loop)
    reader, target = Mock(unread=""), Mock()
    target.store.one.return_value.item = 7
    for _ in range(3):
        assert made._read_dead_letter(reader, target)
        assert made._read_dead_letter(reader, target)
        [work] = begun  # the second one waits for it
        begun.clear()
        found.append(how)
        await work
        assert made._reviving == set()


def test_a_note_of_a_reader_is_logged_once(loop: Loop, caplog: pytest.LogCaptureFixture) -> None:
    made, _, _ = reading(loop)
    reader = Mock(notes=["queue q: one item is passed over"])
    reader.name, reader.log = b"q", Mock()
    for _ in range(2):
        assert made.schedule_read(reader)
        made._log_limit = LogLimit()  # which would say it once a minute
    assert len(caplog.messages) == 1


@pytest.mark.parametrize("is_ending", [False, True])
async def test_a_look_that_ended_answers_unless_the_process_ends(is_ending: bool) -> None:
    work, answered = Mock(error=None, is_over=False), Mock()
    jobs = JournalJobs(Mock(), asyncio.get_running_loop(), Mock(), Mock(), Mock(), answered)
    if is_ending:
        jobs._ending.set()
    caller = Mock()
    await jobs._browse(work, caller)
    assert (work.is_over, answered.call_count) == (not is_ending, not is_ending)
    assert jobs._shortage.count == 0
    await asyncio.to_thread(jobs._browsers.shutdown)


def test_a_directory_is_unlocked_once_and_its_probe_is_gone() -> None:
    disk = MemoryDisk()
    directory = DataDirectory(disk, "data", Sizes())
    for _ in range(2):
        directory.lock()
        directory.measure_sync()
        assert "sync-probe" not in disk.names("data")
        directory.unlock()
        directory.unlock()
        assert directory._lock is None
        assert directory.check() == ""
