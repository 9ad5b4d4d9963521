"""A worker in a for loop: reliable fetch on pymemcache, with the lease renewed while you work.

    for item in Worker("jobs"):
        handle(item.body)            the end of the body confirms the item
                                     an exception, `break` or `return` gives it back

    Worker("jobs").run(handle, bury=(ValueError,))
                                     goes on after exceptions: gives back, or makes dead letters

    fetch ──▶ leased ── next turn of the loop, item.confirm() ──▶ done, it never comes back
                ├────── item.abort(), exception, break ─────────▶ back, one attempt counted
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
    Address,
    Connection,
    is_refused,
    reason,
)
from kestrelpy.client.item import Item, LeaseLost, State
from kestrelpy.client.renewal import Renewal
from kestrelpy.durations import parse_duration_ms

log = logging.getLogger("kestrelpy.client")

_BACKOFF_SECONDS_MIN: Final = 0.1
_BACKOFF_SECONDS_MAX: Final = 5.0
_FAILURE_PAUSE_SECONDS_MIN: Final = 0.05
_FAILURE_PAUSE_SECONDS_MAX: Final = 2.0
_NAP_SECONDS: Final = 0.1  # between two checks of the stop flag
_INVALID: Final = "token "  # ... of q is not valid: confirmed, expired or never issued
_FULL: Final = "disk full"
# Ends that are retried until the lease is over; the others happen when it ends.
_INSISTENT: Final = (State.CONFIRMED, State.BURIED)

Found = tuple[bytes, int, int]  # body, flags, token


class Worker:
    """Takes items from one queue, one at a time. A worker is for one thread.

    - `wait`: how long one fetch waits for an item.
    - `lease`: how long the server waits for a renewal before it gives the item to another worker.
      A thread renews the lease at half time while you work.
    - `work_limit`: after this long the lease of an item is not renewed any more:
      `item.should_stop` is true, and the item is deferred before its lease ends.

    All are durations like "30s". After a break the worker connects again, with growing pauses.
    """

    def __init__(
        self, queue: str, server: Address = DEFAULT_SERVER, *,
        wait: str = "5s", lease: str = "30s", work_limit: str | None = None,
    ) -> None:  # fmt: skip
        wait_ms, lease_ms = parse_duration_ms(wait), parse_duration_ms(lease)
        limit_ms = parse_duration_ms(work_limit) if work_limit is not None else None
        if wait_ms < 1:
            raise ValueError("wait must be at least 1ms")
        if lease_ms < 1000:
            raise ValueError("lease must be at least 1s: the server counts it in whole seconds")
        if limit_ms is not None and limit_ms < 1000:
            raise ValueError("work_limit must be at least 1s")
        self.queue: Final = queue
        lease_seconds = -(-lease_ms // 1000)
        self._lease = f"lease={lease_seconds}s"
        self._wait = f"t={wait_ms}"
        self._connection = Connection(server, wait_ms / 1000 + ANSWER_SECONDS, CONNECT_SECONDS)
        limit_seconds = limit_ms / 1000 if limit_ms is not None else None
        self._renewal = Renewal(queue, server, lease_seconds, limit_seconds)
        self._item: Item | None = None
        self._stopped = self._waiting = self._is_full = False

    def __iter__(self) -> Iterator[Item]:
        """Yield items until `stop`. Leaving the loop gives back the leased item."""
        pause = _BACKOFF_SECONDS_MIN
        try:
            while not self._stopped:
                try:
                    item = self.fetch()
                except PASSING as error:
                    log.warning("%s: %s; trying again", self.queue, reason(error))
                    self._sleep(pause)
                    pause = min(2 * pause, _BACKOFF_SECONDS_MAX)
                    continue
                pause = _BACKOFF_SECONDS_MIN
                if item is not None:
                    yield item
            leased = self._take_item()
            if leased is not None:
                self._confirm(leased)
        finally:
            self.close()

    def run(
        self, handle: Callable[[Item], object], *, bury: tuple[type[Exception], ...] = ()
    ) -> None:
        """Call `handle` with each item, until `stop`; an exception ends its item, not the worker.

        The item is confirmed when `handle` returns, unless `handle` ended it. An exception named in
        `bury` makes it a dead letter, with the exception's text as the reason; any other gives it
        back. Failures in a row make growing pauses, so that they do not use up all attempts at
        once.
        """
        pause = _FAILURE_PAUSE_SECONDS_MIN
        for item in self:
            try:
                handle(item)
            except Exception as error:  # every exception ends only this item
                self._fail(item, error, isinstance(error, bury))
                self._sleep(pause)
                pause = min(2 * pause, _FAILURE_PAUSE_SECONDS_MAX)
            else:
                pause = _FAILURE_PAUSE_SECONDS_MIN

    def fetch(self) -> Item | None:
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
        item = Item(self.queue, self._end, *found)
        if self._stopped:
            item.defer()
            return None
        self._item = item
        self._renewal.watch(item, opened_at)
        return item

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
        if item is not None and item._state is State.LEASED:
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

    def _take_item(self) -> Item | None:
        item, self._item = self._item, None
        self._renewal.unwatch()
        return item

    def _confirm_and_open(self, leased: Item) -> Found | None:
        if not leased._end_once(State.CONFIRMED):
            return None  # it has ended already
        key = f"{self.queue}/close/open/token={leased.token}"
        try:
            return self._connection.gets(key if self._is_full else f"{key}/{self._lease}")
        except PASSING:
            self._confirm_again(leased)
            return None
        except BaseException as error:
            if not is_refused(error, _INVALID):
                leased._state = State.LOST
                raise
            self._lose(leased, reason(error))
            return None

    def _confirm(self, leased: Item) -> None:
        if leased._end_once(State.CONFIRMED):
            self._confirm_again(leased)

    def _confirm_again(self, leased: Item) -> None:
        try:
            self._send_end(leased, "close")
        except LeaseLost as error:
            self._lose(leased, str(error))

    def _lose(self, leased: Item, why: str) -> None:
        leased._state = State.LOST
        log.warning("%s: the leased item may be handled again: %s", self.queue, why)

    def _wait_and_open(self) -> Found | None:
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

    def _open(self) -> Found | None:
        self._is_full = False
        try:
            return self._connection.gets(f"{self.queue}/open/{self._lease}/{self._wait}")
        except MemcacheServerError as error:
            if not is_refused(error, _FULL):
                raise
        # A full disk has no room for leases by token. So that it can be drained, items are leased
        # by connection, one after the other, until there is none or the connection breaks.
        self._is_full = True
        return self._connection.gets(f"{self.queue}/open/{self._wait}")

    # -- ends -------------------------------------------------------------------------------

    def _end(self, item: Item, state: State, words: str) -> None:
        if self._item is item:
            self._take_item()
        if not item._end_once(state):
            if item._state is not State.LOST:
                raise ValueError(f"{self.queue}: this item was {item._state.value} already")
            if state in _INSISTENT:
                raise LeaseLost(f"{self.queue}: the lease of this item is over, it went back")
            return  # it went back already, as intended
        try:
            self._send_end(item, words, insistent=state in _INSISTENT)
        except BaseException as error:
            item._state = State.LOST
            if state in _INSISTENT or not isinstance(error, LeaseLost):
                raise

    def _send_end(self, item: Item, words: str, insistent: bool = True) -> None:
        """End the item's lease. Raises LeaseLost if it is over, or no answer comes in time."""
        key = f"{self.queue}/{words}/token={item.token}"
        pause, was_sent = _BACKOFF_SECONDS_MIN, False
        while True:
            try:
                self._connection.get(key)
                return
            except (*PASSING, MemcacheClientError) as error:
                why = reason(error)
                is_over = is_refused(error, _INVALID)
                if not is_over and isinstance(error, MemcacheClientError):
                    raise
                if is_over and was_sent:
                    why = "the connection broke meanwhile: it was done, or the lease is over"
                # Retry at least once: an idle connection may have been broken for long.
                if is_over or (was_sent and not insistent) or time.monotonic() > item._lease_ends:
                    raise LeaseLost(f"{self.queue}: {why}") from error
            if was_sent:
                time.sleep(pause)
                pause = min(2 * pause, _BACKOFF_SECONDS_MAX)
            was_sent = True

    def _fail(self, item: Item, error: Exception, is_buried: bool) -> None:
        text = str(error) or type(error).__name__
        if item._state is not State.LEASED:
            became = item._state.value
        elif is_buried:
            became = State.BURIED.value
            with contextlib.suppress(LeaseLost):  # then it comes again, and is buried later
                item.bury(text)
        else:
            became = State.ABORTED.value
            item.abort()
        log.warning("%s: %s: %s", self.queue, became, text)

    def _sleep(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while not self._stopped and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, _NAP_SECONDS))
