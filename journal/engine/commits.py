"""One commit after another for all files of a process; later groups go with the next one.

    add(ops) ──▶ [ waiting ] ──take──▶ [ in flight ] ──▶ committed up to ticket 41
       ticket 42                             │
                                             ├─ EngineAway: the same commit again, until it is known
                                             ├─ EngineFull: a beat, then these operations again
                                             └─ Fenced: every waiter gets the error, for good

A group of operations is in one commit; groups keep their order over all files, so that the engine
always holds a prefix of them.

One rule: a ticket counts as committed when the engine has said so, and never before.
"""

from __future__ import annotations

import errno
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final, TypeVar

from journal.engine.engine import (
    PIECE_BYTES,
    Claim,
    Engine,
    EngineAway,
    EngineFull,
    Fenced,
    Op,
    Write,
)

PAUSE_SECONDS: Final = 0.1  # between two attempts while the engine is away
T = TypeVar("T")
_Group = tuple[int, int, tuple[Op, ...]]  # its ticket, its bytes, its operations
Hear = Callable[[OSError | None], None]
_Hearer = tuple[int, Hear]  # the ticket that it waits for


class WaitingGroups:
    """Groups of operations that wait for a commit. Not for several threads at once."""

    __slots__ = ("_groups", "added", "bytes")

    def __init__(self) -> None:
        self._groups: deque[_Group] = deque()
        self.added = 0
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._groups)

    def add(self, ops: tuple[Op, ...]) -> int:
        """Add a group; return its ticket."""
        self.added += 1
        size = sum(len(op.data) for op in ops if isinstance(op, Write))
        self._groups.append((self.added, size, ops))
        self.bytes += size
        return self.added

    def take(self, bytes_max: int = PIECE_BYTES) -> tuple[int, list[Op]]:
        """Take the groups of the next commit, one at least; return the last ticket and all their
        operations."""
        taken: list[Op] = []
        ticket = size = 0
        while self._groups and (not taken or size + self._groups[0][1] <= bytes_max):
            ticket, group_bytes, ops = self._groups.popleft()
            size += group_bytes
            taken += ops
        self.bytes -= size
        return ticket, taken


