"""A worker in a for loop: reliable fetch on pymemcache, with the lease renewed while you work.

    for item in Worker("jobs"):
        handle(item.body)            the end of the body confirms the item
                                     an exception, `break` or `return` gives it back

    Worker("jobs").run(handle, bury=(ValueError,))
                                     goes on after exceptions: gives back, or makes dead letters

    fetch ──▶ leased ── next turn of the loop, item.confirm() ──▶ done, it never comes back
                ├────── item.abort(), exception, break ─────────▶ back, one attempt counted
                ├────── exception in run() ─────────────────────▶ back after `retry_delay`
                ├────── item.defer() ───────────────────────────▶ back, no attempt counted
                ├────── item.bury(reason) ──────────────────────▶ a dead letter
                └────── lease lost ─────────────────────────────▶ back: confirm() raises LeaseLost

Leases are by token: an item stays leased over a broken connection and a restart of the server, and
for the rest of its lease if its worker dies.

One rule: an item is confirmed with the token of its lease, which no other lease has. So every item
is handled at least once, and twice if its worker or the server dies at a bad moment.
"""

from __future__ import annotations

import contextlib
import logging
import random
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Final, Self

from pymemcache.exceptions import MemcacheClientError, MemcacheError, MemcacheServerError

from kestrelpy.client.connection import (
    ANSWER_SECONDS,
    CONNECT_SECONDS,
    DEFAULT_SERVER,
    PASSING,
    BlockingConnection,
    is_lease_over,
    is_refused,
    reason,
)
from kestrelpy.client.end_attempts import EndAttempts
from kestrelpy.client.item import INSISTENT, ItemState, LeaseLost, WorkerItem
from kestrelpy.client.renewal import Renewal
from kestrelpy.client.retry import (
    BACKOFF_SECONDS_MAX,
    BACKOFF_SECONDS_MIN,
    FAILURE_PAUSE_SECONDS_MAX,
    FAILURE_PAUSE_SECONDS_MIN,
    Backoff,
)
from kestrelpy.client.settings import (
    DEFAULT_LEASE,
    DEFAULT_RETRY_DELAY,
    DEFAULT_WAIT,
    Duration,
    parse_settings,
)
from kestrelpy.wire.answers import ReceivedItem
from kestrelpy.wire.dial import Access, Address, access_of

log = logging.getLogger("kestrelpy.client")

_NAP_SECONDS: Final = 0.1  # between two checks of the stop flag
_FULL: Final = "disk full"


