"""Transfers in flight: the copy is in one queue, and the original is not gone from the other yet.

    stored ──copy on disk──▶ MOVED in the source ──on disk──▶ SETTLED in the target
      │                        │
      ├─ a journal fails ──────┴──▶ in doubt: no client gets the original until a restart
      ├─ the source is deleted ───▶ the source's log records the deletion instead, if it can; else
      │                             the transfer is settled when the source's files are gone
      └─ the target is deleted ───▶ the original returns when the target's files are gone

A start finds unfinished transfers by the open origins of each target (`settle_all`). If the source
still has the item, it records MOVED before any item is served.

One rule: MOVED waits for the copy to be on disk, SETTLED for MOVED to be on disk, whatever `sync`
says.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from journal.format import Origin, targets
from kestrelpy.core.index import Holder, Lease
from kestrelpy.core.queue import Queue
from kestrelpy.core.registry import Registry
from kestrelpy.core.subscription import Subscription
from kestrelpy.core.transfer.request import TransferRequest
from kestrelpy.core.transfer.steps import Source, Target, hand_back

# The copy's lsn and id, the transfer request (None: a client handed the item off), the source, and
# the mover's lease there. (A tuple, because each hand-off makes one.)
_Stored = tuple[int, int, TransferRequest | None, Queue, Lease]


class _Leaving:
    """Copies whose originals end with one source's records up to `lsn`.

    For a transfer request it is one copy, with a body of `bytes`.
    """

    __slots__ = ("bytes", "copies", "lsn", "request", "source", "target")

    def __init__(
        self, lsn: int, source: Queue, target: Queue, copies: list[int],
        request: TransferRequest | None = None, bytes_: int = 0,
    ) -> None:  # fmt: skip
        self.bytes = bytes_
        self.lsn = lsn
        self.source = source
        self.target = target
        self.copies = copies
        self.request = request


class InFlight:
    """All transfers in flight, each between two queues.

    `unawaited` are queues with records that no reply waits for; the shell has them written soon.
    """

    __slots__ = (
        "_doubted",
        "_leaving",
        "_orphans",
        "_over",
        "_registry",
        "_staying",
        "_stored",
        "_told",
        "_without_target",
        "mover",
        "unawaited",
    )  # fmt: skip

    def __init__(self, registry: Registry, over: Callable[[TransferRequest, int], None]) -> None:
        """`over` is called once for each item of a request whose transfer ended, with its bytes."""
        self._registry = registry
        self._over = over
        self.mover = Holder("mover")
        self._stored: dict[Queue, deque[_Stored]] = {}  # by target, in the order of its log
        self._leaving: dict[Queue, deque[_Leaving]] = {}  # by source, in the order of its log
        self._doubted: dict[Queue, set[Queue]] = {}  # by source: the queues with the copies
        self._orphans: dict[Queue, list[tuple[Queue, list[int]]]] = {}
        self._without_target: dict[Queue, list[_Stored]] = {}
        self._staying: set[Queue] = set()  # deleted queues whose files could not be removed
        self._told: dict[Queue, int] = {}  # deleted queues: the lsn of the record that says so
        self.unawaited: dict[Queue, None] = {}

    # -- transfers that begin ---------------------------------------------------------------

    def hand_off(
        self, source: Queue, lease: Lease, target: Queue, copy: int, lsn: int, now_ms: int
    ) -> None:
        """Begin the transfer of a leased item, which is `copy` in `target` by its put `lsn`.

        From here on no nack returns the item: it ends when that record is on disk.
        """
        reader = lease.owner
        assert isinstance(reader, Subscription)
        files = target.files
        if files is source.files:
            here = Origin(target.server_id, target.name, copy, target.generation)
            Source(reader).leave(lease, here.as_target, now_ms)
            return
        reader.leases.forward(lease, self.mover)
        self._await_copy(files, (lsn, copy, None, source, lease))

    def stored(
        self, request: TransferRequest, lease: Lease, target: Queue, copy: int, lsn: int
    ) -> None:
        """Begin the transfer of a request's item, which is `copy` in `target` by its put `lsn`."""
        target.log.wait_durable(lsn)
        self._await_copy(target, (lsn, copy, request, request.source, lease))

    def _await_copy(self, target: Queue, stored: _Stored) -> None:
        waiting = self._stored.get(target)
        if waiting is None:
            waiting = self._stored[target] = deque()
        waiting.append(stored)

    @property
    def are_any(self) -> bool:
        """True if any transfer is in flight."""
        return bool(self._stored or self._leaving or self.unawaited)

    def take_unawaited(self) -> list[Queue]:
        """Return the queues that got records without a waiting reply since the last call."""
        unawaited = [*self.unawaited]
        self.unawaited.clear()
        return unawaited

    # -- steps of a transfer ----------------------------------------------------------------

    def advance(self, now_ms: int) -> int:
        """End originals whose copies are on disk; settle those that have ended on disk.

        Return the number of steps taken.
        """
        taken = 0
        for target in [*self._stored]:
            taken += self._leave(target, now_ms)
        for source in [*self._leaving]:
            taken += self._settle(source, now_ms)
        return taken

    def _leave(self, target: Queue, now_ms: int) -> int:
        """End the originals of copies that are on disk now; return how many were looked at."""
        waiting, log = self._stored[target], target.log
        durable_lsn, has_failed, taken = log.lsn_durable, log.failure is not None, 0
        as_target = targets(target.server_id, target.name, target.generation)
        latest: _Leaving | None = None  # of the hand-offs
        while waiting and (waiting[0][0] <= durable_lsn or has_failed):
            stored = waiting.popleft()
            lsn, copy, request, source, lease = stored
            taken += 1
            if lsn > durable_lsn:
                self._never_stored(target, stored)
            elif source.deleted:
                self._orphan(source, target, [copy], now_ms)
                self._end(request, lease.item.size)
            elif source.log.failure is not None:
                self._doubted.setdefault(source, set()).add(target.files)
                self._doubt(request, lease.item.size)
            else:
                reader = lease.owner
                assert isinstance(reader, Subscription)
                is_awaited = request is not None or source.policy.sync_ms != 0
                lsn = Source(reader).leave(lease, as_target(copy), now_ms, not is_awaited)
                if request is None and latest is not None and latest.source is source:
                    latest.copies.append(copy)
                    latest.lsn = lsn
                    continue
                leaving = _Leaving(lsn, source, target, [copy], request, lease.item.size)
                if request is None:
                    latest = leaving
                self._await_end(leaving, is_awaited)
        if not waiting:
            del self._stored[target]
        return taken

    def _await_end(self, leaving: _Leaving, is_awaited: bool = True) -> None:
        source = leaving.source
        if is_awaited:
            source.log.wait_durable(leaving.lsn)
        else:  # no reply waits for the end of a hand-off
            self.unawaited[source.files] = None
        self._leaving.setdefault(source, deque()).append(leaving)

    def _settle(self, source: Queue, now_ms: int) -> int:
        """Close the origins of copies whose originals have ended on disk; return how many."""
        waiting, log = self._leaving[source], source.log
        durable_lsn, has_failed, taken = log.lsn_durable, log.failure is not None, 0
        closed = dict[Queue, list[int]]()
        while waiting and (waiting[0].lsn <= durable_lsn or has_failed):
            leaving = waiting.popleft()
            taken += len(leaving.copies)
            if leaving.lsn <= durable_lsn:
                closed.setdefault(leaving.target, []).extend(leaving.copies)
                if leaving.request is not None:
                    leaving.request.moved += 1
                self._end(leaving.request, leaving.bytes)
            elif source.files.is_going:
                self._orphan(source, leaving.target, leaving.copies, now_ms)
                self._end(leaving.request, leaving.bytes)
            else:
                self._doubted.setdefault(source, set()).add(leaving.target.files)
                self._doubt(leaving.request, leaving.bytes)
        if not waiting:
            del self._leaving[source]
        for target, copies in closed.items():
            self._close(target, copies, now_ms)
        return taken

    def _close(self, target: Queue, copies: list[int], now_ms: int) -> None:
        if target.log.failure is None and not target.is_going:
            Target(target).close_origins(copies, now_ms, lazily=True)
            self.unawaited[target.files] = None

    def _orphan(self, source: Queue, target: Queue, copies: list[int], now_ms: int) -> None:
        """Wait for the deletion of a source: its record on disk, or its files removed.

        The copies' files may go first; then nothing else says that the original was moved.
        """
        files = source.files
        if files.is_gone:
            self._close(target, copies, now_ms)
        elif files in self._staying:
            self._doubted.setdefault(files, set()).add(target.files)
        elif files.is_going and files.is_stuck:
            self._orphans.setdefault(files, []).append((target, copies))
        else:
            if files.is_going and files not in self._told:
                self._told[files] = files.tell_deleted(now_ms)
            lsn = self._told.get(files, files.log.lsn_appended)
            self._await_end(_Leaving(lsn, source, target, copies))

    def _never_stored(self, target: Queue, stored: _Stored) -> None:
        """Handle a copy that never reached the disk: its journal failed, or was deleted before."""
        _, _, request, source, lease = stored
        if target.deleted and not source.deleted:
            self._without_target.setdefault(target, []).append(stored)
        self._doubt(request, lease.item.size)

    def _doubt(self, request: TransferRequest | None, bytes_: int) -> None:
        """Give up on an item after a journal failed: it is held back until a restart settles it."""
        if request is not None and not request.by_itself:
            request.give_up("a journal failed: what is in doubt is settled by a restart")
        self._end(request, bytes_)

    def _end(self, request: TransferRequest | None, bytes_: int) -> None:
        if request is not None:
            self._over(request, bytes_)

    # -- deleted queues ---------------------------------------------------------------------

    def holds(self, queue: Queue) -> bool:
        """True if an item would return after a crash, were the files of this queue removed now."""
        if any(target.goes_with(queue) for target in self._stored):
            return True
        if not queue.is_stuck and any(each.files is queue for each in self._leaving):
            return True
        leaving = (each for waiting in self._leaving.values() for each in waiting)
        return any(each.target.goes_with(queue) for each in leaving)

    def follows(self, queue: Queue) -> bool:
        """True if other files must be removed first: they have originals of copies in this queue.

        The logs of those queues can no longer record that the originals are gone, so the sequence
        of removal has to show it. Two queues that follow each other do not wait for one another.
        """
        for source in self._sources(queue):
            before, found = {source}, [source]
            while found:
                more = [each for each in self._sources(found.pop()) if each not in before]
                before.update(more)
                found += more
            if queue not in before:
                return True
        return False

    def _sources(self, queue: Queue) -> list[Queue]:
        """Return deleted queues with stuck logs and with originals of this queue's copies."""
        pairs = [(files, target) for files, some in self._orphans.items() for target, _ in some]
        for waiting in self._leaving.values():
            pairs += [(each.source.files, each.target) for each in waiting]
        for target, stored in self._stored.items():
            pairs += [(source.files, target) for _, _, _, source, _ in stored]
        return [
            files for files, target in pairs
            if files is not queue and files.is_going and files.is_stuck and not files.is_gone
            and files not in self._staying and target.goes_with(queue)
        ]  # fmt: skip

    def stays(self, queue: Queue) -> None:
        """Note that a deleted queue's files could not be removed: a restart finds its originals."""
        self._staying.add(queue)
        for target, _ in self._orphans.pop(queue, []):
            self._doubted.setdefault(queue, set()).add(target.files)

    def doubts(self, queue: Queue) -> bool:
        """True if, until a restart, only these files say that a failed journal's item was moved."""
        doubted = self._doubted.values()
        return any(target.goes_with(queue) for targets in doubted for target in targets)

    def gone(self, queue: Queue, now_ms: int) -> None:
        """Note that a deleted queue's files are gone, with originals, or copies never stored."""
        queue.is_gone = True
        self._doubted.pop(queue, None)
        self._told.pop(queue, None)
        for target, copies in self._orphans.pop(queue, []):
            self._close(target, copies, now_ms)
        for _, _, request, source, lease in self._without_target.pop(queue, []):
            if source.deleted:
                continue
            if request is not None:
                Source(source.reader).put_back(lease)
            elif source.log.failure is None:
                hand_back(lease, now_ms)

    # -- a start ----------------------------------------------------------------------------

    def settle_all(self, queue: Queue, now_ms: int) -> int:
        """Settle every open origin of this queue, before any item is served.

        Return how many are not over yet. No item of any queue has been read back at this point.
        """
        pending = 0
        for copy, origin in [*queue.origins.items()]:
            source = self._original(origin)
            if source is None:
                if origin.is_of(queue.name):
                    Target(queue).tell_left(copy, origin, now_ms)
                else:
                    Target(queue).close_origins([copy], now_ms)
                continue
            there = Origin(queue.server_id, queue.name, copy, queue.generation)
            lsn = Source(source.reader).leave_unread(
                origin.item, origin.body_bytes, there, now_ms
            )
            self._await_end(_Leaving(lsn, source, queue, [copy]))
            pending += 1
        return pending

    def _original(self, origin: Origin) -> Queue | None:
        """Return the queue that still has the original of a copy; None: it is gone."""
        if origin.server == self._registry.server_id:
            for source in self._registry.all_named(origin.queue):
                is_it = source.generation == origin.generation
                if is_it and origin.item in source.reader.live:
                    return source
        return None
