"""One HTTP request within the turns of the server: it acts, then waits until its answer is true.

    handler ──▶ acts on the core ──▶ `until`: the turn writes and syncs ──▶ the answer leaves
                      │
                      ├── `wait`: the next item, or the time is over
                      └── `run`: long work in slices, reads on a thread

One rule: a handler answers only after `until` returned. The end of the client is an exception at
each wait (`Gone`), so that a handler can give back leases that no client received.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from typing import Any, Final, TypeVar

from kestrelpy.access import Grant
from kestrelpy.core import (
    DEFERRED,
    Holder,
    Log,
    Subscription,
    TransferRequest,
    Waiter,
    Want,
)
from kestrelpy.errors import NoRoomYet, ServerError
from kestrelpy.http.answers import HttpError
from kestrelpy.http.memory import UNBOUNDED, Share
from kestrelpy.http.ports import HttpHost
from kestrelpy.operations import Rests, Work

_T = TypeVar("_T")
_NO_MARKER: Final = 1 << 63  # no marker comes after it


class Gone(Exception):
    """The client has hung up: it does not receive the answer."""


class Call:
    """One request. It is the caller that the turn wakes."""

    __slots__ = (
        "_future", "_is_admitted", "_is_reading", "_is_revoked", "_rests", "_task",
        "_waiter", "_waiting_room", "broker", "grant", "has_begun", "holder", "host", "is_gone",
        "is_head", "is_hurried", "is_leaving", "is_touched", "last_command_ms", "share", "user",
    )  # fmt: skip

    def __init__(self, host: HttpHost, peer: str, share: Share | None = None) -> None:
        """`share` is the memory of its connection; None: it is work of the server's own."""
        self.share = share or Share(UNBOUNDED)
        self.host = host
        self.broker = host.broker
        self.holder = Holder(peer)
        self.user: str | None = None  # None: no login is needed, or the path is open
        self.grant: Grant | None = None  # what the sender may do; None: as `user`
        self._is_admitted = False  # True if the sender's rights may be taken from it
        self._is_revoked = False
        self._task: asyncio.Task[Any] | None = None  # work for this client alone
        self.has_begun = False  # True if the head of the answer has left
        self.is_touched = False
        self.is_gone = False
        self.is_head = False  # True if no body is wanted: it waits for nothing
        self.is_leaving = False  # True if the server stops: no wait goes on
        self.is_hurried = False  # True if its router wants the answer now: it waits for nothing
        self.last_command_ms = host.now_ms()
        self._future: asyncio.Future[None] | None = None
        self._rests: Rests | None = None  # of a slice of work
        self._is_reading: Work | None = None
        self._waiter: Waiter | None = None
        self._waiting_room: dict[object, None] | None = None  # of a slice of work

    # -- the caller that the turn wakes -------------------------------------------------------

    def resume(self, waiter: Waiter, now_ms: int) -> None:
        """Take the result of a wait that is over; `flush` wakes the handler."""
        self.last_command_ms = now_ms

    def flush(self, now_ms: int) -> None:
        """Go on: more may be true."""
        self.last_command_ms = now_ms
        self._wake()

    def abort(self) -> None:
        """End at once, after a bug."""
        self.hang_up()

    def start_read(self, log: Log, work: Work) -> None:
        """Run a read of this log on a thread, and go on when it is over."""
        self._is_reading = work
        self.host.start_read(log, work, self)

    def await_stored(self, log: Log, lsn: int) -> None:
        """Go on when the log has stored this record, or has failed."""
        self._rests = Rests(log, lsn)

    def await_room(self, waiting: dict[object, None]) -> None:
        """Go on with a slice of work when a journal wakes those `waiting`."""
        self._waiting_room = waiting

    @property
    def who(self) -> str:
        """The user of the request, else the peer."""
        return self.user or self.holder.name

    @property
    def is_waiting(self) -> bool:
        """True if it waits for an item."""
        return self._waiter is not None

    @property
    def waiter(self) -> Waiter | None:
        """Its wait for an item; None: it does not wait."""
        return self._waiter

    # -- for handlers -----------------------------------------------------------------------

    def now_ms(self) -> int:
        """Return the time, for the next action."""
        self.last_command_ms = self.host.now_ms()
        return self.last_command_ms

    async def until(self, *all_rests: Rests) -> None:
        """Return when all of these records are written and stored; raise ServerError if a log
        failed, Gone."""
        for log, stored, written in all_rests:
            while log.lsn_stored < stored or log.lsn_written < written:
                if log.failure is not None:
                    raise ServerError(" ".join(str(log.failure).split()))
                is_sync = log.lsn_stored < stored
                waiting = log.waiting_stored if is_sync else log.waiting_written
                waiting.add(self)
                await self.next_flush()

    async def until_shown(self, *all_rests: Rests) -> None:
        """Return as `until` does, before something is shown or begun: raise HttpError 401 if the
        sender has lost its rights meanwhile."""
        await self.until(*all_rests)
        self.check()

    async def with_room(self, act: Callable[[], _T]) -> _T:
        """Return the result of `act`, executed again while its journal has no room yet."""
        while True:
            try:
                return act()
            except NoRoomYet as none_yet:
                await self.room_in(none_yet.waiting)
                self.now_ms()

    async def room_in(self, waiting: dict[object, None]) -> None:
        """Return when a journal wakes those `waiting`: it has room, or none. Raise Gone,
        HttpError."""
        waiting[self] = None
        try:
            while self in waiting:
                await self.next_flush()
                self.check()
        finally:
            waiting.pop(self, None)

    async def run(self, steps: Generator[bytes, None, _T]) -> _T:
        """Run long work to its end, other work in between; return its result."""
        while True:
            try:
                next(steps)
            except StopIteration as end:
                result: _T = end.value
                return result
            if (work := self._is_reading) is not None:
                while not work.is_over:
                    await self.next_flush()
                self._is_reading = None
                self.check()
            elif (waiting := self._waiting_room) is not None:
                self._waiting_room = None
                await self.room_in(waiting)
            elif (rests := self._rests) is not None:
                self._rests = None
                await self._tried(rests)
                self.check()
            else:
                self.host.turn.schedule()
                await asyncio.sleep(0)
                self._check()
                self.check()
            self.now_ms()

    async def wait(
        self, want: Want, name: bytes, due_ms: int, *, dead: bool = False, after: int = 0,
        lease_ms: int = 0, grace_ms: int | None = None,
    ) -> Waiter:  # fmt: skip
        """Wait until `due_ms` for an item, after earlier waiters; return the wait that is over.
        Raise Gone: an item that came is given back, and its attempt is not counted; raise
        ServerError if the server stops."""
        if self.is_head or self.is_hurried:
            due_ms = min(due_ms, self.host.now_ms())
        waiter = self.broker.wait(
            want, name, self.holder, dead, self, due_ms, after, lease_ms, grace_ms
        )
        self._waiter = waiter
        try:
            while not waiter.done:
                if self.is_leaving:  # "nothing came" would not be true
                    raise ServerError("the server stops: ask again later")
                await self.next_flush()
                self.check()
            self.check()
        except BaseException:
            if not waiter.done:
                self.broker.give_up(waiter)
            elif (lease := waiter.lease) is not None and lease in lease.holder.leases:
                assert isinstance(lease.owner, Subscription)
                lease.owner.nack(lease, self.now_ms(), DEFERRED)
            raise
        finally:
            self._waiter = None
        return waiter

    async def reserve(self, size: int) -> int:
        """Wait for room for an answer of this size; return what the connection held before, for
        `shrink`. Raise ServerError, Gone."""
        before = self.share.held
        try:
            if not await self.share.reserve(size):
                raise ServerError("too many long answers at this moment: try again later")
            self._check()
        finally:
            if self.is_gone:
                self.share.shrink(0)
        return before

    async def until_over(self, request: TransferRequest) -> None:
        """Return when a transfer that this call owns is over. Raise Gone: it goes on."""
        while not request.is_over:
            await self.next_flush()
            self.check()

    async def pause(self, name: bytes, due_ms: int) -> None:
        """Go on at `due_ms`."""
        await self.wait(Want.OBSERVE, name, due_ms, after=_NO_MARKER)

    async def next_flush(self) -> None:
        """Wait for the next `flush`; the caller looks whether there is something new. Raise
        Gone."""
        self._check()
        self.host.turn.schedule()
        future = self._future = asyncio.get_running_loop().create_future()
        try:
            await future
        finally:
            self._future = None
        self._check()

    async def unless_gone(self, work: Coroutine[object, object, _T]) -> _T:
        """Return the result of work that ends when the client hangs up. Raise Gone."""
        task: asyncio.Task[_T] = asyncio.get_running_loop().create_task(work)
        self._task = task
        try:
            return await task
        except asyncio.CancelledError:
            self._check()
            raise
        finally:
            self._task = None

    # -- rights -----------------------------------------------------------------------------

    def admit(self, grant: Grant | None, is_open: bool) -> None:
        """Note what the sender may do; None: no login is needed. `is_open`: this path never needs
        one."""
        self.grant, self._is_admitted = grant, not is_open
        self.user = grant.name if grant is not None else None

    def bar(self) -> bool:
        """Note whether a reload took the rights for the request; if so, return True, and its wait
        is not served any more."""
        logins = self.host.logins
        if self._is_admitted and logins.are_needed:
            self._is_revoked = self.grant is None or not logins.is_current(self.grant)
            waiter = self._waiter
            if self._is_revoked and waiter is not None and waiter.line is not None:
                waiter.line.finish(waiter)
        return self._is_revoked

    def refuse(self) -> None:
        """Let a request that is barred answer so."""
        self._wake()

    def check(self) -> None:
        """Raise HttpError 401 if the sender has lost its rights: nothing more is handed out. What
        was done before is answered. Raise Gone in the middle of an answer."""
        if self._is_revoked:
            if self.has_begun:
                raise Gone
            raise HttpError(401, "this user may do that no more: the configuration has changed")

    # -- the end ----------------------------------------------------------------------------

    def hurry(self) -> None:
        """End a wait for an item, now or when it begins, as if its time were over: the router of
        this slice says so."""
        self.is_hurried = True
        if self._waiter is not None and not self._waiter.done:
            self.broker.give_up(self._waiter)
            self._wake()

    def hang_up(self) -> None:
        """The client is gone: every wait ends with Gone."""
        self.is_gone = True
        if self._task is not None:
            self._task.cancel()
        self._wake()

    def leave(self) -> None:
        """The server stops: no wait for items goes on, and what is under way is answered."""
        self.is_leaving = True
        self._wake()

    async def _tried(self, rests: Rests) -> None:
        log = rests.log
        while log.lsn_stored < rests.stored and log.failure is None:
            log.waiting_stored.add(self)
            await self.next_flush()

    def _check(self) -> None:
        if self.is_gone:
            raise Gone

    def _wake(self) -> None:
        if self._future is not None and not self._future.done():
            self._future.set_result(None)
