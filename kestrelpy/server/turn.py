"""The turn: once per turn of the loop, commit the pending records and send the true replies.

    due work -> ended waits -> write every dirty journal -> start its sync -> send true replies
             -> go on with connections that used up their share

Requests that come together share a write and a sync: while the sockets have more, the commit is
delayed for a few turns, three milliseconds at most.

One rule: no reply leaves before the journal it rests on has been written.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Callable, Collection
from typing import Final, Protocol, cast

from journal.errors import JournalFailed
from kestrelpy.core import Broker, JournalLog, Queue, Subscription, Waiter
from kestrelpy.operations import Caller, put_mode_in_force
from kestrelpy.protocol import Conversation
from kestrelpy.server import clock
from kestrelpy.server.commit_delay import CommitDelay
from kestrelpy.server.journals import (
    Committer,
    Gathering,
    JournalJobs,
    LaterSyncs,
    OpenJournals,
    Shortage,
)
from kestrelpy.server.schedules import Schedules, sooner
from kestrelpy.server.shares import DIRECT_SECONDS, Sharer, Shares

log = logging.getLogger("kestrelpy.turn")

# The clock offset is checked this often, and at every timer.
OFFSET_CHECK_MS: Final = 1000
# Subscriptions that one turn schedules reads for; the next one goes on with the others.
READS_MAX: Final = 16
# One turn writes journals for this long, and the next one goes on: with a thousand of them, syncs
# begin while others are still written, and other requests are answered meanwhile.
WRITE_SECONDS: Final = 0.003
# One turn lets this many callers send: each takes some 20 µs, nearly all of that in the kernel. The
# others are late: the next turns let them send, after the callers that come then.
ANSWERS_MAX: Final = 256
# Each turn lets this many late callers send in any case, however many others come.
LATE_MIN: Final = 64
# A request over HTTP has a task of its own: it takes the time of this many other answers.
CALL_ANSWERS: Final = 8
# A turn that has sent this much lets the other callers wait for the next turn.
ANSWER_BYTES_MAX: Final = 8 << 20
# A journal without work for this long records that it is synced, and closes its files.
REST_SECONDS: Final = 1.0
# In a fleet replies are held until the data is known to be ours: this long until the next look.
HELD_SECONDS: Final = 0.01
_DISPLACED: Final = (
    "the file or its folder was removed, renamed, replaced or cut short under the server"
)


class TurnSharer(Sharer, Protocol):
    """A connection with more than its share, as the turn sees it."""

    def go_on(self, now_ms: int, until: float) -> None:
        """Execute more requests, until this moment of the clock `elapsed`."""

    def abort(self) -> None:
        """Close it at once."""


class Turn:
    """Schedules itself on the loop after an event, and runs once for all events."""

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
        self._touched: list[Caller] = []
        self._late: deque[Caller] = deque()  # touched as well, but they come after the others
        self._is_scheduled = False
        self._is_over = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms: int | None = None
        self._now_ms = 0  # 0: to be read
        self._offset_checked_ms = 0
        self._later = LaterSyncs(loop, self._sync_later)
        self._gathering = Gathering(loop, self._gathered)
        self._resting: dict[JournalLog, asyncio.TimerHandle] = {}
        self.commit_delay = CommitDelay()
        self.committer: Committer | None = None
        self.journal_jobs: JournalJobs | None = None
        self.shortage = Shortage(loop)
        self.files = OpenJournals(loop, self.shortage, self._sync_now, self.segment_ready)
        self.schedules: Schedules | None = None
        self._deferred_reads: OrderedDict[Subscription, None] = OrderedDict()  # for later turns
        self.shares = Shares(clock.elapsed)
        # Asked before each caller's replies; None: no other process can own the data.
        self.may_answer: Callable[[], bool] | None = None
        self.send_mail: Callable[[], None] | None = None  # to other slices
        self.is_refusing = False  # True while refusals alone are sent
        self._to_resume: deque[Waiter] = deque()  # ended waits that are not answered yet

    def now_ms(self) -> int:
        """Return the time, the same until the next turn begins: to read the clock costs a tenth of
        a set."""
        if not self._now_ms:
            self._now_ms = clock.now_ms()
        return self._now_ms

    def unix_ms(self) -> int:
        """Return the time by the wall clock that dates are compared with."""
        return clock.now_ms() + self._broker.clock.offset_ms

    def touch(self, caller: Caller) -> None:
        """Let this caller go on in the next turn: more may be true for it."""
        # Nearly all callers are conversations, and mypyc needs no look-up in a class that it knows.
        if isinstance(caller, Conversation):
            if not caller.is_touched:
                caller.is_touched = True
                self._touched.append(caller)
        elif not caller.is_touched:
            caller.is_touched = True
            self._touched.append(caller)
        if not self._is_scheduled:
            self.schedule()

    def stop(self) -> None:
        """Run no more turns: the journals are being closed."""
        self._is_over = True

    def schedule(self) -> None:
        """Run in this turn of the loop, after what is ready now."""
        if not self._is_scheduled and not self._is_over:
            self._is_scheduled = True
            self._loop.call_soon(self._run)

    # -- the turn ---------------------------------------------------------------------------

    def _run(self) -> None:
        self._is_scheduled = False
        if self._is_over:
            return
        self._now_ms = 0
        now_ms = clock.now_ms()
        broker = self._broker
        if now_ms - self._offset_checked_ms >= OFFSET_CHECK_MS:
            self._check_clock_offset(now_ms)
        due = broker.next_due()
        if due is not None and due <= now_ms:
            broker.tick(now_ms)
        if self.schedules is not None:
            self.schedules.look(now_ms)
        if broker.to_resume or self._to_resume:
            self._end_waits(now_ms)
        if broker.moves.is_active:
            self._move(now_ms)
        if broker.deleted:
            self._sweep_deleted()
        if self._dirty:
            self._commit_dirty(now_ms)
            self._start_syncs()
        if broker.to_read or self._deferred_reads:
            self._schedule_reads()
        dirty = len(self._dirty)
        if self.may_answer is None or self.may_answer():
            self._flush_output(now_ms)
        else:
            self._flush_refused(now_ms)
        self._gathering.note_answered()
        self._sync_awaited()
        self._start_syncs()
        syncs = self.committer.in_flight if self.committer is not None else 0
        self.commit_delay.end_turn(now_ms, bool(self.shares), syncs)
        if self.shares:
            self._share_out(now_ms)
        if len(self._dirty) > dirty or broker.to_resume or self._to_resume or broker.deleted:
            self.schedule()  # there is something new to commit or to send
        self.shares.renew()
        self._arm(now_ms)

    def _end_waits(self, now_ms: int) -> None:
        """Answer ended waits; if they are many, or their items large, only some in each turn."""
        waiters, until = self._to_resume, clock.elapsed() + DIRECT_SECONDS
        waiters += self._broker.take_to_resume()
        while waiters:
            waiter = waiters.popleft()
            caller = cast(Caller, waiter.caller)
            caller.resume(waiter, now_ms)
            self.touch(caller)
            if clock.elapsed() >= until:
                break

    def _move(self, now_ms: int) -> None:
        """Advance the transfers."""
        moves = self._broker.moves
        moves.advance(now_ms)
        for request in moves.take_over():
            self.touch(cast(Caller, request.owner))
        for line in moves.refusals:
            log.warning("%s", line)
        moves.refusals.clear()
        for queue in moves.in_flight.take_unawaited():
            target = queue.log
            if isinstance(target, JournalLog):
                self._later.put_off(target)
        if self.send_mail is not None:
            self.send_mail()
        if moves.has_more:
            self.schedule()

    def _sweep_deleted(self) -> None:
        deleted, self._broker.deleted[:] = self._broker.deleted[:], []
        for queue in deleted:
            self.touch_all(queue.log.end_waiting_room())
            self._removed(queue)

    def _schedule_reads(self) -> None:
        """Schedule the next reads; a read of items that are not written yet is deferred."""
        assert self.journal_jobs is not None
        deferred, again, scheduled = self._deferred_reads, [], 0
        for reader in self._broker.take_to_read():
            deferred[reader] = None
            if reader.waiters:  # a client waits: that comes first
                deferred.move_to_end(reader, last=False)
        while deferred and scheduled < READS_MAX:
            reader, _ = deferred.popitem(last=False)
            if self.journal_jobs.schedule_read(reader):
                scheduled += 1
            else:
                again.append(reader)
        if deferred:
            self.schedule()
        deferred.update(dict.fromkeys(again))

    def _commit_dirty(self, now_ms: int) -> None:
        """Write every journal with pending records, once the batch is complete."""
        is_over = self.commit_delay.is_over(now_ms)
        unix_ms = now_ms + self._broker.clock.offset_ms
        dirty = self._dirty[:]
        self._dirty.clear()
        self.files.begin_turn()
        until = clock.elapsed() + WRITE_SECONDS
        for number, target in enumerate(dirty):
            if number and clock.elapsed() >= until:
                self._dirty[:0] = dirty[number:]
                self.schedule()
                break
            if self.files.is_waiting(target):
                target.cleaned()  # it is marked again when it is tried again
                continue
            # Records pending during a sync are written when it is over, all at once, unless a
            # connection waits for the write alone, or for room, which is counted by the write.
            is_whole = is_over and not self._gathering.holds(target)
            may_write = is_whole and not target.journal.commit.lsn_in_flight
            is_now = may_write or target.waiting_written or target.wants_room
            if is_now and self.files.has_room_for(target, unix_ms):
                target.cleaned()
                self._write(target, unix_ms)
                if is_whole or not target.waiting_stored:
                    self._sync(target)
                else:
                    target.mark()
            else:
                self._dirty.append(target)
        if not is_over and self._dirty:
            self.schedule()

    def _write(self, target: JournalLog, unix_ms: int) -> None:
        """Write the pending records and wake the connections that wait for the write."""
        journal = target.journal
        committer = self.committer
        assert committer is not None
        before, wants_room = journal.commit.lsn_written, target.wants_room
        try:
            journal.write(unix_ms)
        except Exception as error:  # a bug: this queue stops, the others do not
            log.exception("writing the journal of %s", journal.folder)
            journal.commit.fail(JournalFailed(f"{journal.folder}: {error!r}"))
        if (written := journal.commit.lsn_written - before) > 0:
            self._broker.counters.batch_records.add(written)
        target.advance()
        self.files.wrote(target, unix_ms)
        if journal.wants_preallocation:
            committer.preallocate(target, unix_ms)
        if target.store.maintenance.wants_snapshot and self.journal_jobs is not None:
            self.journal_jobs.snapshot(target, unix_ms)
            target.wait_durable(target.lsn_written)  # the snapshot waits for it
            committer.sync(target)
        if journal.can_write:
            target.mark()
            self.schedule()
        if wants_room:
            self.touch_all(target.take_waiting_room())
            if not target.wants_room:
                self.schedule()  # a move may have waited for it
        is_true = target.waiting_written and target.is_local
        if is_true or target.sync_ms != 0 or target.failure is not None:
            self._touch_waiting(target)
        self._report_failure(target)

    def _report_failure(self, target: JournalLog) -> None:
        if target.failure is not None and not target.is_reported:
            target.is_reported = True
            self.touch_all(target.take_waiting_room())
            if self.journal_jobs is not None:
                self.journal_jobs.let_go(target)
            log.critical("%s; this queue acknowledges nothing until a restart", target.failure)

    def lose(self, target: JournalLog, path: str) -> None:
        """Let a journal fail: the file of this path, to which it writes, is not there any more."""
        if target.failure is None and not target.is_ending:
            target.fail(JournalFailed(f"{path}: {_DISPLACED}"))
            self._touch_waiting(target)
            self._report_failure(target)

    def lose_all(self, why: str) -> None:
        """Let every queue fail: the data directory is not there any more."""
        failure = JournalFailed(f"{why}; nothing is stored or handed out until a restart")
        self._broker.fail(failure)
        log.critical("%s", failure)
        for queue in self._broker.logged:
            target = queue.log
            if isinstance(target, JournalLog):
                target.is_reported = True
                if self.journal_jobs is not None:
                    self.journal_jobs.let_go(target)
                self.touch_all(target.end_waiting_room())
                self._touch_waiting(target)
        self.schedule()

    def _sync(self, target: JournalLog) -> None:
        """Start a sync now if a connection waits for it, otherwise defer it."""
        assert self.committer is not None
        sync_ms = target.sync_ms
        is_awaited = target.awaited_lsn > target.journal.commit.lsn_durable
        if is_awaited or target.awaits_sync:
            self.committer.sync(target)
        elif sync_ms >= 0:
            self._later.put_off(target)

    def _sync_awaited(self) -> None:
        """Sync soon for connections that the previous sync answered: together with their next
        requests, or at once while other connections keep the loop busy."""
        for target in self._later.take_awaited():
            if self.shares:
                self._sync(target)
            else:
                self._later.hasten(target)

    def _start_syncs(self) -> None:
        if self.committer is not None:
            self.committer.start()

    def _sync_now(self, target: JournalLog) -> None:
        if target.journal.has_pending:
            target.mark()
            self.schedule()
        elif self.committer is not None:
            self.committer.sync(target)

    def _sync_later(self, target: JournalLog) -> None:
        if self.committer is None or self._is_over:
            return
        if target.journal.has_pending:  # no connection waited for it
            target.wait_durable(target.lsn_appended)
            self.schedule()
        else:
            self.committer.sync(target)  # if one is in flight, its end sees that there is more
            self.schedule()

    def _gathered(self, target: JournalLog) -> None:
        if target.journal.has_pending:
            target.mark()
            self.schedule()

    def _touch_waiting(self, target: JournalLog) -> None:
        """Wake the connections that wait for a write, and, if more is stored now, those that wait
        for a stored record."""
        written, target.waiting_written = target.waiting_written, set()
        self.touch_all(written)
        if target.lsn_stored > target.lsn_notified or target.failure is not None:
            target.lsn_notified = target.lsn_stored
            stored, target.waiting_stored = target.waiting_stored, set()
            self.touch_all(stored)

    def _flush_refused(self, now_ms: int) -> None:
        """Hold the replies until the data is known to be ours; refusals alone are sent."""
        owing, free = list[Caller](), list[Caller]()
        for caller in (*self._touched, *self._late):
            is_held = isinstance(caller, Conversation) and (caller.owes or not caller.host.closed)
            (owing if is_held else free).append(caller)
        self._touched = free
        self._late.clear()
        self.is_refusing = True
        self._flush_output(now_ms)
        self.is_refusing = False
        self._touched += owing
        self._loop.call_later(HELD_SECONDS, self.schedule)

    def _flush_output(self, now_ms: int) -> None:
        """Let callers send the replies that have become true; a connection does so with one write.

        One sync may answer thousands of them. So each turn lets some send: first those that were
        touched since the last turn, then some of those that are late, in their order.
        """
        self.shares.renew()
        touched, self._touched = self._touched, []
        rest = self._flush(touched, ANSWERS_MAX, now_ms)
        if rest is None or not (rest or self._late):
            return
        late, most = self._late, max(ANSWERS_MAX - len(touched), LATE_MIN)
        some = [late.popleft() for _ in range(min(most, len(late)))]
        late += rest
        late.extendleft(reversed(self._flush(some, most, now_ms) or ()))
        if late:
            self.schedule()

    def _flush(self, callers: list[Caller], most: int, now_ms: int) -> list[Caller] | None:
        """Let some of these callers send; return the others.

        Return None if this process was stopped on the way: the others are touched again, and wait
        until the data is known to be ours.
        """
        may_answer = None if self.is_refusing else self.may_answer
        counters = self._broker.counters
        until_bytes = counters.bytes_written + ANSWER_BYTES_MAX
        for at, caller in enumerate(callers):
            if most <= 0 or counters.bytes_written >= until_bytes:
                return callers[at:]
            if may_answer is not None and not may_answer():
                self._touched += callers[at:]
                self.schedule()
                return None
            try:
                if isinstance(caller, Conversation):  # as in `touch`
                    most -= 1
                    caller.is_touched = False
                    caller.flush(now_ms)
                else:
                    most -= CALL_ANSWERS
                    caller.is_touched = False
                    caller.flush(now_ms)
            except Exception:  # a bug: this caller ends, the others do not
                log.exception("sending replies to %s", caller.holder.name)
                caller.abort()
        return []

    def _share_out(self, now_ms: int) -> None:
        """Go on with connections that have more than their share, within the limits of a turn."""
        for sharer, until in self.shares.take(now_ms, self.commit_delay.is_hurried):
            connection = cast(TurnSharer, sharer)
            try:
                connection.go_on(now_ms, until)
            except Exception:  # a bug: this connection ends, the others do not
                log.exception("executing more")
                connection.abort()
        if self.shares:
            self.schedule()

    # -- results ----------------------------------------------------------------------------

    def synced(self, target: JournalLog, took_s: float) -> None:
        """Note that a sync has finished after `took_s`: more is true, and the records appended
        meanwhile are next."""
        durable = target.lsn_durable
        target.advance()
        if target.sync_ms == 0 and target.waiting_stored:
            self._gathering.begin(target, target.lsn_durable - durable, took_s)
        self._touch_waiting(target)
        self._report_failure(target)
        if self.journal_jobs is not None:
            self.journal_jobs.log_advanced(target)
        self.retire_segments(target)
        commit = target.journal.commit
        if target.waiting_stored:
            target.mark()
        elif commit.lsn_written > commit.lsn_durable and commit.failure is None:
            self._sync(target)
        elif target not in self._resting:
            self._resting[target] = self._loop.call_later(REST_SECONDS, self._rest, target)
        self.schedule()

    def _rest(self, target: JournalLog) -> None:
        del self._resting[target]
        if self._is_over:
            return
        if target.journal.is_resting:
            target.journal.rest(self.unix_ms())
            self.files.rested(target)
        if self.journal_jobs is not None and not target.is_reported:
            self.journal_jobs.idle.watch(target)

    def retire_segments(self, target: JournalLog) -> None:
        """Remove the segments without live records."""
        dead = target.take_dead(self.unix_ms())
        if dead and self.committer is not None:
            self.committer.remove(target, dead)
        if self._dirty:
            self.schedule()  # a record was written again, so that more may go

    def read_back(self, reader: Subscription) -> None:
        """Go on after a read of this subscription."""
        now_ms = clock.now_ms()
        reader.ready_items.refill(now_ms + self._broker.clock.offset_ms)
        if reader.waiters:
            reader.serve(now_ms)
        self.schedule()

    def browse_read(self, caller: Caller) -> None:
        """Go on after a read of this caller."""
        self.touch(caller)

    def segment_ready(self, target: JournalLog) -> None:
        """Go on: there is a segment to write to, or one that may be opened again."""
        if self.journal_jobs is not None and not target.is_reported:
            self.journal_jobs.idle.watch(target)
        target.mark()
        self.schedule()

    def touch_all(self, callers: Collection[object]) -> None:
        """Let these callers go on in the next turn. If there are very many, they go on over several
        turns, so that other callers do not wait for all of their replies."""
        if len(callers) <= ANSWERS_MAX:
            for caller in callers:
                self.touch(cast(Caller, caller))
            return
        for each in callers:
            caller = cast(Caller, each)
            if not caller.is_touched:
                caller.is_touched = True
                self._late.append(caller)
        self.schedule()

    def put_in_force(self, mode: str) -> None:
        """End the waits for items and transfers that the server does not serve in this mode."""
        put_mode_in_force(self._broker, mode)
        self.schedule()

    # -- time -------------------------------------------------------------------------------

    def _check_clock_offset(self, now_ms: int) -> None:
        self._offset_checked_ms = now_ms
        offset_ms = clock.wall_clock_offset_ms()
        if abs(offset_ms - self._broker.clock.offset_ms) >= clock.OFFSET_STEP_MS:
            self._broker.step_clock(offset_ms)

    def _arm(self, now_ms: int) -> None:
        """Set one timer for everything that is due."""
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
            # Dates are checked against the wall clock at least once a second.
            wait_ms = min(max(due - now_ms, 0), OFFSET_CHECK_MS)
            self._timer = self._loop.call_later(wait_ms / 1000, self._ring)

    def _ring(self) -> None:
        self._timer = None
        self._timer_ms = None
        self.schedule()
