"""The order in which the files of deleted queues go, and the replies."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from journal.files import Handle, is_shortage
from kestrelpy.core.log.log import JournalLog
from kestrelpy.core.queue.queue import Queue
from kestrelpy.operations.rests import Gate
from kestrelpy.server.directory.removed import Removed
from kestrelpy.server.queue_deletion import LOOKS_MAX, QueueDeletions
from tests.support.disks import HeldDisk
from tests.support.memory_disk import Fault
from tests.support.running import running
from tests.support.transfer_harness import (
    TransferHarness,
    both_deleted_and_the_first_failed,
    cut_at_every_step,
)


class AtOnce:
    """A shortage is over at once."""

    async def retry(self, subject: str, work: Callable[[], Awaitable[Any]]) -> Any:
        try:
            return await work()
        except OSError as error:
            if not is_shortage(error):
                raise
            return await work()


def begun(town: TransferHarness) -> tuple[dict[str, Gate], asyncio.Future[list[None]]]:
    """Begin all deletions at once; return the reply to each queue's delete, and the end of all."""
    tasks: list[asyncio.Task[None]] = []

    def start(work: Coroutine[object, object, None]) -> None:
        tasks.append(asyncio.get_running_loop().create_task(work))

    removals = QueueDeletions(town.broker, town.directory, start)
    nothing: Any = SimpleNamespace(
        committer=SimpleNamespace(
            is_removing=lambda target: False, is_preparing=lambda target: False,
            let_go=lambda target: None,
        ),
        journal_jobs=SimpleNamespace(is_busy=lambda target: False, let_go=lambda target: None),
        files=SimpleNamespace(rested=lambda target: None),
        shortage=AtOnce(),
        touch_all=lambda conversations: None, schedule=lambda: None,
    )  # fmt: skip
    removals.turn = nothing
    gates = {}
    for queue in town._removing:
        gates[queue.name.decode()] = removals.gate(queue)
        removals.begin(queue)
    return gates, asyncio.gather(*tasks)


async def removed(town: TransferHarness) -> dict[str, Gate]:
    """Do as `begun`, and wait for the end of the removal."""
    gates, over = begun(town)
    await over
    return gates


def on_the_way(*short: str) -> tuple[TransferHarness, list[JournalLog]]:
    """Hand an item off from jobs to next, on disk there, in a shortage of these queues.

    Nothing else is written until the town goes on. There was no reply yet.
    """
    town = TransferHarness()
    for queue in ("jobs", "next"):
        town.put(queue, b"made")
        town.finish(queue)
    town.put("jobs", b"0")
    assert town.take("jobs") == b"0"
    town.removes = False
    town.hold_writes()
    assert town.pass_on("next", b"0") == b""
    logs = [log for queue in short if isinstance(log := town.queue(queue).log, JournalLog)]
    for log in logs:
        log.stall("opening", "Too many open files", True)
    town.write_queue("next")
    town.sync_queue("next")
    return town, logs


def over(town: TransferHarness, logs: list[JournalLog]) -> None:
    """End the shortage, and write the waiting records."""
    for log in logs:
        log.stall("opening", "")
    town.go()


def renamed(town: TransferHarness) -> list[str]:
    """The queues whose folders went, in this order."""
    steps = [step.partition(" ") for step in town.disk.trace]
    return [name.partition(".")[0] for verb, _, name in steps if verb == "rename"]


async def test_the_files_with_an_original_go_before_those_with_its_copy() -> None:
    town = both_deleted_and_the_first_failed()
    gates = await removed(town)
    assert renamed(town) == ["jobs", "next"]
    assert not any(gate.failure for gate in gates.values())


async def test_two_queues_that_would_wait_for_each_other_both_go() -> None:
    town = both_deleted_and_the_first_failed(is_back=True)
    gates = await removed(town)
    assert sorted(renamed(town)) == ["jobs", "next"]
    assert not any(gate.failure for gate in gates.values())


