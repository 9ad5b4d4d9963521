"""Deleted queues: their files go when no reply and no transfer needs them any more.

    deleted in the broker ──▶ stored records are acknowledged ──▶ no transfer would be undone, and
                              no earlier queue of the name would come back ──▶ files gone

One rule: the client that deleted a queue is answered when its files are gone for good.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Final

from aiofiles.base import wrap

from journal.errors import JournalFailed
from kestrelpy.core import JournalLog, Queue
from kestrelpy.errors import ServerError
from kestrelpy.operations import Gate
from kestrelpy.server import clock

if TYPE_CHECKING:
    from kestrelpy.core import Broker
    from kestrelpy.server.directory import DataDirectory
    from kestrelpy.server.turn import Turn

log = logging.getLogger("kestrelpy")

_LOOK_SECONDS: Final = 0.001  # between two checks whether the files may go


class QueueDeletions:
    """Owned by the loop's thread."""

    def __init__(
        self,
        broker: Broker,
        directory: DataDirectory,
        start: Callable[[Coroutine[object, object, None]], None],
    ) -> None:
        """`start` runs a task of the process."""
        self._broker = broker
        self._directory = directory
        self.turn: Turn | None = None
        self._start = start
        self._gates: dict[Queue, Gate] = {}
        self._going: list[Queue] = []

    def gate(self, queue: Queue) -> Gate:
        """Return the gate that opens when the deleted queue's files are gone for good."""
        gate = self._gates[queue] = Gate()
        return gate

    def earlier_files_gone(self, queue: Queue) -> Gate | None:
        """Return the gate that opens when no earlier queue of this name can come back; None if none
        can."""
        if not self._broker.would_come_back(queue, self._going):
            return None
        gate = Gate()
        self._start(self._clear(queue, gate))
        return gate

    async def _clear(self, queue: Queue, gate: Gate) -> None:
        while self._broker.would_come_back(queue, self._going):
            await asyncio.sleep(_LOOK_SECONDS)
        gate.open()
        self._touch(gate.waiting_stored)

    def begin(self, queue: Queue) -> None:
        """Begin to remove a queue that the broker has deleted."""
        gate = self._gates.pop(queue, None) or Gate()
        if isinstance(queue.log, JournalLog):
            self._going.append(queue)
            self._start(self._go(queue, queue.log, gate))
        else:
            self._broker.moves.in_flight.gone(queue, clock.now_ms())
            self._broker.end(queue)
            gate.open()
            self._touch(gate.waiting_stored)

    async def _go(self, queue: Queue, target: JournalLog, gate: Gate) -> None:
        """Remove the files; in any case later queues of the name wait no longer."""
        try:
            await self._remove(queue, target, gate)
        finally:
            self._going.remove(queue)
            self._broker.end(queue)

    async def _remove(self, queue: Queue, target: JournalLog, gate: Gate) -> None:
        """Acknowledge the stored records; then remove the files."""
        journal, commit = target.journal, target.journal.commit
        name = queue.name.decode("ascii")
        while self._is_needed(queue, target):
            await asyncio.sleep(_LOOK_SECONDS)
        target.is_reported = True
        # All items of a tombstone have ended: its last records are true when its files are gone,
        # written or not, unless transfers rest on them.
        is_held = self._broker.moves.in_flight.holds(queue)
        ends = queue.is_tombstone and commit.failure is None and not is_held
        target.is_ending = ends
        commit.fail(JournalFailed(f"queue {name} was deleted"))
        if not ends:
            self._answer(target)
        journal.abandon()
        assert self.turn is not None
        assert self.turn.committer is not None
        assert self.turn.journal_jobs is not None
        self.turn.committer.let_go(target)
        self.turn.journal_jobs.let_go(target)
        self.turn.files.rested(target)
        if self._broker.moves.in_flight.doubts(queue):
            why = "an item that came here is in doubt until a restart, for its journal failed"
            gate.failure = ServerError(f"queue {name} was not removed from disk: {why}")
            self._broker.moves.in_flight.stays(queue)
            self._answer(target)
            self._touch(gate.waiting_stored)
            return
        try:
            remove = partial(wrap(self._directory.remove_queue), queue)
            await self.turn.shortage.retry(journal.folder, remove)
        except OSError as error:
            log.error("queue %s: its files were not removed: %s", name, error)
            why = os.strerror(error.errno) if error.errno else str(error)
            gate.failure = ServerError(f"queue {name} was not removed from disk: {why}")
            self._broker.moves.in_flight.stays(queue)
        else:
            if ends:
                commit.end(queue.last_number)
            self._broker.moves.in_flight.gone(queue, clock.now_ms())
            gate.open()
        self._answer(target)
        self._touch(gate.waiting_stored)

    def _answer(self, target: JournalLog) -> None:
        """Answer what waits for this log, which advances no more."""
        target.is_ending = False
        target.advance()
        self._touch(target.waiting_stored | target.waiting_written)

    def _touch(self, callers: set[object]) -> None:
        assert self.turn is not None
        self.turn.touch_all(callers)
        self.turn.schedule()  # for the transfers

    def _is_needed(self, queue: Queue, target: JournalLog) -> bool:
        """True if work with its files is under way, or they are still needed."""
        commit, turn = target.journal.commit, self.turn
        assert turn is not None
        assert turn.committer is not None
        assert turn.journal_jobs is not None
        # Without room, records that need more than the reserve are never written, and what waits
        # for them was refused; the others are written and synced first, and so answered. Records
        # that another queue's log still has to write are awaited, or a handed-off item would come
        # back.
        is_cut_off = target.no_room and not target.journal.can_write
        last = commit.lsn_written if is_cut_off else commit.lsn_appended
        has_all = target.lsn_stored >= last
        is_held = not target.is_full and self._broker.moves.in_flight.holds(queue)
        return bool(
            commit.lsn_in_flight
            or turn.committer.is_preparing(target)
            or turn.committer.is_removing(target)
            or turn.journal_jobs.is_busy(target)
            or not (commit.failure or (has_all and not is_held))
            or self._broker.would_come_back(queue, self._going)
            or self._broker.moves.in_flight.follows(queue)
        )
