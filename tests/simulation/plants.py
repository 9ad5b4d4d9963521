"""Mistakes planted into the server or the disk, to see whether the simulation finds them.

One rule: each is one that a tired person could make, and is put where the real code stands, so
that everything around it goes on as ever.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any, Final
from unittest import mock

from journal.commit import SyncJob
from journal.journal import Journal
from journal.recovery import Recovery
from kestrelpy.core.log import JournalLog
from kestrelpy.core.queue import Queue
from kestrelpy.core.reader import DEFERRED, Reader
from kestrelpy.core.replay import Replay
from kestrelpy.protocol.replies import Replies
from kestrelpy.server.data_directory import DataDirectory
from kestrelpy.server.turn import Turn
from tests.support.memory_disk import MemoryDisk

Around = Callable[..., Any]
_SOMETIMES: Final = 11


def around(where: type, name: str, make: Callable[[Around], Around]) -> Any:
    """Put what `make` makes of the method in its place."""
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


def lent_to_two() -> Any:
    calls = count(1)

    def make(real: Around) -> Around:
        def opened(reader: Reader, *args: Any) -> Any:
            lease = real(reader, *args)
            if lease is not None and not lease.dead and next(calls) % _SOMETIMES == 0:
                reader.ready.give_back(lease.place, lease.item)
            return lease

        return opened

    return around(Reader, "open", make)


def second_before_first() -> Any:
    def make(real: Around) -> Around:
        def opened(reader: Reader, holder: Any, now_ms: int, *how: Any) -> Any:
            first = real(reader, holder, now_ms, *how)
            second = real(reader, holder, now_ms, *how) if first is not None else None
            if second is None:
                return first
            reader.take_back(first, now_ms, DEFERRED)
            return second

        return opened

    return around(Reader, "open", make)


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
    return mock.patch.object(Reader, "_apply_tokens", lambda reader, below: None)


def deleted_files_stay() -> Any:
    return mock.patch.object(DataDirectory, "remove", lambda directory, folder: None)


def replies_out_of_order() -> Any:
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
        def put(log: JournalLog, item: Any, nominal: Any = None) -> int:
            return int(real(log, item, nominal if item.id % _SOMETIMES else None))

        return put

    return around(JournalLog, "put", make)


def pause_forgotten_by_a_restart() -> Any:
    return mock.patch.object(Replay, "_paused", lambda replay, record: None)


def declaration_forgotten_by_a_restart() -> Any:
    return mock.patch.object(Replay, "_declared", lambda replay, record: None)


def never_at_rest() -> Any:
    def make(real: Around) -> Around:
        def arm(turn: Turn, now_ms: int) -> None:
            real(turn, now_ms)
            turn.owe()

        return arm

    return around(Turn, "_arm", make)


PLANTS: Final[tuple[Callable[[], contextlib.AbstractContextManager[object]], ...]] = (
    acknowledged_before_the_sync, confirmed_before_the_write, shown_before_it_is_durable,
    sync_tried_again, failed_sync_taken_for_good, folder_not_synced, item_lost, lent_to_two,
    second_before_first, last_record_dropped, tokens_begin_again, deleted_files_stay,
    replies_out_of_order, bodies_mixed_up, never_at_rest, time_of_a_schedule_not_recorded,
    pause_forgotten_by_a_restart, declaration_forgotten_by_a_restart,
)  # fmt: skip
