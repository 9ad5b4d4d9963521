"""Transfers in flight: all of them, by what they wait for.

    COPYING    by target    ──a record is on disk, or its journal has failed──▶ the next step
    LEFT       by source    ──────────────────────────────────────────────────▶ (`Transfer.news`)
    ORPHANED, IN_DOUBT   by the source's files ──gone──▶ settled
    STRANDED             by the target's files ──gone──▶ returned

A start finds unfinished transfers by the open origins of each target (`finish_all`). If the source
still has the item, it records MOVED before any item is served.

One rule: MOVED waits for the copy to be on disk, SETTLED for MOVED to be on disk, whatever `sync`
says.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from journal.format import Origin
from kestrelpy.core.index import Holder, Lease
from kestrelpy.core.queue import AnyQueue, Queue
from kestrelpy.core.registry import Registry
from kestrelpy.core.transfer.request import TransferRequest
from kestrelpy.core.transfer.steps import TransferSource, TransferTarget
from kestrelpy.core.transfer.transfer import (
    COPYING,
    END_ORIGINAL,
    LEFT,
    OVER,
    Event,
    Transfer,
    TransferEffect,
    TransferState,
)


class InFlight:
    """All transfers in flight, each between two queues.

    `unawaited` are queues with records that no reply waits for; the shell has them written soon.
    """

    __slots__ = ("_closing", "_over", "_registry", "_waiting", "mover", "unawaited")

    def __init__(self, registry: Registry, over: Callable[[TransferRequest, int], None]) -> None:
        """`over` is called once for each item of a request whose transfer ended, with its bytes."""
        self._registry = registry
        self._over = over
        self.mover = Holder("mover")
        # By state, and by the queue that they wait for, in the order of its log.
        self._waiting: dict[TransferState, dict[AnyQueue, deque[Transfer]]] = {}
        self._closing: dict[AnyQueue, list[int]] = {}  # by target: copies whose originals are gone
        self.unawaited: dict[AnyQueue, None] = {}

    # -- transfers that begin ---------------------------------------------------------------

    def hand_off(
        self, source: AnyQueue, lease: Lease, target: AnyQueue, copy: int, lsn: int, now_ms: int
    ) -> None:
        """Begin the transfer of a leased item, which is `copy` in `target` by its put `lsn`.

        From here on no nack returns the item: it ends when that record is on disk.
        """
        if target.files is source.files:
            here = Transfer(source, target, copy, lsn, lease)
            TransferSource.of(lease).leave(lease, here.as_target, now_ms)
            return
        TransferSource.of(lease).forward(lease, self.mover)
        self._wait(Transfer(source, target.files, copy, lsn, lease))

    def stored(
        self, request: TransferRequest, lease: Lease, target: AnyQueue, copy: int, lsn: int
    ) -> None:
        """Begin the transfer of a request's item, which is `copy` in `target` by its put `lsn`."""
        target.log.wait_durable(lsn)
        self._wait(Transfer(request.source, target, copy, lsn, lease, request))

    @property
    def are_any(self) -> bool:
        """True if any transfer waits for a log."""
        waiting = self._waiting
        return bool(self.unawaited) or (
            bool(waiting) and (COPYING in waiting or LEFT in waiting)
        )

    def take_unawaited(self) -> list[AnyQueue]:
        """Return the queues that got records without a waiting reply since the last call."""
        unawaited = [*self.unawaited]
        self.unawaited.clear()
        return unawaited

    def _wait(self, transfer: Transfer) -> None:
        """Keep a transfer until there is news of what it waits for."""
        queues = self._waiting.get(transfer.state)
        if queues is None:
            queues = self._waiting[transfer.state] = {}
        queue = transfer.awaits
        waiting = queues.get(queue)
        if waiting is None:
            waiting = queues[queue] = deque()
        waiting.append(transfer)

    def _take(self, state: TransferState, queue: AnyQueue) -> deque[Transfer]:
        """Remove and return the transfers in this state that wait for this queue."""
        queues = self._waiting.get(state, {})
        waiting = queues.pop(queue, deque())
        if not queues:
            self._waiting.pop(state, None)
        return waiting

    def _in(self, *states: TransferState) -> Iterator[Transfer]:
        """Yield the transfers in these states."""
        for state in states:
            for waiting in self._waiting.get(state, {}).values():
                yield from waiting

    # -- steps of a transfer ----------------------------------------------------------------

    def advance(self, now_ms: int, most: int) -> int:
        """Take the steps that the logs allow, `most` at most; return the number of steps taken."""
        taken = 0
        for state in (COPYING, LEFT):
            for queue in [*self._waiting.get(state, ())]:
                taken += self._look(state, queue, most - taken, now_ms)
        return taken

    def _look(self, state: TransferState, queue: AnyQueue, most: int, now_ms: int) -> int:
        """Take the steps that the log of one queue allows, `most` at most; return how many."""
        waiting, log = self._waiting[state][queue], queue.log
        durable_lsn, has_failed, taken = log.lsn_durable, log.failure is not None, 0
        while waiting and taken < most and (waiting[0].lsn <= durable_lsn or has_failed):
            transfer = waiting.popleft()
            self._step(transfer, transfer.news(transfer.lsn <= durable_lsn), now_ms)
            taken += 1
        if not waiting:
            self._take(state, queue)
        self._close_origins(now_ms)
        return taken

    def _step(self, transfer: Transfer, event: Event, now_ms: int) -> None:
        """Take one step, and do what it demands."""
        effect = transfer.step(event)
        if effect is END_ORIGINAL:
            self._end_original(transfer, now_ms)
            return
        if (request := transfer.request) is not None:
            transfer.request = None
            if effect is TransferEffect.GIVE_UP and not request.by_itself:
                request.give_up("a journal failed: what is in doubt is settled by a restart")
            request.moved += event is Event.END_STORED
            self._over(request, transfer.size)
        if effect is TransferEffect.CLOSE_ORIGIN:
            self._closing.setdefault(transfer.target, []).append(transfer.copy)
        elif effect is TransferEffect.END_SOURCE:
            files = transfer.source.files
            is_going, last = files.is_going, files.log.lsn_appended
            transfer.lsn = files.tell_deleted(now_ms) if is_going else last
            transfer.source.log.wait_durable(transfer.lsn)
        elif effect is TransferEffect.RETURN_ORIGINAL and not transfer.is_cut_off:
            TransferSource.of(transfer.original).give_back(transfer.original, now_ms)
        if transfer.state not in OVER:
            self._wait(transfer)

    def _end_original(self, transfer: Transfer, now_ms: int) -> None:
        """Record that the original is in the target; no reply waits for that after a hand-off."""
        source, lease = transfer.source, transfer.original
        is_awaited = transfer.request is not None or source.policy.sync_ms != 0
        lsn = TransferSource.of(lease).leave(lease, transfer.as_target, now_ms, not is_awaited)
        transfer.lsn, transfer.lease = lsn, None
        if is_awaited:
            source.log.wait_durable(lsn)
        else:
            self.unawaited[source.files] = None
        self._wait(transfer)

    def _close_origins(self, now_ms: int) -> None:
        """Record that the originals of copies are gone, one record for each target."""
        for target, copies in self._closing.items():
            if target.log.failure is None and not target.is_going:
                TransferTarget(target).close_origins(copies, now_ms, lazily=True)
                self.unawaited[target.files] = None
        self._closing.clear()

    # -- deleted queues ---------------------------------------------------------------------

    def holds(self, queue: Queue) -> bool:
        """True if an item would return after a crash, were the files of this queue removed now."""
        if any(target.files.goes_with(queue) for target in self._waiting.get(COPYING, ())):
            return True
        if self._has_foreign(queue):
            return True
        sources = self._waiting.get(LEFT, ())
        if not queue.is_stuck and any(source.files is queue for source in sources):
            return True
        return any(transfer.target.files.goes_with(queue) for transfer in self._in(LEFT))

    def _has_foreign(self, queue: Queue) -> bool:
        """True if this queue alone knows of copies of items of other servers."""
        return self._registry.has_peers and any(
            origin.server != queue.server_id for origin in queue.origins.values()
        )

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
        return [
            files
            for transfer in self._in(COPYING, LEFT, TransferState.ORPHANED)
            if (files := transfer.source.files) is not queue
            and files.is_going and files.is_stuck and not files.is_gone and not files.stays
            and transfer.target.files.goes_with(queue)
        ]  # fmt: skip

    def stays(self, queue: Queue) -> None:
        """Note that a deleted queue's files could not be removed: a restart finds its originals."""
        queue.stays = True
        for transfer in self._take(TransferState.ORPHANED, queue):
            self._step(transfer, Event.SOURCE_STAYS, 0)

    def doubts(self, queue: Queue) -> bool:
        """True if, until a restart, only these files say that a failed journal's item was moved, or
        that one of another server is here."""
        if self._has_foreign(queue):
            return True
        in_doubt = self._in(TransferState.IN_DOUBT)
        return any(transfer.target.files.goes_with(queue) for transfer in in_doubt)

    def gone(self, queue: Queue, now_ms: int) -> None:
        """Note that a deleted queue's files are gone, with originals, or copies never stored."""
        queue.is_gone = True
        for state in (TransferState.IN_DOUBT, TransferState.ORPHANED):
            for transfer in self._take(state, queue):
                self._step(transfer, Event.SOURCE_GONE, now_ms)
        for transfer in self._take(TransferState.STRANDED, queue):
            self._step(transfer, Event.TARGET_GONE, now_ms)
        self._close_origins(now_ms)

    # -- a start ----------------------------------------------------------------------------

    def finish_all(self, queue: Queue, now_ms: int) -> int:
        """Finish the transfers into this queue by its open origins, before any item is served.

        Return how many are not over yet. No item of any queue has been read back at this point.
        """
        pending = 0
        for copy, origin in [*queue.origins.items()]:
            source = self._original(origin)
            if source is None:
                if self._registry.has_peers and origin.server != self._registry.server_id:
                    continue  # that server says when the original is gone
                if origin.is_of(queue.name):
                    TransferTarget(queue).tell_left(copy, origin, now_ms)
                else:
                    TransferTarget(queue).close_origins([copy], now_ms)
                continue
            there = Origin(queue.server_id, queue.name, copy, queue.generation)
            lsn = TransferSource(source.reader).leave_unread(
                origin.item, origin.body_bytes, there, now_ms
            )
            source.log.wait_durable(lsn)
            self._wait(Transfer(source, queue, copy, lsn, None, None, LEFT))
            pending += 1
        return pending

    def _original(self, origin: Origin) -> AnyQueue | None:
        """Return the queue that still has the original of a copy; None: it is gone."""
        if origin.server == self._registry.server_id:
            for source in self._registry.all_named(origin.queue):
                is_it = source.generation == origin.generation
                if is_it and origin.item in source.reader.live:
                    return source
        return None