async def test_files_with_a_copy_stay_when_those_with_the_original_cannot_be_removed() -> None:
    town = both_deleted_and_the_first_failed()
    town.disk.faults.append(Fault("rename", "*/jobs.*", error=errno.EIO))
    gates = await removed(town)
    assert [str(gates[name].failure) for name in ("jobs", "next")] == [
        "queue jobs was not removed from disk: Input/output error",
        "queue next was not removed from disk: an item that came here is in doubt until a "
        "restart, for its journal failed",
    ]
    town.kill()
    assert ("jobs", b"0") not in town.stored_bodies()
    assert ("next", b"0|") in town.stored_bodies()


async def test_a_queue_deleted_in_a_shortage_waits_for_hand_offs_to_it() -> None:
    town, logs = on_the_way("jobs", "next")
    town.work()
    assert town.client("client").take() == b"STORED\r\n"
    assert town.say("eve", b"delete next") == b""
    gates, ending = begun(town)
    for _ in range(5):
        await asyncio.sleep(0)
    assert not gates["next"].lsn_stored, "a crash would bring the original back"
    assert town._removing[0].log.failure is None
    over(town, logs)
    await ending
    assert gates["next"].lsn_stored
    town.kill()
    assert town.stored_bodies() == []


async def test_a_queue_deleted_in_a_shortage_logs_its_transfers_after_it() -> None:
    town, logs = on_the_way("jobs")
    assert town.say("eve", b"delete jobs") == b""
    assert town.say("eva", b"delete next") == b""
    town.work()
    over(town, logs)
    town.disk.faults.append(Fault("rename", "*/jobs.*", error=errno.EIO))
    town._removing.sort(key=lambda queue: queue.name, reverse=True)
    gates = await removed(town)
    assert gates["next"].lsn_stored
    town.kill()
    assert town.stored_bodies() == [], "the original did not come back"


class FullDisk(HeldDisk):
    """No segment can be made; `error` is the reason."""

    error = 0

    def create(self, path: str, data: bytes, size: int) -> Handle:
        if self.error and path.endswith(".segment"):
            raise OSError(self.error, os.strerror(self.error), path)
        return super().create(path, data, size)


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EMFILE])
async def test_a_queue_whose_next_segment_cannot_be_made_is_deleted_all_the_same(
    tmp_path: Path, error: int
) -> None:
    disk, body = FullDisk(), b"y" * 30_000
    async with running(tmp_path, disk) as server:
        peer, other = await server.client(), await server.client()
        assert await peer.ask(b"set jobs 0 0 1\r\nx\r\n") == b"STORED\r\n"
        disk.error = error
        assert server.daemon is not None
        log = server.daemon.broker.queues[b"jobs"].log
        while not log.no_room:
            peer.writer.write(b"set jobs 0 0 30000\r\n%b\r\n" % body)
            await asyncio.sleep(0.001)
        assert await other.ask(b"delete jobs\r\n") == b"DELETED\r\n"
        assert not list((tmp_path / "data").glob("jobs*"))
        disk.error = 0
        assert await other.ask(b"set jobs 0 0 1\r\nz\r\n") == b"STORED\r\n"
        peer.writer.close()


async def test_on_a_full_disk_the_last_item_of_a_deleted_queue_is_delivered() -> None:
    """Its confirm has reserved room: the files stay until it is written."""
    town = TransferHarness()
    town.say("bob", b"get jobs+a/peek")
    town.put("jobs", b"0")
    queue = town.queue("jobs")
    assert town.say("eve", b"delete jobs") == b"DELETED\r\n"
    town.broker.tombstones[0].is_replaced = True  # it goes with the last item of its child
    assert isinstance(queue.log, JournalLog)
    queue.log.stall("preparing", "No space left on device")
    town.removes = False
    town.hold_writes()
    assert town.say("bob", b"get jobs+a") == b""

    _, ending = begun(town)
    for _ in range(5):
        await asyncio.sleep(0)
    town.go()

    assert town.client("bob").take() == b"VALUE jobs+a 0 1\r\n0\r\nEND\r\n"
    await ending
    assert renamed(town) == ["jobs"]


