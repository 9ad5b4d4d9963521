"""The end of a life in a test: all items are fetched, all clients hang up, and nothing may be left.

    end(stage)             a ServerHarness or TransferHarness    } all faults end; then the same
    end_in_hand(q)         a CoreHarness                         } check as for a daemon
    end_life(life)         a DiskHarness                         }

The holder of a token gives its item back; delayed items are waited for.

One rule: the end consists of calls that clients may make, in an order that they may; only the clock
runs faster.
"""

from __future__ import annotations

from collections.abc import Iterable

from kestrelpy.core.broker import Broker
from kestrelpy.core.log.log import JournalLog
from kestrelpy.core.queue.admin import Admin
from kestrelpy.core.queue.child_queue import AnyQueue, ChildQueue
from kestrelpy.core.queue.queue import Queue
from kestrelpy.core.subscription.subscription import Subscription
from tests.support.at_rest import files_left, left_over
from tests.support.core_harness import CoreHarness
from tests.support.disk_harness import DiskHarness
from tests.support.rest_table import UNWRITTEN
from tests.support.server_harness import ServerHarness
from tests.support.tidying import reclaim

_ROUNDS_MAX = 60
_A_MOMENT_MS = 1
# An item that its target refused is tried there again after this time.
_A_WHILE_MS = 120_000
_EVERYBODY_GONE = "left at the end of life:\n    "


def end(stage: ServerHarness) -> None:
    """End this life; check that nothing is left, now and in the next life."""
    end_faults(stage)
    empty(stage)
    for restarts in (False, True):
        if restarts:
            stage.restart()
            stage.work()
        _let_delays_end(stage)
        for queue in stage.broker.logged:
            if isinstance(queue.log, JournalLog):
                reclaim(stage, queue.log)  # as behind every sync of a daemon
        _complain(_left_of(stage))


def _let_delays_end(stage: ServerHarness) -> None:
    """Pass the time until no queue has a due time for all its readers: those stay until then, also
    for items that were deleted."""
    for queue in stage.broker.logged:
        while queue.unseen is not None and queue.unseen.due.count:
            due_ms = queue.unseen.due.next_due(stage.broker.clock)
            assert due_ms is not None
            stage.pass_time(max(due_ms - stage.now_ms, 1))


def end_faults(stage: ServerHarness) -> None:
    """End all faults and delays of the disk; read failed journals again."""
    stage.disk.faults.clear()
    stage.disk.cut_power_at(-1)
    stage.reads = stage.removes = stage.has_room = True
    stage.room.is_short = False
    stage.mode = "up"
    for client in stage.clients.values():
        client.conversation.paused = False
        client.take()
    stage.go()
    if any(queue.log.failure is not None or queue.log.no_room for queue in stage.broker.logged):
        for client in stage.clients.values():
            client.take()
        stage.kill()
        stage.work()
    for name in [*stage.clients]:
        stage.clients[name].take()
        stage.hang_up(name)


def empty(stage: ServerHarness) -> None:
    """Fetch and confirm all items, and hang up all consumers."""
    for _ in range(_ROUNDS_MAX):
        broker = stage.broker
        for queue in _every(broker):
            _give_back(queue.reader, stage.now_ms)
            if queue.reader.paused and not queue.deleted:
                Admin(queue).pause(False, stage.now_ms)
        stage.work()
        for queue in _every(broker):
            _take_all(stage, queue)
        if not (any(_holds(queue) for queue in _every(broker)) or _is_moving(broker)):
            if "the last one" in stage.clients:
                stage.hang_up("the last one")
            stage.pass_time(_A_MOMENT_MS)
            return
        stage.pass_time(max([_A_MOMENT_MS, *(_due_in(q.reader, stage) for q in _every(broker))]))
        if _is_moving(broker):
            stage.pass_time(_A_WHILE_MS)
    left = {queue.name: list(queue.reader.live) for queue in _every(stage.broker) if _holds(queue)}
    raise AssertionError(f"never fetched: {left}, moving: {_is_moving(stage.broker)}")


def _every(broker: Broker) -> list[AnyQueue]:
    """Queues and children, those of deleted ones too."""
    tombstones = (each for queue in broker.tombstones for each in ChildQueue.all_of(queue))
    return [*broker.queues.values(), *tombstones]


def _holds(queue: AnyQueue) -> bool:
    return bool(queue.reader.live or queue.reader.leases or queue.files.origins)


def _is_moving(broker: Broker) -> bool:
    return broker.moves.is_active or bool(broker.moves._outboxes) or bool(broker.tombstones)


def _give_back(reader: Subscription, now_ms: int) -> None:
    """End all leases by token."""
    for lease in reader.leases.all():
        if not lease.is_moving:
            reader.confirm(lease, now_ms)


def _due_in(reader: Subscription, stage: ServerHarness) -> int:
    """Return the time until the last delayed item is due."""
    entries = reader.delays.entries(stage.broker.clock)
    return max((entry.due_ms - stage.unix_ms + 1 for entry in entries), default=0)


def _take_all(stage: ServerHarness, queue: Queue) -> None:
    """Fetch all ready and dead items, each confirmed as it is handed out."""
    name = queue.name
    for key in (name, name + b"/dead"):
        while stage.say("the last one", b"get " + key).startswith(b"VALUE"):
            pass


def _left_of(stage: ServerHarness) -> list[str]:
    roots = stage.broker, stage.directory, stage.schedules, stage.policies, stage.log_limit
    held = [f"{name} is connected" for name in stage.clients]
    found = [*left_over(*roots), *held, *files_left(stage.disk, "data", stage.broker)]
    found += [f"the server has {each!r}" for each in (stage.dirty, stage._observing) if each]
    found += [f"the server has {each!r}" for each in (stage._gates, stage._removing) if each]
    return found


def _complain(complaints: Iterable[str]) -> None:
    found = [*complaints]
    assert not found, _EVERYBODY_GONE + "\n    ".join(found)


def end_in_hand(q: CoreHarness) -> None:
    """End a queue whose log writes nothing; check that nothing is left."""
    broker = q.broker
    for waiter in [*broker.take_to_resume()]:
        assert waiter.done
    for name in [*q.holders]:
        q.hang_up(name)
    for queue in [*broker.queues.values()]:
        if queue.reader.paused:
            Admin(queue).pause(False, q.now_ms)
        while queue.reader.live or queue.reader.leases:
            _give_back(queue.reader, q.now_ms)
            for dead in (False, True):
                while (lease := q.may_open("the last one", dead)) is not None:
                    q.close(lease)
            q.pass_time(_A_MOMENT_MS * 10)
            for holder in q.holders.values():
                holder.overdue.clear()
    broker.take_to_resume()
    broker.deleted.clear()  # the shell would have removed their files by now
    broker.ending.clear()
    while q.read_back():
        pass
    q.pass_time(_A_MOMENT_MS)
    _complain(left_over(broker, but=UNWRITTEN))


def end_life(life: DiskHarness) -> None:
    """End a queue that lives on a disk; check that nothing is left."""
    broker, reader = life.broker, life.reader
    for holder in life.holders.values():
        broker.hang_up(holder, life.now_ms)
    while reader.live or reader.leases:
        _give_back(reader, life.now_ms)
        for dead in (False, True):
            while (lease := life.open("the last one", dead)) is not None:
                reader.confirm(lease, life.now_ms)
        life.commit()
        life.do_all()
        life.pass_time(_A_MOMENT_MS * 10)
    broker.take_to_resume()
    for _ in range(3):  # entries that a snapshot drops are logged, written and snapped again
        life.commit()
        life.do_all()
    _complain(left_over(broker, life.directory, life.background))
