"""Deleted queues: their files go when no reply and no transfer needs them any more.

    deleted in the broker ──▶ stored records are acknowledged ──▶ no transfer would be undone, and
                              no earlier queue of the name would come back ──▶ files gone

Thousands of queues may be deleted, so each step looks at a few of them. One task removes their
files off the loop, a batch at a time. One sync of the data directory makes a batch sure.

One rule: the client that deleted a queue is answered when its files are gone for good.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
from collections import deque
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Final

from aiofiles.base import wrap

from journal.errors import JournalFailed
from kestrelpy.core import JournalLog, Queue
from kestrelpy.errors import ServerError
from kestrelpy.operations import Gate
from kestrelpy.server import clock
from kestrelpy.server.directory import Removed

if TYPE_CHECKING:
    from kestrelpy.core import Broker
    from kestrelpy.server.directory import DataDirectory
    from kestrelpy.server.turn import Turn

log = logging.getLogger("kestrelpy")

_LOOK_SECONDS: Final = 0.001  # between two checks whether the files may go
# Queues looked at, closed and removed in one step: 2 to 4 ms of work on the loop.
LOOKS_MAX: Final = 64


class _Removal:
    """A deleted queue whose files are to go. `ends`: its last records are true without them."""

    __slots__ = ("ends", "gate", "queue", "target")

    def __init__(self, queue: Queue, target: JournalLog, gate: Gate) -> None:
        self.queue = queue
        self.target = target
        self.gate = gate
        self.ends = False


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
        self._going: dict[bytes, list[Queue]] = {}  # by name, the files are there still
        self._waiting: deque[_Removal] = deque()
        self._is_working = False

    def gate(self, queue: Queue) -> Gate:
        """Return the gate that opens when the deleted queue's files are gone for good."""
        gate = self._gates[queue] = Gate()
        return gate

    def earlier_files_gone(self, queue: Queue) -> Gate | None:
        """Return the gate that opens when no earlier queue of this name can come back; None if none
        can."""
        if not self._would_come_back(queue):
            return None
        gate = Gate()
        self._start(self._clear(queue, gate))
        return gate

    def _would_come_back(self, queue: Queue) -> bool:
        return self._broker.would_come_back(queue, self._going.get(queue.name, ()))

    async def _clear(self, queue: Queue, gate: Gate) -> None:
        while self._would_come_back(queue):
            await asyncio.sleep(_LOOK_SECONDS)
        gate.open()
        self._touch(gate.waiting_stored)

    def begin(self, queue: Queue) -> None:
        """Begin to remove a queue that the broker has deleted."""
        gate = self._gates.pop(queue, None) or Gate()
        if isinstance(queue.log, JournalLog):
            self._going.setdefault(queue.name, []).append(queue)
            self._waiting.append(_Removal(queue, queue.log, gate))
            if not self._is_working:
                self._is_working = True
                self._start(self._work())
        else:
            self._broker.moves.in_flight.gone(queue, clock.now_ms())
            self._broker.end(queue)
            gate.open()
            self._touch(gate.waiting_stored)

    async def _work(self) -> None:
        """Remove the files of all deleted queues, some at a time, until no queue waits."""
        try:
            while self._waiting:
                closed = self._close_some()
                if closed:
                    await self._remove(closed)
                else:
                    await asyncio.sleep(_LOOK_SECONDS)
        finally:
            self._is_working = False

    def _close_some(self) -> list[_Removal]:
        """Look at some of the queues; close the journals that are needed no more, return those
        whose files may go."""
        closed = []
        for _ in range(min(len(self._waiting), LOOKS_MAX)):
            one = self._waiting.popleft()
            if self._is_needed(one.queue, one.target):
                self._waiting.append(one)
            elif self._close(one):
                closed.append(one)
            else:
                self._over(one)
        return closed

    def _close(self, one: _Removal) -> bool:
        """Acknowledge the stored records, and close the journal; False: its files stay."""
        queue, target = one.queue, one.target
        journal, commit = target.journal, target.journal.commit
        target.is_reported = True
        # All items of a tombstone have ended: its last records are true when its files are gone,
        # written or not, unless transfers rest on them.
        is_held = self._broker.moves.in_flight.holds(queue)
        one.ends = queue.is_tombstone and commit.failure is None and not is_held
        target.is_ending = one.ends
        commit.fail(JournalFailed(f"queue {queue.name.decode('ascii')} was deleted"))
        if not one.ends:
            self._answer(target)
        journal.abandon()
        assert self.turn is not None
        assert self.turn.committer is not None
        assert self.turn.journal_jobs is not None
        self.turn.committer.let_go(target)
        self.turn.journal_jobs.let_go(target)
        self.turn.files.rested(target)
        if self._broker.moves.in_flight.doubts(queue):
            self._stay(one, "an item that came here is in doubt until a restart, for its journal "
                       "failed")  # fmt: skip
            return False
        return True

    async def _remove(self, closed: list[_Removal]) -> None:
        """Remove the files of these queues off the loop, and answer."""
        assert self.turn is not None
        queues = [one.queue for one in closed]
        removed = Removed()
        try:
            remove = partial(wrap(self._directory.remove_queues), queues, removed)
            folder = closed[0].target.journal.folder
            await _to_its_end(self.turn.shortage.retry(folder, remove))
        except OSError as error:
            removed.errors.update(dict.fromkeys(queues, error))
        except BaseException:  # the state of the disk is unknown
            unknown = OSError(errno.ECANCELED, os.strerror(errno.ECANCELED))
            removed.errors.update(dict.fromkeys(queues, unknown))
            raise
        finally:  # in any case later queues of the name wait no longer
            for one in closed:
                self._finish(one, removed.errors.get(one.queue))

    def _finish(self, one: _Removal, error: OSError | None) -> None:
        """Answer for a queue whose files are gone, or could not be removed."""
        queue = one.queue
        if error is not None:
            log.error("queue %s: its files were not removed: %s", queue.name.decode("ascii"), error)
            self._stay(one, os.strerror(error.errno) if error.errno else str(error))
        else:
            if one.ends:
                one.target.journal.commit.end(queue.last_number)
            self._broker.moves.in_flight.gone(queue, clock.now_ms())
            one.gate.open()
            self._answer(one.target)
            self._touch(one.gate.waiting_stored)
        self._over(one)

    def _stay(self, one: _Removal, why: str) -> None:
        """Answer that the files of this queue stay."""
        name = one.queue.name.decode("ascii")
        one.gate.failure = ServerError(f"queue {name} was not removed from disk: {why}")
        self._broker.moves.in_flight.stays(one.queue)
        self._answer(one.target)
        self._touch(one.gate.waiting_stored)

    def _over(self, one: _Removal) -> None:
        """Let go of a queue: its files are gone, or stay."""
        going = self._going[one.queue.name]
        going.remove(one.queue)
        if not going:
            del self._going[one.queue.name]
        self._broker.end(one.queue)

    def _answer(self, target: JournalLog) -> None:
        """Answer the replies held for this log, which advances no more."""
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
        # Without room, records that need more than the reserve are never written, and the requests
        # that waited for them were refused. The other records are written and synced first, so
        # their requests are answered. Records that another queue's log still has to write are
        # awaited, or a handed-off item would come back.
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
            or self._would_come_back(queue)
            or self._broker.moves.in_flight.follows(queue)
        )


async def _to_its_end(work: Coroutine[object, object, None]) -> None:
    """Return when this work is over, also if the server stops meanwhile: its waiters then get
    their answer."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        if not task.cancelled():
            await task
