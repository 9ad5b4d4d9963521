"""Mistakes planted into the server or the disk, to see whether the simulation finds them.

One rule: each is a mistake that a tired person could make. It replaces the real code, and leaves
everything around it as it is.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any, Final
from unittest import mock

from journal.format.record import RawDraft
from journal.recovery.recovery import Recovery
from journal.write.group_commit import SyncJob
from journal.write.writer import Journal
from kestrelpy.core.fanout.child import Child
from kestrelpy.core.index.dedupe import SeenIds
from kestrelpy.core.log import records
from kestrelpy.core.log.log import JournalLog
from kestrelpy.core.queue.admin import Admin
from kestrelpy.core.queue.child_queue import ChildQueue
from kestrelpy.core.queue.queue import Queue
from kestrelpy.core.registry.lifecycle import Lifecycle
from kestrelpy.core.replay.replay import Replay
from kestrelpy.core.replay.subscription_replay import SubscriptionReplay
from kestrelpy.core.subscription.restore import OutOfOrder
from kestrelpy.core.subscription.subscription import DEFERRED, Subscription
from kestrelpy.core.transfer.in_flight import InFlight
from kestrelpy.core.transfer.steps import TransferSource
from kestrelpy.operations import Children
from kestrelpy.protocol.replies import Replies
from kestrelpy.protocol.verbs import children as mentioning
from kestrelpy.protocol.verbs import set as storing
from kestrelpy.server.directory.data_directory import DataDirectory
from kestrelpy.server.turn import Turn
from tests.simulation.clients import Keeper, Operator
from tests.support.memory_disk import MemoryDisk

Around = Callable[..., Any]
_SOMETIMES: Final = 11


def around(where: type, name: str, make: Callable[[Around], Around]) -> Any:
    """Replace a method by what `make` returns for it."""
    return mock.patch.object(where, name, make(getattr(where, name)))


def acknowledged_before_the_sync() -> Any:
    def make(real: Around) -> Around:
        def advance(log: JournalLog) -> None:
            real(log)
            log.lsn_stored = log.lsn_written

        return advance

    return around(JournalLog, "advance", make)


def confirmed_before_the_write() -> Any:
    def make(real: Around) -> Around:
        def hold(replies: Replies, data: bytes, log: Any, stored: int, written: int = 0) -> None:
            real(replies, data, log, stored, 0)

        return hold

    return around(Replies, "hold", make)


def shown_before_it_is_durable() -> Any:
    def make(real: Around) -> Around:
        def hold(replies: Replies, data: bytes, log: Any, stored: int, written: int = 0) -> None:
            real(replies, data, log, 0 if data.startswith(b"VALUE") else stored, written)

        return hold

    return around(Replies, "hold", make)


def sync_tried_again() -> Any:
    def make(real: Around) -> Around:
        def run(job: SyncJob) -> None:
            try:
                real(job)
            except OSError:
                real(job)

        return run

    return around(SyncJob, "run", make)


def failed_sync_taken_for_good() -> Any:
    def make(real: Around) -> Around:
        def finish_sync(journal: Journal, error: OSError | None) -> None:
            real(journal, None)

        return finish_sync

    return around(Journal, "finish_sync", make)


def folder_not_synced() -> Any:
    def make(real: Around) -> Around:
        def create(disk: MemoryDisk, path: str, data: bytes, size: int) -> Any:
            folder, _ = disk._place(path)
            with mock.patch.object(type(folder), "sync", lambda self: None):
                return real(disk, path, data, size)

        return create

    return around(MemoryDisk, "create", make)


def item_lost() -> Any:
    calls = count(1)

    def make(real: Around) -> Around:
        def put(queue: Queue, *args: Any) -> int:
            if next(calls) % _SOMETIMES:
                return int(real(queue, *args))
            return queue.log.lsn_appended

        return put

    return around(Queue, "put", make)


def leased_to_two() -> Any:
    calls = count(1)

    def make(real: Around) -> Around:
        def opened(reader: Subscription, *args: Any) -> Any:
            lease = real(reader, *args)
            if lease is not None and not lease.dead and next(calls) % _SOMETIMES == 0:
                reader.ready.put_back(lease.place, lease.item)
            return lease

        return opened

    return around(Subscription, "open", make)


def second_before_first() -> Any:
    def make(real: Around) -> Around:
        def opened(reader: Subscription, holder: Any, now_ms: int, *how: Any) -> Any:
            first = real(reader, holder, now_ms, *how)
            second = real(reader, holder, now_ms, *how) if first is not None else None
            if second is None:
                return first
            reader.nack_one(first, now_ms, DEFERRED)
            return second

        return opened

    return around(Subscription, "open", make)


def last_record_dropped() -> Any:
    def make(real: Around) -> Around:
        def records(recovery: Recovery) -> Iterator[Any]:
            before = None
            for record in real(recovery):
                if before is not None:
                    yield before
                before = record

        return records

    return around(Recovery, "records", make)


def tokens_begin_again() -> Any:
    return mock.patch.object(Subscription, "_apply_tokens", lambda reader, below: None)


def deleted_files_stay() -> Any:
    return mock.patch.object(DataDirectory, "remove_queues", lambda directory, queues, done: None)


def replies_reversed() -> Any:
    def make(real: Around) -> Around:
        def take(replies: Replies) -> bytes:
            replies.out.reverse()
            return bytes(real(replies))

        return take

    return around(Replies, "take", make)


def bodies_mixed_up() -> Any:
    calls = count(1)

    def make(real: Around) -> Around:
        def put(queue: Queue, body: bytes, *args: Any) -> int:
            return int(real(queue, body if next(calls) % _SOMETIMES else body[::-1], *args))

        return put

    return around(Queue, "put", make)


def time_of_a_schedule_not_recorded() -> Any:
    def make(real: Around) -> Around:
        def put(item: Any, due_ms: int = 0, nominal: Any = None) -> RawDraft:
            draft: RawDraft = real(item, due_ms, nominal if item.id % _SOMETIMES else None)
            return draft

        return put

    return mock.patch.object(records, "put", make(records.put))


@contextlib.contextmanager
def pause_forgotten_by_a_restart() -> Iterator[None]:
    with (
        mock.patch.object(SubscriptionReplay, "_paused", lambda replay, record: None),
        mock.patch.object(Operator, "resumes", 0.01),  # else it is seen once in a thousand runs
    ):
        yield


def declaration_forgotten_by_a_restart() -> Any:
    return mock.patch.object(Replay, "_declared", lambda replay, record: None)


def lease_by_token_forgotten_by_a_restart() -> Any:
    return mock.patch.object(SubscriptionReplay, "_leased", lambda replay, record: None)


@contextlib.contextmanager
def renewal_of_a_token_forgotten_by_a_restart() -> Iterator[None]:
    with (
        mock.patch.object(SubscriptionReplay, "_renewed", lambda replay, record: None),
        mock.patch.multiple(Keeper, leases_ms=(20,), renews=0.8),  # else it is hardly ever seen
    ):
        yield


def put_off_forgotten_by_a_restart() -> Any:
    return mock.patch.object(OutOfOrder, "delay", lambda delays, record: None)


def moved_without_a_record() -> Any:
    def make(real: Around) -> Around:
        def leave(source: TransferSource, *args: Any) -> int:
            def nothing(log: Any, draft: Any) -> int:
                return int(log.lsn_appended)

            log = source._reader.log
            with mock.patch.multiple(type(log), append=nothing, append_lazily=nothing):
                return int(real(source, *args))

        return leave

    return around(TransferSource, "leave", make)


def copies_in_doubt_survive_a_start() -> Any:
    return mock.patch.object(InFlight, "finish_all", lambda transfers, queue, now_ms: 0)


def id_forgotten_by_a_restart() -> Any:
    def make(real: Around) -> Around:
        def stamped(replay: Replay, record: Any, size: int) -> None:
            with mock.patch.object(SeenIds, "_apply_seen", lambda ids, *seen: None):
                real(replay, record, size)

        return stamped

    return around(Replay, "_stamped", make)


def id_not_known_again() -> Any:
    return _sometimes(SeenIds, "has_seen", lambda seen: False)


def id_known_that_was_never_seen() -> Any:
    return _sometimes(SeenIds, "has_seen", lambda seen: True)


def cancelled_by_its_id_and_there() -> Any:
    return mock.patch.object(Admin, "cancel", lambda admin, *args: admin._queue.log.lsn_appended)


def what_waits_is_not_found_by_its_id() -> Any:
    return mock.patch.object(SeenIds, "item_of", lambda ids, *args: 0)


def handed_off_and_given_back() -> Any:
    def hand_off(in_flight: InFlight, source: Queue, lease: Any, *args: Any) -> None:
        lease.owner.nack_one(lease, args[-1], DEFERRED)

    return mock.patch.object(InFlight, "hand_off", hand_off)


def handed_off_without_an_origin() -> Any:
    def make(real: Around) -> Around:
        def put(item: Any, *args: Any) -> RawDraft:
            if item.header is not None:
                item.header = item.header._replace(origin=None)
            draft: RawDraft = real(item, *args)
            return draft

        return put

    return mock.patch.object(records, "put", make(records.put))


def confirmed_though_its_successor_was_refused() -> Any:
    def make(real: Around) -> Around:
        def refusal(line: Any, lsn: int) -> bytes:
            return b"STORED\r\n" if line.handoff is not None else bytes(real(line, lsn))

        return refusal

    return mock.patch.object(storing, "_refusal", make(storing._refusal))


def child_skips_an_item() -> Any:
    calls = count(1)

    def make(real: Around) -> Around:
        def take_in(child: Child, last: int, put_bytes: int) -> None:
            real(child, last, put_bytes)
            if next(calls) % _SOMETIMES == 0:
                child.live.discard(last)

        return take_in

    return around(Child, "_take_in", make)


def child_forgotten_by_a_restart() -> Any:
    return mock.patch.object(Replay, "_named", lambda replay, record: None)


def child_named_before_the_sync() -> Any:
    def made(talk: Any, name: bytes, begin: int | None, now_ms: int) -> Any:
        return Children(talk.broker, talk.host).mention(name, begin, now_ms)

    return mock.patch.object(mentioning, "_made", made)


def child_begins_with_what_was_there() -> Any:
    real = ChildQueue.named

    def named(queue: Queue, number: int, part: bytes, floor: int) -> ChildQueue:
        made = real(queue, number, part, floor)
        made.child.taken = max(made.child.taken - 2, 0)
        return made

    return mock.patch.object(ChildQueue, "named", named)


def children_go_with_their_queue() -> Any:
    def leave(registry: Lifecycle, queue: Queue, now_ms: int) -> None:
        for branch in ChildQueue.all_of(queue):
            registry._drop(branch)
        registry.deleted.append(queue)

    return mock.patch.object(Lifecycle, "_leave", leave)


def _sometimes(where: type, name: str, wrong: Callable[[Any], Any]) -> Any:
    """Now and then the method answers what `wrong` makes of its answer."""
    calls = count(1)

    def make(real: Around) -> Around:
        def answer(*args: Any) -> Any:
            right = real(*args)
            return right if next(calls) % _SOMETIMES else wrong(right)

        return answer

    return around(where, name, make)


def never_at_rest() -> Any:
    def make(real: Around) -> Around:
        def arm(turn: Turn, now_ms: int) -> None:
            real(turn, now_ms)
            turn.schedule()

        return arm

    return around(Turn, "_arm", make)


PLANTS: Final[tuple[Callable[[], contextlib.AbstractContextManager[object]], ...]] = (
    acknowledged_before_the_sync, confirmed_before_the_write, shown_before_it_is_durable,
    sync_tried_again, failed_sync_taken_for_good, folder_not_synced, item_lost, leased_to_two,
    second_before_first, last_record_dropped, tokens_begin_again, deleted_files_stay,
    replies_reversed, bodies_mixed_up, never_at_rest, time_of_a_schedule_not_recorded,
    pause_forgotten_by_a_restart, declaration_forgotten_by_a_restart,
    lease_by_token_forgotten_by_a_restart, renewal_of_a_token_forgotten_by_a_restart,
    put_off_forgotten_by_a_restart, moved_without_a_record, copies_in_doubt_survive_a_start,
    id_forgotten_by_a_restart, id_not_known_again, id_known_that_was_never_seen,
    cancelled_by_its_id_and_there, what_waits_is_not_found_by_its_id, handed_off_and_given_back,
    handed_off_without_an_origin, confirmed_though_its_successor_was_refused, child_skips_an_item,
    child_forgotten_by_a_restart, child_named_before_the_sync, child_begins_with_what_was_there,
    children_go_with_their_queue,
)  # fmt: skip