@pytest.mark.parametrize("is_short", [False, True])
@pytest.mark.parametrize("fails", [False, True])
async def test_puts_without_room_in_the_log_of_a_deleted_queue_end_with_its_files(
    is_short: bool, fails: bool
) -> None:
    """A put that waits for room is before the last confirm, which is never written."""
    town = TransferHarness()
    town.say("bob", b"get jobs+a/peek")
    town.put("jobs", b"0")
    queue = town.queue("jobs")
    assert town.say("eve", b"delete jobs") == b"DELETED\r\n"
    town.broker.tombstones[0].is_replaced = True  # it goes with the last item of its child
    assert isinstance(queue.log, JournalLog)
    town.removes = False
    town.hold_writes()
    queue.log.stall("preparing", "No space left on device", is_short)
    queue.log.journal.is_stalled = True
    assert town.say("bob", b"get jobs+a") == b""
    assert town._removing == [queue]
    if fails:
        town.disk.faults.append(Fault("rename", "*/jobs.*", error=errno.EIO))

    _, ending = begun(town)
    await ending
    town.work()

    value, error = b"VALUE jobs+a 0 1\r\n0\r\nEND\r\n", b"SERVER_ERROR queue jobs was deleted\r\n"
    assert town.client("bob").take() == (error if fails else value)


@pytest.mark.parametrize("ends", ["deleted", "failed"])
async def test_nothing_waits_for_the_log_of_a_queue_that_has_ended(
    tmp_path: Path, ends: str
) -> None:
    async with running(tmp_path) as server:
        peer = await server.client()
        assert await peer.ask(b"set jobs 0 0 1\r\nx\r\n") == b"STORED\r\n"
        assert server.daemon is not None
        turn, log = server.daemon.turn, server.daemon.broker.queues[b"jobs"].log
        assert isinstance(log, JournalLog)
        assert turn.journal_jobs is not None
        assert turn.committer is not None
        turn.journal_jobs.snapshot(log, 0)  # for the record after this one, which is never synced
        turn.journal_jobs._snapshots[log].snapshot.lsn += 1
        turn.committer._removals[log] = deque(["one that could not be removed"])
        if ends == "deleted":
            assert await peer.ask(b"delete jobs\r\n") == b"DELETED\r\n"
            assert not turn.committer._removals
        else:
            log.journal.fail("testing", "x", OSError(errno.EIO, "Input/output error"))
            turn.synced(log, 0.0)
            turn.committer._removals.clear()
        assert not turn.journal_jobs._snapshots