class Worker:
    """Takes items from one queue, one at a time. A worker is for one thread.

    - `wait`: how long one fetch waits for an item.
    - `lease`: how long the server waits for a renewal before it gives the item to another worker.
      A thread renews the lease at half time while you work.
    - `work_limit`: after this long the lease of an item is not renewed any more:
      `item.should_stop` is true, and the item is deferred before its lease ends.

    - `retry_delay`: how long an item that failed waits before it is tried again: this long at
      first, doubling with each attempt up to a minute, ±10 %. 0: the queue's settings decide.
    - `max_attempts`: an item that failed this often is a dead letter. None: the queue's setting of
      that name decides alone.

    - `access`: user, password and TLS. None: those of the environment (`access_of`).

    All durations are texts like "30s" or numbers of seconds. After a break the worker connects and
    logs in again, with growing pauses.
    """

    def __init__(
        self, queue: str, server: Address = DEFAULT_SERVER, *,
        wait: Duration = DEFAULT_WAIT, lease: Duration = DEFAULT_LEASE,
        work_limit: Duration | None = None, retry_delay: Duration = DEFAULT_RETRY_DELAY,
        max_attempts: int | None = None, access: Access | None = None,
    ) -> None:  # fmt: skip
        """Connect to nothing yet. Raises ValueError with one sentence about a wrong setting."""
        access = access_of() if access is None else access
        settings = parse_settings(queue, wait, lease, work_limit, retry_delay, max_attempts)
        self.queue: Final = queue
        self._settings: Final = settings
        patience = settings.wait_ms / 1000 + ANSWER_SECONDS
        self._connection = BlockingConnection(server, patience, CONNECT_SECONDS, access)
        self._renewal = Renewal(
            queue, server, settings.lease_seconds, settings.limit_seconds, access
        )
        self._item: WorkerItem | None = None
        self._stopped = self._waiting = self._is_full = False

    def __iter__(self) -> Iterator[WorkerItem]:
        """Yield items until `stop`. Leaving the loop gives back the leased item."""
        pause = Backoff(BACKOFF_SECONDS_MIN, BACKOFF_SECONDS_MAX)
        try:
            while not self._stopped:
                try:
                    item = self.fetch()
                except PASSING as error:
                    log.warning("%s: %s; trying again", self.queue, reason(error))
                    self._sleep(pause.next_seconds())
                    continue
                pause.reset()
                if item is not None:
                    yield item
            leased = self._take_item()
            if leased is not None:
                self._confirm(leased)
        finally:
            self.close()

    def run(
        self, handle: Callable[[WorkerItem], object], *, bury: tuple[type[Exception], ...] = ()
    ) -> None:
        """Call `handle` with each item, until `stop`; an exception ends its item, not the worker.

        The item is confirmed when `handle` returns, unless `handle` ended it. An exception named in
        `bury` makes it a dead letter, with the exception's text as the reason; any other gives it
        back, to be tried again after `retry_delay`, or makes it a dead letter after `max_attempts`.
        Failures in a row make growing pauses, so that a worker that can handle nothing does not
        fail with every item of the queue at once.
        """
        pause = Backoff(FAILURE_PAUSE_SECONDS_MIN, FAILURE_PAUSE_SECONDS_MAX)
        for item in self:
            try:
                handle(item)
            except Exception as error:  # every exception ends only this item
                self._fail(item, error, isinstance(error, bury))
                self._sleep(pause.next_seconds())
            else:
                pause.reset()

    def fetch(self) -> WorkerItem | None:
        """Confirm the leased item, if there is one, and fetch the next, in one trip.

        Return None if no item came within `wait`. Raises OSError or pymemcache's MemcacheError if
        the server cannot be reached or refuses.
        """
        leased = self._take_item()
        # Confirm without a wait, so that the answer comes at once; only an empty queue costs a
        # second trip.
        opened_at = time.monotonic()
        found = self._confirm_and_open(leased) if leased is not None else None
        if found is None:
            found = self._wait_and_open()
            opened_at = time.monotonic()
        if found is None:
            return None
        item = WorkerItem(self.queue, found, self._end, self._find_number)
        if self._stopped:
            item.defer()
            return None
        self._item = item
        self._renewal.watch(item, opened_at)
        return item

    def fail(self, item: WorkerItem, error: str) -> ItemState:
        """End an item that failed, as `run` does after an exception; return how it ended.

        It is given back, to be tried again after `retry_delay`, or is a dead letter with this text
        as the reason after `max_attempts`. If the queue's own `max_attempts` is reached, it is a
        dead letter as well, and the reason is `abort`.
        """
        if self._settings.retry.is_last(item.attempts):
            item.bury(error)
        else:
            # Which failures come back together is no secret: any random number will do.
            words = self._settings.retry.words(item.attempts, random.random())
            self._end(item, ItemState.ABORTED, words)
            self._note_death(item)
        return item._state

    def stop(self) -> None:
        """End the loop after the present item; from a signal handler or another thread.

        A wait for an item ends at once.
        """
        self._stopped = True
        if self._waiting:
            self._connection.end_wait()

    def close(self) -> None:
        """Give back the leased item, and close the connection. The next fetch connects again."""
        item = self._take_item()
        if item is not None and item._state is ItemState.LEASED:
            item.abort()
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # -- fetching ---------------------------------------------------------------------------

    def _take_item(self) -> WorkerItem | None:
        item, self._item = self._item, None
        self._renewal.unwatch()
        return item

    def _confirm_and_open(self, leased: WorkerItem) -> ReceivedItem | None:
        if not leased._end_once(ItemState.CONFIRMED):
            return None  # it has ended already
        key = self._settings.confirm_and_open_key(leased.token, by_connection=self._is_full)
        try:
            return self._connection.open(key)
        except (*PASSING, MemcacheClientError) as error:
            if is_lease_over(error):
                self._lose(leased, reason(error))
            else:
                self._confirm_again(leased)
            return None
        except BaseException:
            leased._state = ItemState.LOST
            raise

    def _confirm(self, leased: WorkerItem) -> None:
        if leased._end_once(ItemState.CONFIRMED):
            self._confirm_again(leased)

    def _confirm_again(self, leased: WorkerItem) -> None:
        try:
            self._send_end(leased, "close")
        except LeaseLost as error:
            self._lose(leased, str(error))

    def _lose(self, leased: WorkerItem, why: str) -> None:
        leased._state = ItemState.LOST
        log.warning("%s: the leased item may be handled again: %s", self.queue, why)

    def _wait_and_open(self) -> ReceivedItem | None:
        self._connection.connect()  # first, so that `stop` finds a socket to end the wait on
        self._waiting = True
        try:
            return self._open() if not self._stopped else None
        except (OSError, MemcacheError):
            if self._stopped:
                return None
            raise
        finally:
            self._waiting = False
            if self._stopped:
                self._connection.close()  # it may be half closed

    def _open(self) -> ReceivedItem | None:
        self._is_full = False
        try:
            return self._connection.open(self._settings.open_key())
        except MemcacheServerError as error:
            if not is_refused(error, _FULL):
                raise
        # A full disk has no room for leases by token. So that it can be drained, items are leased
        # by connection, one after the other, until there is none or the connection breaks.
        self._is_full = True
        return self._connection.open(self._settings.open_key(by_connection=True))

    def _find_number(self, item: WorkerItem) -> int:
        """Raises LeaseLost if the lease is over, or no answer comes in time."""
        pause = Backoff(BACKOFF_SECONDS_MIN, BACKOFF_SECONDS_MAX)
        while True:
            try:
                number = self._connection.number(self.queue, item.token)
            except PASSING as error:
                if time.monotonic() > item._lease_ends:
                    raise LeaseLost(f"{self.queue}: {reason(error)}") from error
            else:
                if number:
                    return number
                raise LeaseLost(f"{self.queue}: the lease of this item is over, it went back")
            time.sleep(pause.next_seconds())

    # -- ends -------------------------------------------------------------------------------

    def _end(self, item: WorkerItem, state: ItemState, words: str) -> None:
        if self._item is item:
            self._take_item()
        if not item._end_once(state):
            item._refuse_second_end(state)
            return  # it went back already, as intended
        try:
            self._send_end(item, words, insistent=state in INSISTENT)
        except BaseException as error:
            item._state = ItemState.LOST
            if state in INSISTENT or not isinstance(error, LeaseLost):
                raise

    def _send_end(self, item: WorkerItem, words: str, insistent: bool = True) -> None:
        """End the item's lease. Raises LeaseLost if it is over, or no answer comes in time."""
        key = f"{self.queue}/{words}/token={item.token}"
        attempts = EndAttempts(item, insistent)
        while True:
            try:
                self._connection.get(key)
                return
            except (*PASSING, MemcacheClientError) as error:
                seconds = attempts.pause_after(
                    error, time.monotonic(), may_pass=not isinstance(error, MemcacheClientError),
                    is_lease_over=is_lease_over(error),
                )  # fmt: skip
            if seconds:
                time.sleep(seconds)

    def _fail(self, item: WorkerItem, error: Exception, is_buried: bool) -> None:
        text = str(error) or type(error).__name__
        if item._state is not ItemState.LEASED:
            became = item._state.value
        elif is_buried:
            became = ItemState.BURIED.value
            with contextlib.suppress(LeaseLost):  # then it comes again, and is buried later
                item.bury(text)
        else:
            became = ItemState.ABORTED.value
            with contextlib.suppress(LeaseLost):
                became = self.fail(item, text).value
        log.warning("%s: %s: %s", self.queue, became, text)

    def _note_death(self, item: WorkerItem) -> None:
        """Note it if the queue's own `max_attempts` made the failed item a dead letter."""
        if item._state is not ItemState.ABORTED:
            return
        with contextlib.suppress(*PASSING, MemcacheClientError):  # it is only a word in the log
            most = self._connection.max_attempts(self.queue)
            if most is not None and item.attempts + 1 >= most:
                item._state = ItemState.BURIED

    def _sleep(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while not self._stopped and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, _NAP_SECONDS))
