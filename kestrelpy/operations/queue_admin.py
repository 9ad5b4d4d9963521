"""Operations on whole queues: flush, sweep, pause, retry, redrive, acknowledge a loss, declare,
delete.

    check the server's mode and the queue's journal ──▶ act ──▶ `Rests`, or None: there is none

Long work is a generator that yields PAUSE between its slices, so that others have their turn.

One rule: an operation either acts and returns the records that its result rests on, or raises
Refused and changes nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable
from typing import Final, NamedTuple

from kestrelpy.core import Admin, AnyQueue, Broker, Child, Queue
from kestrelpy.errors import ClientError, ServerError
from kestrelpy.operations.modes import UP, check_changes
from kestrelpy.operations.ports import PAUSE, Site
from kestrelpy.operations.rests import Rests

_SWEEP_STEPS: Final = 1000
_REDRIVEN_PER_SLICE: Final = 100  # 5 ms, and as long again to write their records
_GIVEN_UP_PER_SLICE: Final = 500


class Declared(NamedTuple):
    """The result of a declaration: not `is_in_force` if the queue was declared otherwise before.
    `is_new`: it changed the settings."""

    is_in_force: bool
    rests: Rests
    is_new: bool = False


class QueueAdmin:
    """The operations on the queues of one server."""

    __slots__ = ("_broker", "_site")

    def __init__(self, broker: Broker, site: Site) -> None:
        self._broker = broker
        self._site = site

    @property
    def _is_up(self) -> bool:
        return self._site.mode == UP

    def check_mode(self, does: str) -> None:
        """Raise ServerError unless the server is up; `does` says what it does not do now."""
        check_changes(self._site.mode, does)

    # -- items ------------------------------------------------------------------------------

    def flush(self, name: bytes, now_ms: int) -> Rests | None:
        """Remove all items that are ready or delayed; None: there is no such queue."""
        self.check_mode("removes")
        queue = self._broker.queues.get(name)
        return Rests(queue.log, queue.flush(now_ms)) if queue is not None else None

    def all_to_flush(self) -> list[AnyQueue]:
        """Return all queues, if all of them may be flushed; raise Refused."""
        if not self._site.server_settings.allow_flush_all:
            raise ClientError("flush_all is not allowed on this server (allow_flush_all)")
        self.check_mode("removes")
        queues = list(self._broker.queues.values())
        for queue in queues:
            if queue.log.failure is not None:
                queue.raise_failed()
        return queues

    def to_sweep(self, name: bytes | None) -> list[AnyQueue]:
        """Return the queue to be swept, if there is one; None: all queues. Raise Refused."""
        self.check_mode("removes")
        if name is None:
            return list(self._broker.queues.values())
        queue = self._broker.queues.get(name)
        if queue is None:
            return []
        if queue.log.failure is not None:
            queue.raise_failed()
        return [queue]

    def sweep(self, queues: Iterable[AnyQueue], now_ms: int) -> Generator[bytes, None, int]:
        """End the expired items of these queues; return how many. Stop if the server is not up any
        more."""
        count = 0
        for queue in queues:
            if queue.deleted or queue.log.failure is not None:
                continue
            before = queue.reader.counters.expired
            while self._is_up and (
                queue.reader.sweep(now_ms, _SWEEP_STEPS) or queue.reader.is_seeking
            ):
                yield PAUSE
            count += queue.reader.counters.expired - before
        return count

    def retry(self, name: bytes, id_: int, now_ms: int) -> Rests | None:
        """Make a delayed item available now; None: no such item is delayed there."""
        self.check_mode("removes")
        queue = self._broker.queues.get(name)
        lsn = Admin(queue).retry(id_, now_ms) if queue is not None else None
        return Rests(queue.log, lsn) if queue is not None and lsn is not None else None

    def redrive(
        self, queue: AnyQueue, ids: deque[int], now_ms: int
    ) -> Generator[bytes, None, tuple[int, Rests]]:
        """Put dead letters back to their own queue; return how many. Raise ServerError if there is
        no room for the first, or the server is not up any more before it."""
        count, admin = 0, Admin(queue)
        while ids and not queue.deleted and queue.log.failure is None and not queue.log.no_room:
            if not self._is_up:
                break
            for _ in range(min(len(ids), _REDRIVEN_PER_SLICE)):
                count += admin.redrive(ids.popleft(), now_ms) is not None
            if queue.reader.waiters:
                queue.reader.serve(now_ms)
            yield PAUSE
        if queue.log.no_room and not count:
            raise ServerError(queue.log.no_room)
        if ids and not count:
            self.check_mode("moves")
        return count, Rests(queue.log, queue.log.lsn_appended)

    def to_acknowledge(self, name: bytes) -> AnyQueue | None:
        """Return the queue whose loss may be acknowledged; None: there is none. Raise Refused."""
        self.check_mode("removes")
        queue = self._broker.queues.get(name)
        if queue is not None and queue.log.failure is not None:
            queue.raise_failed()
        return queue

    @staticmethod
    def would_acknowledge(queue: AnyQueue) -> Generator[bytes, None, int]:
        """Return how many items `acknowledge` would end."""
        count, admin = 0, Admin(queue)
        id_ = queue.reader.unreadable.first_from(1)
        while id_:
            for _ in range(_GIVEN_UP_PER_SLICE):
                count += admin.would_give_up(id_)
                if not (id_ := queue.reader.unreadable.first_from(id_ + 1)):
                    break
            yield PAUSE
        return count

    def acknowledge(
        self, queue: AnyQueue, now_ms: int
    ) -> Generator[bytes, None, tuple[int, Rests]]:
        """End the items that cannot be read; return how many. Stop if the server is not up any
        more."""
        count, admin, ids = 0, Admin(queue), queue.reader.unreadable
        while self._is_up and ids.count and not queue.deleted and queue.log.failure is None:
            for _ in range(min(ids.count, _GIVEN_UP_PER_SLICE)):
                count += admin.give_up(ids.first_from(1), now_ms)
            yield PAUSE
            ids = queue.reader.unreadable
        return count, Rests(queue.log, queue.log.lsn_appended)

    # -- queues -----------------------------------------------------------------------------

    def pause(self, name: bytes, paused: bool, now_ms: int) -> Rests | None:
        """Lease nothing from now on, or lease again; None: there is no such queue."""
        queue = self._broker.queues.get(name)
        if queue is None:
            return None
        return Rests(queue.log, Admin(queue).pause(paused, now_ms))

    def to_delete(self, name: bytes) -> AnyQueue | None:
        """Return the queue or child, if it may be deleted; None: there is none. Raise Refused."""
        if not self._site.server_settings.allow_delete:
            raise ClientError("delete is not allowed on this server (allow_delete)")
        self.check_mode("deletes")
        queue = self._broker.queues.get(name)
        if queue is not None and queue.log.failure is not None:
            queue.raise_failed()
        return queue

    def delete(self, name: bytes, now_ms: int) -> list[Rests] | None:
        """Delete a queue or a child; None: there is none. The result rests on all of the list.

        Raise Refused.
        """
        queue = self.to_delete(name)
        if queue is not None and queue.child is not None:
            return self._delete_child(queue.files, queue.child, now_ms)
        deleted = self._broker.delete(name, now_ms)
        if deleted is None:
            return None
        if deleted.is_tombstone:
            return [Rests(deleted.log, deleted.log.lsn_appended)]
        return [Rests(self._site.files_gone(deleted), 1)]

    def _delete_child(self, queue: Queue, child: Child, now_ms: int) -> list[Rests]:
        log, earlier = queue.log, self._site.earlier_files_gone(queue)
        lsn = self._broker.remove_child(child, now_ms)
        self._broker.counters.queue_deletes += 1
        # Files of an earlier queue may have a child of the same name.
        return [*([Rests(earlier, 1)] if earlier is not None else []), Rests(log, lsn)]

    def declare(
        self, name: bytes, body: bytes, now_ms: int, user: str | None = None
    ) -> Declared:
        """Declare the settings of a queue, which is made if there is none; raise Refused. `user`
        has to have the right to write the queues to which they send items."""
        self.check_mode("stores")
        broker = self._broker
        if name in broker.aliases:
            raise ClientError(f"{name.decode('ascii')} is an alias: it has no settings of its own")
        declared = self._site.declaration(name, body)
        queue = broker.with_log(name)
        if queue is None or not queue.declared:
            self._site.refuse_targets(name, declared, b"", user)
        if queue is None:
            queue = broker.create(name, now_ms, declared)
            lsn = queue.declare(declared, queue.policy, now_ms)
        elif queue.log.failure is not None:
            queue.raise_failed()
        elif declared == queue.declared or queue.declared:
            # The first declaration may not be on disk yet.
            rests = Rests(queue.log, queue.log.lsn_appended)
            return Declared(declared == queue.declared, rests)
        else:
            lsn = self._declare_later(queue, declared, now_ms)
        return Declared(True, Rests(queue.log, lsn), True)

    def set_metadata(
        self, name: bytes, metadata: bytes, settings: bytes, before: bytes, now_ms: int,
        user: str | None = None,
    ) -> Declared:  # fmt: skip
        """Give a queue metadata, and the settings that follow from these; it is made if there is
        none. Raise Refused.

        `before` are the settings that followed from its metadata so far: others that a client
        declared stay, and contradict settings of the metadata.
        """
        self.check_mode("stores")
        broker, site = self._broker, self._site
        if name in broker.aliases:
            raise ClientError(f"{name.decode('ascii')} is an alias: it has no settings of its own")
        declared = site.declaration(name, settings)
        queue = broker.with_log(name)
        site.refuse_targets(name, declared, queue.declared if queue is not None else b"", user)
        if queue is None:
            queue = broker.create(name, now_ms, declared)
            lsn = queue.declare(declared, queue.policy, now_ms, metadata)
            return Declared(True, Rests(queue.log, lsn), bool(declared))
        if queue.log.failure is not None:
            queue.raise_failed()
        if queue.declared and queue.declared != site.declaration(name, before):
            if declared and declared != queue.declared:
                return Declared(False, Rests(queue.log, queue.log.lsn_appended))
            declared = queue.declared
        is_new = declared != queue.declared
        lsn = self._declare_later(queue, declared, now_ms, metadata)
        return Declared(True, Rests(queue.log, lsn), is_new)

    def _declare_later(
        self, queue: Queue, declared: bytes, now_ms: int, metadata: bytes | None = None
    ) -> int:
        """Declare settings for an existing queue; return the record to wait for."""
        if queue.log.no_room:
            raise ServerError(queue.log.no_room)
        policy = self._broker.policy_of(queue.name, declared)
        if policy.keys != queue.policy.keys and queue.reader.live:
            raise ClientError(
                "key settings cannot change while the queue holds items: they can when it is empty"
            )
        if policy.durable != queue.policy.durable:
            there = "on disk" if queue.policy.durable else "in memory"
            raise ClientError(
                f"durable cannot change while the queue exists, and it is {there}: delete it first"
            )
        return queue.declare(declared, policy, now_ms, metadata)
