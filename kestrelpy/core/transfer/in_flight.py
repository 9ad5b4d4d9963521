"""Items that two queues have: the copy is put in one, the original is not gone from the other yet.

    stored ──copy on disk──▶ MOVED in the source ──on disk──▶ SETTLED in the target
      │                        │
      └─ a journal fails ──────┴──▶ in doubt: nobody has the original until a restart
      └─ the source is deleted ───▶ its log says that instead, if it can; else an orphan, settled
      │                             when its files are gone
      └─ the target is deleted ───▶ stranded: the original goes back when those files are gone

A start finds what was under way by the open origins of each target (`settle_all`): where the source
has the item still, it says MOVED before anything is served.

One rule: MOVED waits for the copy to be on disk, SETTLED for MOVED to be on disk, whatever `sync`
says.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from journal.format.transfer import Origin, targets
from kestrelpy.core.index.leases import Holder, Lease
from kestrelpy.core.queue.queue import Queue
from kestrelpy.core.registry.registry import Registry
from kestrelpy.core.subscription.subscription import Subscription
from kestrelpy.core.transfer.request import TransferRequest
from kestrelpy.core.transfer.steps import Source, Target, hand_back

# The copy's record and number, the order (None: somebody has handed it off), the source, and the
# lease there, which is the mover's. (A tuple, because each hand-off makes one.)
_Stored = tuple[int, int, TransferRequest | None, Queue, Lease]


class _Leaving:
    """Copies whose originals went with one source's records up to `lsn`; of an order one, which has
    so many bytes."""

    __slots__ = ("bytes", "copies", "lsn", "order", "source", "target")

    def __init__(
        self, lsn: int, source: Queue, target: Queue, copies: list[int],
        order: TransferRequest | None = None, bytes_: int = 0,
    ) -> None:  # fmt: skip
        self.bytes = bytes_
        self.lsn = lsn
        self.source = source
        self.target = target
        self.copies = copies
        self.order = order


class InFlight:
    """What is under way between two queues each.

    `quiet` are queues in whose logs something stands that nobody waits for, and that the shell has
    written soon.
    """

    __slots__ = (
        "_doubted", "_leaving", "_orphans", "_over", "_registry", "_staying", "_stored",
        "_stranded", "_told", "mover", "unawaited",
    )  # fmt: skip

    def __init__(self, registry: Registry, over: Callable[[TransferRequest, int], None]) -> None:
        """`over` is told once of each item of an order, with its bytes: that is over."""
        self._registry = registry
        self._over = over
        self.mover = Holder("mover")
        self._stored: dict[Queue, deque[_Stored]] = {}  # by target, in the order of its log
        self._leaving: dict[Queue, deque[_Leaving]] = {}  # by source, in the order of its log
        self._doubted: dict[Queue, set[Queue]] = {}  # by source: where the copies are
        self._orphans: dict[Queue, list[tuple[Queue, list[int]]]] = {}
        self._stranded: dict[Queue, list[_Stored]] = {}
        self._staying: set[Queue] = set()  # deleted ones whose files could not be removed
        self._told: dict[Queue, int] = {}  # deleted ones whose logs say so, and by which record
        self.unawaited: dict[Queue, None] = {}

    # -- from now on under way --------------------------------------------------------------

    def hand_off(
        self, source: Queue, lease: Lease, target: Queue, copy: int, lsn: int, now_ms: int
    ) -> None:
        """This item, lent until now, is `copy` in `target` by its put, the record `lsn`.

        From here on nothing returns it: it goes when that record is on disk."""
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
        self, order: TransferRequest, lease: Lease, target: Queue, copy: int, lsn: int
    ) -> None:
        """This item of an order, lent to the mover, is `copy` in `target` by the record `lsn`."""
        target.log.wait_durable(lsn)
        self._await_copy(target, (lsn, copy, order, order.source, lease))

    def _await_copy(self, target: Queue, stored: _Stored) -> None:
        waiting = self._stored.get(target)
        if waiting is None:
            waiting = self._stored[target] = deque()
        waiting.append(stored)

    @property
    def are_any(self) -> bool:
        """Is anything under way?"""
        return bool(self._stored or self._leaving or self.unawaited)

    def take_unawaited(self) -> list[Queue]:
        """Those in whose logs something stands that nobody waits for, since the last time."""
        unawaited = [*self.unawaited]
        self.unawaited.clear()
        return unawaited

    # -- one after the other ----------------------------------------------------------------

    def advance(self, now_ms: int) -> int:
        """Originals whose copies are on disk go; what is gone on disk is settled. How many."""
        taken = 0
        for target in [*self._stored]:
            taken += self._leave(target, now_ms)
        for source in [*self._leaving]:
            taken += self._settle(source, now_ms)
        return taken

    def _leave(self, target: Queue, now_ms: int) -> int:
        """Copies that are on disk now: their originals go; how many were looked at."""
        waiting, log = self._stored[target], target.log
        durable_lsn, has_failed, taken = log.lsn_durable, log.failure is not None, 0
        as_target = targets(target.server_id, target.name, target.generation)
        latest: _Leaving | None = None  # of those handed off
        while waiting and (waiting[0][0] <= durable_lsn or has_failed):
            stored = waiting.popleft()
            lsn, copy, order, source, lease = stored
            taken += 1
            if lsn > durable_lsn:
                self._never_stored(target, stored)
            elif source.deleted:
                self._orphan(source, target, [copy], now_ms)
                self._end(order, lease.item.size)
            elif source.log.failure is not None:
                self._doubted.setdefault(source, set()).add(target.files)
                self._doubt(order, lease.item.size)
            else:
                reader = lease.owner
                assert isinstance(reader, Subscription)
                is_awaited = order is not None or source.policy.sync_ms != 0
                lsn = Source(reader).leave(lease, as_target(copy), now_ms, not is_awaited)
                if order is None and latest is not None and latest.source is source:
                    latest.copies.append(copy)
                    latest.lsn = lsn
                    continue
                leaving = _Leaving(lsn, source, target, [copy], order, lease.item.size)
                if order is None:
                    latest = leaving
                self._await_end(leaving, is_awaited)
        if not waiting:
            del self._stored[target]
        return taken

    def _await_end(self, leaving: _Leaving, is_awaited: bool = True) -> None:
        source = leaving.source
        if is_awaited:
            source.log.wait_durable(leaving.lsn)
        else:  # nobody waits for a hand-off's
            self.unawaited[source.files] = None
        self._leaving.setdefault(source, deque()).append(leaving)

    def _settle(self, source: Queue, now_ms: int) -> int:
        """Originals that are gone on disk: their copies' origins are closed."""
        waiting, log = self._leaving[source], source.log
        durable_lsn, has_failed, taken = log.lsn_durable, log.failure is not None, 0
        closed = dict[Queue, list[int]]()
        while waiting and (waiting[0].lsn <= durable_lsn or has_failed):
            leaving = waiting.popleft()
            taken += len(leaving.copies)
            if leaving.lsn <= durable_lsn:
                closed.setdefault(leaving.target, []).extend(leaving.copies)
                if leaving.order is not None:
                    leaving.order.moved += 1
                self._end(leaving.order, leaving.bytes)
            elif source.files.is_going:
                self._orphan(source, leaving.target, leaving.copies, now_ms)
                self._end(leaving.order, leaving.bytes)
            else:
                self._doubted.setdefault(source, set()).add(leaving.target.files)
                self._doubt(leaving.order, leaving.bytes)
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
        """Its source is deleted: the original is gone when that is on disk, or the files are gone.

        The copies' files may go first, and then nothing else says that the original is moved."""
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
        """The target's journal failed, or was deleted before the copy was on disk."""
        _, _, order, source, lease = stored
        if target.deleted and not source.deleted:
            self._stranded.setdefault(target, []).append(stored)
        self._doubt(order, lease.item.size)

    def _doubt(self, order: TransferRequest | None, bytes_: int) -> None:
        """A journal failed: a restart will know. Until then nobody has it."""
        if order is not None and not order.by_itself:
            order.give_up("a journal failed: what is in doubt is settled by a restart")
        self._end(order, bytes_)

    def _end(self, order: TransferRequest | None, bytes_: int) -> None:
        if order is not None:
            self._over(order, bytes_)

    # -- queues that go ---------------------------------------------------------------------

    def holds(self, queue: Queue) -> bool:
        """Would an item come back if the files of this queue went now and a crash came?"""
        if any(target.goes_with(queue) for target in self._stored):
            return True
        if not queue.is_stuck and any(each.files is queue for each in self._leaving):
            return True
        leaving = (each for waiting in self._leaving.values() for each in waiting)
        return any(each.target.goes_with(queue) for each in leaving)

    def follows(self, queue: Queue) -> bool:
        """Do other files go first, which still have originals of copies in this queue's?

        Their logs cannot say any more that these are gone, so only the order of removal does. Two
        queues that follow each other wait for neither.
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
        """Deleted queues with stuck logs whose files have originals of what this one's hold."""
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
        """The files of this deleted queue could not be removed: a restart finds originals there."""
        self._staying.add(queue)
        for target, _ in self._orphans.pop(queue, []):
            self._doubted.setdefault(queue, set()).add(target.files)

    def doubts(self, queue: Queue) -> bool:
        """Do only these files say that an item of a failed journal is moved, until a restart?"""
        doubted = self._doubted.values()
        return any(target.goes_with(queue) for targets in doubted for target in targets)

    def gone(self, queue: Queue, now_ms: int) -> None:
        """The files of this deleted queue are gone: originals, or copies that were never stored."""
        queue.is_gone = True
        self._doubted.pop(queue, None)
        self._told.pop(queue, None)
        for target, copies in self._orphans.pop(queue, []):
            self._close(target, copies, now_ms)
        for _, _, order, source, lease in self._stranded.pop(queue, []):
            if source.deleted:
                continue
            if order is not None:
                Source(source.reader).put_back(lease)
            elif source.log.failure is None:
                hand_back(lease, now_ms)

    # -- a start ----------------------------------------------------------------------------

    def settle_all(self, queue: Queue, now_ms: int) -> int:
        """Before anything is served: every open origin of this queue. How many are not over yet.

        Nothing of any queue has been read back.
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
        """The queue that still has what this copy was made of; None: it is gone."""
        if origin.server == self._registry.server_id:
            for source in self._registry.all_named(origin.queue):
                is_it = source.generation == origin.generation
                if is_it and origin.item in source.reader.live:
                    return source
        return None
