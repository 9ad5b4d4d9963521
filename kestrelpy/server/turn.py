"""The turn: once per turn of the loop, commit what is pending and speak what has become true.

    due work -> who was served -> write every dirty journal -> start its sync -> send what is true
             -> go on with connections that used up their share

Requests that come in one breath share a write and a sync: as long as the sockets have more, a
sync is put off for a few turns, three milliseconds at most.

One rule: nothing is sent before the journal it rests on has been written.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Final, Protocol, cast

from journal.errors import JournalFailed
from kestrelpy.core.broker import Broker
from kestrelpy.core.index.waiters import Waiter
from kestrelpy.core.log.log import JournalLog
from kestrelpy.core.queue.queue import Queue
from kestrelpy.core.subscription.subscription import Reader
from kestrelpy.protocol.conversation import Conversation
from kestrelpy.protocol.ports import Talk
from kestrelpy.server import clock
from kestrelpy.server.committer import Committer
from kestrelpy.server.gathering import Gathering
from kestrelpy.server.journal_jobs import Background
from kestrelpy.server.later_syncs import LaterSyncs
from kestrelpy.server.open_journals import OpenJournals
from kestrelpy.server.schedules import Schedules, sooner
from kestrelpy.server.shares import DIRECT_SECONDS, Sharer, Shares
from kestrelpy.server.shortage import Shortage

log = logging.getLogger("kestrelpy.turn")

# The wall clock is looked at this often, and at every timer.
WALL_CHECK_MS: Final = 1000
# Readers that one turn has read back for; the next one goes on with the others.
FEEDS_MAX: Final = 16
# A journal with nothing to do for so long says that it is synced, and closes its files.
REST_SECONDS: Final = 1.0


class Speaker(Sharer, Protocol):
    """A connection, as the turn sees it."""

    def speak(self, now_ms: int) -> None:
        """Send what is true."""

    def go_on(self, now_ms: int, until: float) -> None:
        """Carry out more, until that moment of the clock `elapsed`."""

    def abort(self) -> None:
        """End it now."""


class Turn:
    """Owes itself to the loop whenever something happened, and runs once for all of it."""

    def __init__(
        self,
        broker: Broker,
        loop: asyncio.AbstractEventLoop,
        dirty: list[JournalLog],
        removed: Callable[[Queue], None],
    ) -> None:
        self._broker = broker
        self._loop = loop
        self._dirty = dirty
        self._removed = removed
        self._touched: list[Conversation] = []
        self._owed = False
        self._is_over = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms: int | None = None
        self._wall_checked_ms = 0
        self._later = LaterSyncs(loop, self._sync_later)
        self._resting: dict[JournalLog, asyncio.TimerHandle] = {}
        self.gathering = Gathering()
        self.committer: Committer | None = None
        self.background: Background | None = None
        self.shortage = Shortage(loop)
        self.files = OpenJournals(loop, self.shortage, self._sync_now, self.finish_preallocation)
        self.schedules: Schedules | None = None
        self._starving: OrderedDict[Reader, None] = OrderedDict()  # to be read back for
        self.shares = Shares(clock.elapsed)
        self._woken: deque[Waiter] = deque()  # to be told

    def touch(self, conversation: Conversation) -> None:
        """This connection may have something to say."""
        if not conversation.is_touched:
            conversation.is_touched = True
            self._touched.append(conversation)
        if not self._owed:
            self.owe()

    def stop(self) -> None:
        """No more turns: the journals are being closed by somebody else."""
        self._is_over = True

    def owe(self) -> None:
        """Run in this turn of the loop, after what is ready now."""
        if not self._owed and not self._is_over:
            self._owed = True
            self._loop.call_soon(self._run)

    # -- the turn ---------------------------------------------------------------------------

    def _run(self) -> None:
        self._owed = False
        if self._is_over:
            return
        now_ms = clock.now_ms()
        broker = self._broker
        if now_ms - self._wall_checked_ms >= WALL_CHECK_MS:
            self._check_wall(now_ms)
        due = broker.next_due()
        if due is not None and due <= now_ms:
            broker.tick(now_ms)
        if self.schedules is not None:
            self.schedules.look(now_ms)
        if broker.woken or self._woken:
            self._resume_woken(now_ms)
        if broker.moves.is_active:
            self._move(now_ms)
        if broker.deleted:
            self._sweep_deleted()
        if self._dirty:
            self._commit_dirty(now_ms)
        if broker.hungry or self._starving:
            self._feed_hungry()
        dirty = len(self._dirty)
        self._speak(now_ms)
        self._sync_awaited()
        syncs = self.committer.in_flight if self.committer is not None else 0
        self.gathering.end_turn(now_ms, bool(self.shares), syncs)
        if self.shares:
            self._share_out(now_ms)
        if len(self._dirty) > dirty or broker.woken or self._woken or broker.deleted:
            self.owe()  # what went on has changed something
        self.shares.renew()
        self._arm(now_ms)

    def _resume_woken(self, now_ms: int) -> None:
        """Say how waits have ended: of many, of large items, some in each turn."""
        woken, until = self._woken, clock.elapsed() + DIRECT_SECONDS
        woken += self._broker.take_woken()
        while woken:
            waiter = woken.popleft()
            conversation = waiter.conversation
            assert isinstance(conversation, Conversation)
            conversation.resume(waiter, now_ms)
            self.touch(conversation)
            if clock.elapsed() >= until:
                break

    def _move(self, now_ms: int) -> None:
        """Moves go on as far as they can."""
        moves = self._broker.moves
        moves.advance(now_ms)
        for order in moves.take_over():
            assert isinstance(order.owner, Conversation)
            self.touch(order.owner)
        for line in moves.refusals:
            log.warning("%s", line)
        moves.refusals.clear()
        for queue in moves.passages.take_quiet():
            target = queue.log
            if isinstance(target, JournalLog):
                self._later.put_off(target)
        if moves.has_more:
            self.owe()

    def _sweep_deleted(self) -> None:
        deleted, self._broker.deleted[:] = self._broker.deleted[:], []
        for queue in deleted:
            self._removed(queue)

    def _feed_hungry(self) -> None:
        """Have read back what is needed next; what is not written yet is asked for again."""
        assert self.background is not None
        starving, again, fed = self._starving, [], 0
        for reader in self._broker.take_hungry():
            starving[reader] = None
            if reader.waiters:  # a client waits: that comes first
                starving.move_to_end(reader, last=False)
        while starving and fed < FEEDS_MAX:
            reader, _ = starving.popitem(last=False)
            if self.background.feed(reader):
                fed += 1
            else:
                again.append(reader)
        if starving:
            self.owe()
        starving.update(dict.fromkeys(again))

    def _commit_dirty(self, now_ms: int) -> None:
        """Write every journal with something pending, once no more is coming in this breath."""
        quiet = self.gathering.is_over(now_ms)
        wall_ms = now_ms + self._broker.wall.offset_ms
        dirty = self._dirty[:]
        self._dirty.clear()
        self.files.begin_turn()
        for target in dirty:
            if self.files.is_waiting(target):
                target.cleaned()  # it is marked again when it is tried again
                continue
            # What is pending behind a sync that is under way is written when it is over, all at
            # once, unless somebody waits for the write alone.
            may_write = quiet and not target.journal.commit.lsn_in_flight
            is_now = may_write or target.waiting_written
            if is_now and self.files.has_room_for(target, wall_ms):
                target.cleaned()
                self._write(target, wall_ms)
                if quiet or not target.waiting_stored:
                    self._sync(target)
                else:
                    target.mark()
            else:
                self._dirty.append(target)
        if not quiet and self._dirty:
            self.owe()

    def _write(self, target: JournalLog, wall_ms: int) -> None:
        """Write what is pending and wake whoever waited for that."""
        journal = target.journal
        committer = self.committer
        assert committer is not None
        try:
            journal.write(wall_ms)
        except Exception as error:  # a mistake of ours: this queue stops, the others do not
            log.exception("writing the journal of %s", journal.folder)
            journal.commit.fail(JournalFailed(f"{journal.folder}: {error!r}"))
        target.advance()
        self.files.wrote(target, wall_ms)
        if journal.wants_preallocation:
            committer.prepare_spare(target, wall_ms)
        if target.store.maintenance.wants_snapshot and self.background is not None:
            self.background.snapshot(target, wall_ms)
            committer.sync(target)
        if journal.can_write:
            target.mark()
            self.owe()
        if target.waiting_written or target.sync_ms != 0 or target.failure is not None:
            self._touch_waiting(target)
        self._report_failure(target)

    def _report_failure(self, target: JournalLog) -> None:
        if target.failure is not None and not target.is_reported:
            target.is_reported = True
            if self.background is not None:
                self.background.let_go(target)
            log.critical("%s; this queue acknowledges nothing until a restart", target.failure)

    def _sync(self, target: JournalLog) -> None:
        """Start a sync now if somebody waits for it, else soon."""
        assert self.committer is not None
        sync_ms = target.sync_ms
        is_awaited = target.awaited_lsn > target.journal.commit.lsn_durable
        if is_awaited or (sync_ms == 0 and target.waiting_stored):
            self.committer.sync(target)
        elif sync_ms >= 0:
            self._later.put_off(target)

    def _sync_awaited(self) -> None:
        """Sync soon what connections wait for that were told of the sync before: with what those
        send next that were answered, or at once while others keep the loop busy."""
        for target in self._later.take_awaited():
            if self.shares:
                self._sync(target)
            else:
                self._later.hasten(target)

    def _sync_now(self, target: JournalLog) -> None:
        if target.journal.has_pending:
            target.mark()
            self.owe()
        elif self.committer is not None:
            self.committer.sync(target)

    def _sync_later(self, target: JournalLog) -> None:
        if self.committer is None or self._is_over:
            return
        if target.journal.has_pending:  # nobody waited for that, and it went with nothing else
            target.wait_durable(target.lsn_appended)
            self.owe()
        else:
            self.committer.sync(target)  # if one is in flight, its end sees that there is more

    def _touch_waiting(self, target: JournalLog) -> None:
        """Whoever a write may have answered; and whoever waits for more, when more is stored."""
        written, target.waiting_written = target.waiting_written, set()
        self.touch_all(written)
        if target.lsn_stored > target.lsn_told or target.failure is not None:
            target.lsn_told = target.lsn_stored
            stored, target.waiting_stored = target.waiting_stored, set()
            self.touch_all(stored)

    def _speak(self, now_ms: int) -> None:
        """Each connection sends all that is true with one write."""
        self.shares.renew()
        touched = self._touched
        self._touched = []
        for conversation in touched:
            conversation.is_touched = False
            connection = cast(Speaker, conversation.shell)
            try:
                connection.speak(now_ms)
            except Exception:  # a mistake of ours: this connection ends, the others do not
                log.exception("speaking to %s", conversation.holder.name)
                connection.abort()

    def _share_out(self, now_ms: int) -> None:
        """Go on with connections that have more to do than their share, as far as a turn allows."""
        for sharer, until in self.shares.take(now_ms, self.gathering.is_hurried):
            connection = cast(Speaker, sharer)
            try:
                connection.go_on(now_ms, until)
            except Exception:  # a mistake of ours: this connection ends, the others do not
                log.exception("carrying out more")
                connection.abort()
        if self.shares:
            self.owe()

    # -- what comes back --------------------------------------------------------------------

    def synced(self, target: JournalLog) -> None:
        """A sync has finished: more is true, and what was appended meanwhile is next."""
        target.advance()
        self._touch_waiting(target)
        self._report_failure(target)
        if self.background is not None:
            self.background.settle(target)
        self.settled(target)
        commit = target.journal.commit
        if target.waiting_stored:
            target.mark()
        elif commit.lsn_written > commit.lsn_durable and commit.failure is None:
            self._sync(target)
        elif target not in self._resting:
            self._resting[target] = self._loop.call_later(REST_SECONDS, self._rest, target)
        self.owe()

    def _rest(self, target: JournalLog) -> None:
        del self._resting[target]
        if self._is_over:
            return
        if target.journal.is_resting:
            target.journal.rest(clock.now_ms() + self._broker.wall.offset_ms)
            self.files.rested(target)

    def settled(self, target: JournalLog) -> None:
        """Segments may be superfluous now."""
        dead = target.take_dead(clock.now_ms() + self._broker.wall.offset_ms)
        if dead and self.committer is not None:
            self.committer.remove(target, dead)
        if self._dirty:
            self.owe()  # something was said again, so that more may go

    def read_back(self, reader: Reader) -> None:
        """What was ordered for this reader is there, or will never be."""
        now_ms = clock.now_ms()
        reader.line.refill(now_ms + self._broker.wall.offset_ms)
        if reader.waiters:
            reader.serve(now_ms)
        self.owe()

    def observed(self, talk: Talk) -> None:
        """What its observer asked for has been read."""
        assert isinstance(talk, Conversation)
        self.touch(talk)

    def finish_preallocation(self, target: JournalLog) -> None:
        """There is a segment to go on in, or one that may be opened again."""
        target.mark()
        self.owe()

    def touch_all(self, conversations: set[object]) -> None:
        """What these waited for may have come."""
        for conversation in conversations:
            assert isinstance(conversation, Conversation)
            self.touch(conversation)

    # -- time -------------------------------------------------------------------------------

    def _check_wall(self, now_ms: int) -> None:
        self._wall_checked_ms = now_ms
        offset_ms = clock.wall_offset_ms()
        if abs(offset_ms - self._broker.wall.offset_ms) >= clock.WALL_STEP_MS:
            self._broker.step_wall(offset_ms)

    def _arm(self, now_ms: int) -> None:
        """One timer for everything that comes due."""
        due = self._broker.next_due()
        if self.schedules is not None:
            due = sooner(due, self.schedules.next_due())
        if due == self._timer_ms:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timer_ms = due
        if due is not None:
            # Dates are checked against the wall at least once a second.
            wait_ms = min(max(due - now_ms, 0), WALL_CHECK_MS)
            self._timer = self._loop.call_later(wait_ms / 1000, self._ring)

    def _ring(self) -> None:
        self._timer = None
        self._timer_ms = None
        self.owe()