class Commits:
    """The commits of one owner. Any thread may add and wait.

    With `beat_s` a thread commits, and beats if nothing was committed for that time. Without it the
    caller of `wait` commits, for tests without threads.
    """

    def __init__(
        self,
        engine: Engine,
        claim: Claim,
        beat_s: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], object] | None = None,
        claimed_s: float | None = None,
    ) -> None:
        """`claimed_s`: when the claim was asked for, by `clock`; None: now."""
        self._engine = engine
        self._claim = claim
        self._beat_s = beat_s
        self._clock = clock
        self._stop = threading.Event()
        self._pause = pause or self._stop.wait
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)  # a group was added, or the end has come
        self._over = threading.Condition(self._lock)  # a commit is over
        self._outbox = WaitingGroups()
        self._committed = 0
        self._asked = 0  # the groups up to this ticket have a waiter
        self._hearers: list[_Hearer] = []
        self._is_late = False  # the last commit took long: the next one is to say that we live
        self.failure: OSError | None = None
        self._ended: OSError | None = None  # this process ends: nothing more is committed
        self.trouble = ""  # why the engine does not commit now
        self.is_full = False  # it takes beats alone
        # When the last done commit was first sent, by this process's own clock. It may have been
        # done at that time, and then the other members count this owner's silence from there.
        self.sure_since_s = clock() if claimed_s is None else claimed_s
        self.commits = 0
        self._thread: threading.Thread | None = None
        if beat_s:
            self._thread = threading.Thread(target=self._run, name="kestrelpy-commit", daemon=True)
            self._thread.start()

    @property
    def claim(self) -> Claim:
        """The right to the next commit."""
        return self._claim

    @property
    def _end(self) -> OSError | None:
        """What has ended the commits; None: they go on."""
        return self.failure or self._ended

    @property
    def waiting_bytes(self) -> int:
        """How many bytes wait for a commit, without those in flight."""
        return self._outbox.bytes

    def add(self, *ops: Op) -> int:
        """Add a group; return the ticket that it has. Raises what has ended the commits."""
        with self._lock:
            if (end := self._end) is not None:
                raise _again(end)
            return self._outbox.add(ops)

    def is_committed(self, ticket: int) -> bool:
        """True if the engine has this group."""
        return ticket <= self._committed

    def wait(self, ticket: int) -> None:
        """Return when the engine has this group; raise what has ended the commits. Blocks."""
        if self._thread is None:
            while ticket > self._committed and self.failure is None:
                self._commit_next()
        with self._lock:
            self._ask_for(ticket)
            while ticket > self._committed and self._end is None:
                self._over.wait()
            if ticket > self._committed and (end := self._end) is not None:
                raise _again(end)

    def tell(self, ticket: int, hear: Hear) -> bool:
        """Have `hear` called soon, on any thread, when the engine has this group, or with the error
        that has ended the commits. False: there is no thread to call it."""
        with self._lock:
            if self._thread is None:
                return False
            if ticket > self._committed and self._end is None:
                self._hearers.append((ticket, hear))
                self._ask_for(ticket)
                return True
            failure = self._end if ticket > self._committed else None
        hear(_again(failure) if failure is not None else None)
        return True

    def _ask_for(self, ticket: int) -> None:
        """Have this group committed soon: groups without a waiter may gather."""
        if ticket > max(self._asked, self._committed):
            self._asked = ticket
            self._changed.notify()

    def patiently(self, call: Callable[[], T]) -> T:
        """Return what a read of the engine returns, when the engine is there again. Blocks; raises
        EngineAway when this process is about to end."""
        while True:
            try:
                return call()
            except EngineAway:
                if self._stop.is_set() or self.failure is not None:
                    raise
                self._pause(PAUSE_SECONDS)

    def beat(self) -> None:
        """Commit the waiting groups, or say that this process lives. Only without a thread."""
        self._commit_next()

    def close(self) -> None:
        """Commit the waiting groups, if the engine takes them at once, and end the thread. Later
        groups are refused. Blocks."""
        self._stop.set()
        with self._lock:
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()

    # -- on the thread ------------------------------------------------------------------------

    def _run(self) -> None:
        while self.failure is None:
            with self._lock:
                if not (self._asked > self._committed or self._stop.is_set() or self._is_late):
                    self._changed.wait(self._beat_s)
                if not self._outbox and self._stop.is_set():
                    self._ended = OSError(errno.ESHUTDOWN, "this process is ending")
                    return
            self._commit_next()

    def _commit_next(self) -> None:
        """Commit the next groups, or beat; return when that is settled."""
        with self._lock:
            ticket, ops = self._outbox.take()
        try:
            self._commit_ops(ops)
        except BaseException as error:  # whatever it was: nothing more is known to be committed
            failure = error if isinstance(error, OSError) else Fenced(
                self._claim.slice, self._claim.epoch, f"{type(error).__name__}: {error}"
            )  # fmt: skip
            with self._lock:
                self.failure = failure
                self._over.notify_all()
            self._tell_hearers()
            if not isinstance(error, OSError):
                raise
            return
        with self._lock:
            self._committed = max(self._committed, ticket)
            self.commits += 1
            self._over.notify_all()
        self._tell_hearers()

    def _tell_hearers(self) -> None:
        """Tell those whose group the engine has; after a failure all others as well."""
        with self._lock:
            upto, failure = self._committed, self.failure
            hearers, self._hearers = self._hearers, []
            if failure is None:
                self._hearers = [each for each in hearers if each[0] > upto]
        for ticket, hear in hearers:
            if ticket <= upto:
                hear(None)
            elif failure is not None:
                hear(_again(failure))

    def _commit_ops(self, ops: list[Op]) -> None:
        """Commit these; raise Fenced, or EngineAway when this process is about to end."""
        began = self._clock()
        while True:
            try:
                self._engine.commit(self._claim, ops)
            except EngineFull as error:
                self.trouble, self.is_full = error.strerror or str(error), True
                if self._stop.is_set():
                    raise
                self._beat_while_full()
                self._pause(self._beat_s or PAUSE_SECONDS)
                began = self._clock()
            except EngineAway as error:
                self.trouble = error.strerror or str(error)
                if self._stop.is_set():
                    raise
                self._pause(PAUSE_SECONDS)
            else:
                self._claim = self._claim.after()
                self.trouble, self.is_full = "", False
                self.sure_since_s = began
                self._is_late = self._clock() - began >= self._beat_s
                return


    def _beat_while_full(self) -> None:
        """Beat: else other members would claim the slice, and the engine has no room for them
        either. Return when it is known whether the beat was done: else its commit could be taken
        for the commit of the operations. Raise as `_commit_ops` does."""
        began = self._clock()
        while True:
            try:
                self._engine.commit(self._claim, ())
            except EngineFull:
                return
            except EngineAway:
                if self._stop.is_set():
                    raise
                self._pause(PAUSE_SECONDS)
            else:
                self._claim = self._claim.after()
                self.sure_since_s = began
                return


def _again(failure: OSError) -> OSError:
    """Return an error that says the same, for another waiter."""
    return OSError(failure.errno, failure.strerror, failure.filename)