async def test_thousands_of_deleted_queues_go_a_few_at_a_time_and_each_is_looked_at_once(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step of the loop looks at a few queues; a batch lists the data directory once."""
    town = TransferHarness()
    count = 1000
    town.removes = False
    for number in range(count):
        town.say("eve", b"set q%d 0 0 1" % number, b"1")
        town.say("eve", b"delete q%d" % number)
        town.client("eve").take()
        town.hang_up("eve")
    looks, batches, listed = list[str](), list[int](), list[str]()
    come_back, remove = town.broker.would_come_back, town.directory.remove_queues
    names = town.disk.names

    def look(queue: Queue, going: Iterable[Queue]) -> bool:
        looks.append(queue.name.decode())
        assert [*going] == [queue], "it is compared with those of its own name"
        return come_back(queue, going)

    def remove_some(queues: list[Queue], removed: Removed) -> None:
        batches.append(len(queues))
        remove(queues, removed)

    def list_names(folder: str) -> list[str]:
        listed.append(folder)
        return names(folder)

    monkeypatch.setattr(town.broker, "would_come_back", look)
    monkeypatch.setattr(town.directory, "remove_queues", remove_some)
    monkeypatch.setattr(town.disk, "names", list_names)

    gates = await removed(town)

    assert len(gates) == len(looks) == sum(batches) == count
    assert all(gate.lsn_stored for gate in gates.values())
    assert max(batches) <= LOOKS_MAX
    assert listed.count("data") <= len(batches)
    assert len(renamed(town)) == count
    syncs = sum(step.startswith("rename:names ") for step in town.disk.trace)
    assert syncs <= len(batches), "one sync of the data directory makes a batch sure"


def three_deleted() -> TransferHarness:
    """Queues a, b and c, each with an item, are deleted; their files are there."""
    town = TransferHarness()
    town.removes = False
    for name in "abc":
        town.say("eve", b"set %b 0 0 1" % name.encode(), b"1")
        assert town.say("eva", b"delete %b" % name.encode()) == b""
        town.hang_up("eva")
    return town


@pytest.mark.parametrize(
    ("step", "error", "failed"),
    [
        ("rename", errno.EIO, "b"),  # its folder keeps its name
        ("rename", errno.EMFILE, ""),  # it passes
        ("rename:names", errno.EIO, "abc"),  # no name is sure
    ],
)
async def test_each_of_many_deleted_queues_has_its_own_answer(
    step: str, error: int, failed: str
) -> None:
    town = three_deleted()
    path = "*/b.*" if step == "rename" else "*"
    town.disk.faults.append(Fault(step, path, error=error))
    gates, ending = begun(town)
    await ending
    assert [name for name in "abc" if gates[name].failure] == [*failed]
    assert [name for name in "abc" if gates[name].lsn_stored] == [*sorted({*"abc"} - {*failed})]


def test_a_crash_while_many_queues_are_removed_brings_none_back_that_was_answered() -> None:
    answers = list[dict[str, Gate]]()

    def act(town: TransferHarness) -> None:
        answers[:] = []
        town.put("stays", b"0")
        for names in ("abc", "de"):  # the first ones are answered before the others are deleted
            town.removes = True
            for name in names:
                town.say("eve", b"set %b 0 0 1" % name.encode(), name.encode())
            town.removes = False
            for name in names:
                town.say("eva", b"delete %b" % name.encode())
                town.hang_up("eva")
            town.sync()
            asyncio.run(both(town))

    async def both(town: TransferHarness) -> None:
        gates, ending = begun(town)
        answers.append(gates)
        await ending
        town._removing.clear()

    def look(town: TransferHarness) -> None:
        bodies = dict(town.stored_bodies())
        answered = {name for gates in answers for name in gates if gates[name].lsn_stored}
        assert not answered & bodies.keys()
        assert all(bodies[name] == name.encode() for name in bodies.keys() - {"stays"})
        seen.add((len(answered), len(bodies)))

    seen = set[tuple[int, int]]()
    cut_at_every_step(act, look)
    assert {(0, 0), (0, 4), (3, 3), (3, 1), (5, 1)} <= seen


class SlowRemoval(HeldDisk):
    """A folder goes when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.began, self.may_go = threading.Event(), threading.Event()

    def remove_folder(self, folder: str) -> None:
        self.began.set()
        self.may_go.wait(30)
        super().remove_folder(folder)


async def test_a_removal_under_way_is_answered_by_a_server_that_stops(tmp_path: Path) -> None:
    disk = SlowRemoval()
    async with running(tmp_path, disk) as server:
        peer, daemon = await server.client(), server.daemon
        assert daemon is not None
        assert await peer.ask(b"set jobs 0 0 1\r\nx\r\n") == b"STORED\r\n"
        peer.writer.write(b"delete jobs\r\n")
        await asyncio.to_thread(disk.began.wait, 30)

        stopping = asyncio.create_task(daemon.stop())
        await asyncio.sleep(0.05)
        disk.may_go.set()

        assert await peer.line() == b"DELETED\r\n"
        await stopping
    assert not list((tmp_path / "data").glob("jobs*"))
