"""A worker in a for loop: reliable fetch on pymemcache, with the lease renewed while you work.

    for item in Worker("jobs"):
        handle(item.body)            the end of the body confirms the item
                                     an exception, `break` or `return` gives it back

    Worker("jobs").run(handle, bury=(ValueError,))
                                     goes on after exceptions: gives back, or buries with their text

    fetch ──▶ in hand ── next turn of the loop, item.confirm() ──▶ done, it never comes back
                 ├────── item.abort(), exception, break ─────────▶ back, one attempt counted
                 ├────── item.defer() ───────────────────────────▶ back, no attempt counted
                 ├────── item.bury(reason) ──────────────────────▶ to the dead line
                 └────── lease lost ─────────────────────────────▶ back: confirm() raises LeaseLost

An item is lent by token: no broken connection and no restart of the server takes it out of our
hands while its lease lasts, and a worker that dies leaves it lent for that long.

One rule: an item is confirmed with the token it was lent by, which nobody else was ever given; so
every item is handled at least once, and twice if its worker or the server dies at a bad moment.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Final, Self

from pymemcache.exceptions import MemcacheError, MemcacheServerError

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
_NAP_SECONDS: Final = 0.1  # between two looks whether to stop
_EXPIRED: Final = "lease expired"
_FULL: Final = "disk full"
# What is worth saying until the lease is over; the others happen by themselves in the end.
_INSISTENT: Final = (State.CONFIRMED, State.BURIED)

Found = tuple[bytes, int, int]  # body, flags, token


class Worker:
    """Takes items from one queue, one at a time. For one thread: several threads, several workers.

    `wait` is how long one fetch waits for an item. `lease` is how long the server waits for a sign
    of life before it gives the item to somebody else; a thread renews it at half time while you
    work. After `work_limit` in one item's hand it is renewed no more: `item.should_stop` is true,
    and before its lease ends the item is deferred. All are durations like "30s". A lost
    connection is made again, with pauses that grow.
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
        """Items for ever, or until `stop`. Leaving the loop gives back what is in hand."""
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
            held = self._put_down()
            if held is not None:
                self._confirm(held)
        finally:
            self.close()

    def run(
        self, handle: Callable[[Item], object], *, bury: tuple[type[Exception], ...] = ()
    ) -> None:
        """Have each item handled, until `stop`; an exception ends its item and not the worker.

        It is confirmed when `handle` returns, unless `handle` ended it. An exception named in
        `bury` buries it, the exception's text being the reason; any other gives it back. After
        several failures in a row it pauses, so that they do not use up all attempts in a moment.
        """
        pause = _FAILURE_PAUSE_SECONDS_MIN
        for item in self:
            try:
                handle(item)
            except Exception as error:  # whatever it is, it is about this item
                self._fail(item, error, isinstance(error, bury))
                self._sleep(pause)
                pause = min(2 * pause, _FAILURE_PAUSE_SECONDS_MAX)
            else:
                pause = _FAILURE_PAUSE_SECONDS_MIN

    def fetch(self) -> Item | None:
        """Confirm the item in hand, if there is one, and fetch the next, in one trip.

        None when none came within `wait`. Raises OSError or pymemcache's MemcacheError when the
        server cannot be reached or refuses.
        """
        held = self._put_down()
        # Confirm without a wait, so that the confirm is answered at once; the further trip
        # is made only when there is nothing to do anyway.
        opened_at = time.monotonic()
        found = self._confirm_and_open(held) if held is not None else None
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
        self._renewal.keep(item, opened_at)
        return item

    def stop(self) -> None:
        """End the loop after the item in hand; from a signal handler or another thread.

        A wait for an item ends at once.
        """
        self._stopped = True
        if self._waiting:
            self._connection.end_wait()

    def close(self) -> None:
        """Give back what is in hand, and hang up. The next fetch connects again."""
        item = self._put_down()
        if item is not None and item._state is State.HELD:
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

    def _put_down(self) -> Item | None:
        item, self._item = self._item, None
        self._renewal.drop()
        return item

    def _confirm_and_open(self, held: Item) -> Found | None:
        if not held._leave_hand(State.CONFIRMED):
            return None  # it was ended before
        key = f"{self.queue}/close/open/token={held.token}"
        try:
            return self._connection.gets(key if self._is_full else f"{key}/{self._lease}")
        except PASSING as error:
            if is_refused(error, _EXPIRED):
                self._lose(held, reason(error))
            else:
                self._confirm_again(held)
            return None
        except BaseException:
            held._state = State.LOST
            raise

    def _confirm(self, held: Item) -> None:
        if held._leave_hand(State.CONFIRMED):
            self._confirm_again(held)

    def _confirm_again(self, held: Item) -> None:
        try:
            self._say(held, "close")
        except LeaseLost as error:
            self._lose(held, str(error))

    def _lose(self, held: Item, why: str) -> None:
        held._state = State.LOST
        log.warning("%s: the item in hand may be handled again: %s", self.queue, why)

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
        # A full disk has no room for leases by token. That it may empty, items are lent to this
        # connection, one after the other, until there is none or the connection breaks.
        self._is_full = True
        return self._connection.gets(f"{self.queue}/open/{self._wait}")

    # -- ends -------------------------------------------------------------------------------

    def _end(self, item: Item, state: State, words: str) -> None:
        if self._item is item:
            self._put_down()
        if not item._leave_hand(state):
            if item._state is not State.LOST:
                raise ValueError(f"{self.queue}: this item was {item._state.value} already")
            if state in _INSISTENT:
                raise LeaseLost(f"{self.queue}: the lease of this item is over, it went back")
            return  # it went back already: what was wanted
        try:
            self._say(item, words, insistent=state in _INSISTENT)
        except BaseException as error:
            item._state = State.LOST
            if state in _INSISTENT or not isinstance(error, LeaseLost):
                raise

    def _say(self, item: Item, words: str, insistent: bool = True) -> None:
        """End its lease; raises LeaseLost when that cannot be, or is not answered in time."""
        key = f"{self.queue}/{words}/token={item.token}"
        pause, was_said = _BACKOFF_SECONDS_MIN, False
        while True:
            try:
                self._connection.get(key)
                return
            except PASSING as error:
                why = reason(error)
                is_over = is_refused(error, _EXPIRED)
                if is_over and was_said:
                    why = "the line broke meanwhile: it was done, or the lease is over"
                # Whatever else it is, a line that was idle may have been broken for long.
                if is_over or (was_said and not insistent) or time.monotonic() > item._lease_ends:
                    raise LeaseLost(f"{self.queue}: {why}") from error
            if was_said:
                time.sleep(pause)
                pause = min(2 * pause, _BACKOFF_SECONDS_MAX)
            was_said = True

    def _fail(self, item: Item, error: Exception, is_buried: bool) -> None:
        text = str(error) or type(error).__name__
        if item._state is not State.HELD:
            became = item._state.value
        elif is_buried:
            became = State.BURIED.value
            with contextlib.suppress(LeaseLost):  # then it comes again, and is buried then
                item.bury(text)
        else:
            became = State.ABORTED.value
            item.abort()
        log.warning("%s: %s: %s", self.queue, became, text)

    def _sleep(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while not self._stopped and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, _NAP_SECONDS))
