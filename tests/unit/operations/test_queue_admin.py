"""An operator's request to a queue is done and rests on a record, or is refused and changes
nothing."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TypeVar

import pytest

from journal.errors import JournalFailed
from journal.sets.id_set import IdSet
from kestrelpy.errors import ClientError, Refused, ServerError
from kestrelpy.operations.queue_admin import QueueAdmin
from kestrelpy.operations.rests import Rests
from tests.support.server_harness import ServerHarness
from tests.support.steps import ended

JOBS = b"jobs"
T = TypeVar("T")


@pytest.fixture
def admin(server: ServerHarness) -> QueueAdmin:
    return QueueAdmin(server.broker, server)


def is_true(rests: Rests | None) -> bool:
    """Return whether the result may be told now."""
    assert rests is not None
    return rests.log.lsn_stored >= rests.stored and rests.log.lsn_written >= rests.written


Act = Callable[[QueueAdmin, ServerHarness], object]
ACTS: dict[str, Act] = {
    "flush": lambda admin, server: admin.flush(JOBS, server.now_ms),
    "flush all": lambda admin, server: admin.all_to_flush(),
    "sweep": lambda admin, server: admin.to_sweep(JOBS),
    "retry": lambda admin, server: admin.retry(JOBS, 1, server.now_ms),
    "delete": lambda admin, server: admin.delete(JOBS, server.now_ms),
    "declare": lambda admin, server: admin.declare(JOBS, b"max_items = 5", server.now_ms),
}


@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
@pytest.mark.parametrize("mode", ["readonly", "quiescent"])
def test_a_server_that_is_not_up_refuses_it_and_changes_nothing(
    server: ServerHarness, admin: QueueAdmin, act: Act, mode: str
) -> None:
    server.mode = mode
    with pytest.raises(ServerError, match=f"{mode}: this server (removes|deletes|stores) nothing"):
        act(admin, server)
    assert server.queue("jobs").reader.ready.count == 3


@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
def test_a_failed_journal_refuses_it(
    server: ServerHarness, admin: QueueAdmin, act: Act
) -> None:
    server.queue("jobs").log.failure = JournalFailed("the disk said no")
    with pytest.raises(Refused, match="the disk said no"):
        act(admin, server)


def test_nothing_there_is_none(server: ServerHarness, admin: QueueAdmin) -> None:
    now_ms = server.now_ms
    assert admin.flush(b"none", now_ms) is None
    assert admin.pause(b"none", True, now_ms) is None
    assert admin.retry(b"none", 1, now_ms) is None
    assert admin.retry(JOBS, 1, now_ms) is None, "it is not delayed"
    assert admin.delete(b"none", now_ms) is None
    assert admin.to_sweep(b"none") == []


@pytest.mark.parametrize("act", ["flush", "pause", "declare"])
def test_a_result_is_true_when_its_record_is_stored(
    server: ServerHarness, admin: QueueAdmin, act: str
) -> None:
    server.hold_syncs()
    now_ms = server.now_ms
    rests = {
        "flush": lambda: admin.flush(JOBS, now_ms),
        "pause": lambda: admin.pause(JOBS, True, now_ms),
        "declare": lambda: admin.declare(JOBS, b"max_items = 5", now_ms).rests,
    }[act]()
    server.work()
    assert not is_true(rests)
    server.go()
    server.work()
    assert is_true(rests)


def test_a_deleted_queue_is_gone_when_its_files_are(
    server: ServerHarness, admin: QueueAdmin
) -> None:
    server.removes = False
    rests = admin.delete(JOBS, server.now_ms)
    server.work()
    assert rests is not None
    assert not any(map(is_true, rests))
    server.removes = True
    server.work()
    assert all(map(is_true, rests))


def test_a_deleted_child_rests_on_the_files_of_an_earlier_queue_too(
    server: ServerHarness, admin: QueueAdmin
) -> None:
    server.say("a", b"get jobs+audit")
    rests = admin.delete(b"jobs+audit", server.now_ms)
    server.work()
    assert rests is not None
    assert all(map(is_true, rests))
    assert b"jobs+audit" not in server.broker.queues
    assert server.broker.counters.queue_deletes == 1


def test_delete_and_flush_all_may_be_forbidden(server: ServerHarness, admin: QueueAdmin) -> None:
    server.set_server(allow_delete=False, allow_flush_all=False)
    with pytest.raises(ClientError, match="allow_delete"):
        admin.delete(JOBS, server.now_ms)
    with pytest.raises(ClientError, match="allow_flush_all"):
        admin.all_to_flush()


def test_another_declaration_is_not_in_force(server: ServerHarness, admin: QueueAdmin) -> None:
    assert admin.declare(JOBS, b"max_items = 5", server.now_ms).is_in_force
    assert admin.declare(JOBS, b"max_items = 5", server.now_ms).is_in_force
    assert not admin.declare(JOBS, b"max_items = 6", server.now_ms).is_in_force
    assert server.queue("jobs").policy.max_items == 5


def test_expired_items_are_swept_and_counted(server: ServerHarness, admin: QueueAdmin) -> None:
    for _ in range(3):
        server.say("a", b"set mail 0 1 1", b"x")
    server.now_ms += 5000  # no tick has run
    assert ended(admin.sweep(admin.to_sweep(None), server.now_ms)) == 3


def test_dead_letters_are_redriven_in_slices(
    server: ServerHarness, admin: QueueAdmin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kestrelpy.operations.queue_admin._REDRIVEN_PER_SLICE", 1)
    for _ in range(3):
        server.say("a", b"get jobs/open")
        server.say("a", b"get jobs/abort")
    queue = server.queue("jobs")
    steps = admin.redrive(queue, deque([1, 2, 99]), server.now_ms)
    assert next(steps) == b""
    assert list(queue.reader.dead.deaths) == [2, 3]
    count, rests = ended(steps)
    server.work()
    assert (count, list(queue.reader.dead.deaths)) == (2, [3])
    assert is_true(rests)


def test_without_room_for_the_first_nothing_is_redriven(
    server: ServerHarness, admin: QueueAdmin, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.say("a", b"get jobs/open")
    server.say("a", b"get jobs/abort")
    queue = server.queue("jobs")
    monkeypatch.setattr(type(queue.log), "no_room", "the disk is full")
    with pytest.raises(ServerError, match="the disk is full"):
        ended(admin.redrive(queue, deque([1]), server.now_ms))
    assert list(queue.reader.dead.deaths) == [1]


def test_a_sweep_of_all_queues_ends_nothing_in_one_whose_journal_failed_meanwhile(
    server: ServerHarness, admin: QueueAdmin
) -> None:
    assert server.say("a", b"set jobs 0 1 1", b"x") == b"STORED\r\n"
    queue, queues = server.queue("jobs"), admin.to_sweep(None)
    server.now_ms += 5_000  # and no tick has come
    queue.log.fail(JournalFailed("the disk said no"))
    live = [*queue.reader.live]

    assert ended(admin.sweep(queues, server.now_ms)) == 0

    assert [*queue.reader.live] == live


def test_a_redrive_ends_with_the_slice_in_which_the_journal_fails(
    server: ServerHarness, admin: QueueAdmin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kestrelpy.operations.queue_admin._REDRIVEN_PER_SLICE", 1)
    for _ in range(2):
        server.say("a", b"get jobs/open")
        server.say("a", b"get jobs/abort")
    queue = server.queue("jobs")
    deaths = queue.reader.dead.deaths
    assert len(deaths) == 2
    steps = admin.redrive(queue, deque(deaths), server.now_ms)
    next(steps)
    queue.log.fail(JournalFailed("the disk said no"))

    count, _ = ended(steps)

    assert (count, len(deaths)) == (1, 1)


def test_nothing_is_given_up_in_a_queue_whose_journal_failed_meanwhile(
    server: ServerHarness, admin: QueueAdmin
) -> None:
    queue = admin.to_acknowledge(JOBS)
    assert queue is not None
    queue.reader.unreadable.add(1)
    queue.log.fail(JournalFailed("the disk said no"))

    count, _ = ended(admin.acknowledge(queue, server.now_ms))

    assert (count, [*queue.reader.unreadable]) == (0, [1])


def test_what_is_found_unreadable_during_a_count_is_counted(
    server: ServerHarness, admin: QueueAdmin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others read the journal between two slices."""
    monkeypatch.setattr("kestrelpy.operations.queue_admin._GIVEN_UP_PER_SLICE", 1)
    queue = admin.to_acknowledge(JOBS)
    assert queue is not None
    reader = queue.reader
    reader.ready.clear(server.broker.memory.trash)  # their bodies are in no memory
    reader.know_unreadable(IdSet.of([1, 2]))
    count = admin.would_acknowledge(queue)
    next(count)
    reader.know_unreadable(IdSet.of([3]))
    assert ended(count) == 3
