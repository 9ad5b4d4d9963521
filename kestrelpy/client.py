"""A worker in a for loop: reliable fetch on pymemcache, with the lease renewed while you work.

    for item in Worker("jobs"):
        handle(item.body)            the end of the body confirms the item
                                     an exception, `break` or `return` gives it back

    fetch ──▶ in hand ── next turn of the loop, item.confirm() ──▶ done, it never comes back
                 ├────── item.abort(), exception, break ─────────▶ back, one attempt counted
                 ├────── item.defer() ───────────────────────────▶ back, no attempt counted
                 └────── connection or lease lost ───────────────▶ back: confirm() raises LeaseLost

One rule: an item is confirmed only on the connection that opened it, since there the lease lives;
so every item is handled at least once, and twice if its worker or the server dies at a bad moment.

Burying an item (straight to the dead line) needs a later version of the server; until then an item
that always fails gets there by its queue's `max_attempts`.
"""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from enum import Enum
from types import TracebackType
from typing import Final, Self, TypeVar

from pymemcache.client.base import Client
from pymemcache.exceptions import (
    MemcacheError,
    MemcacheServerError,
    MemcacheUnknownError,
)

from kestrelpy.durations import parse_duration_ms

log = logging.getLogger("kestrelpy.client")

Address = tuple[str, int] | str  # host and port, or the path of a Unix socket

DEFAULT_SERVER: Final = ("127.0.0.1", 22133)
# A slow disk makes answers slow, not wrong: give up late.
ANSWER_SECONDS: Final = 30.0
_CONNECT_SECONDS: Final = 5.0
_BACKOFF_SECONDS_MIN: Final = 0.1
_BACKOFF_SECONDS_MAX: Final = 5.0
_NAP_SECONDS: Final = 0.1  # between two looks whether to stop
# Until the first renewal the queue's own lease holds, which we do not know: renew early. An item
# that takes less than this costs no trip beside its own.
_FIRST_RENEWAL_SECONDS: Final = 0.5

_T = TypeVar("_T")


class LeaseLost(Exception):
    """The item is not ours any more: it went back, and somebody else may have it."""


class _State(Enum):
    HELD = "held"
    CONFIRMED = "confirmed"
    ABORTED = "given back"
    DEFERRED = "deferred"
    LOST = "lost"


_WORDS: Final = {_State.CONFIRMED: "close", _State.ABORTED: "abort", _State.DEFERRED: "defer"}


class _BodyAndFlags:
    """What pymemcache asks how to store and read: bytes as they are, and the flags beside."""

    def serialize(self, key: object, value: bytes) -> tuple[bytes, int]:
        """Bytes as they are."""
        return value, 0

    def deserialize(self, key: object, value: bytes, flags: int) -> tuple[bytes, int]:
        """Both."""
        return value, flags


def new_client(server: Address, answer_seconds: float = ANSWER_SECONDS) -> Client:
    """A pymemcache client for one connection, whose `get` answers (body, flags).

    Raises OSError when the server has a name and none of its addresses answers: pymemcache tries
    a name's first address only, and `localhost` often has two.
    """
    if isinstance(server, tuple) and not _is_numeric(server[0]):
        with socket.create_connection(server, _CONNECT_SECONDS) as probe:
            server = probe.getpeername()[:2]
    return Client(
        server,
        serde=_BodyAndFlags(),
        connect_timeout=_CONNECT_SECONDS,
        timeout=answer_seconds,
        no_delay=isinstance(server, tuple),
        default_noreply=False,
    )


def reason(error: BaseException) -> str:
    """What an exception of a socket or of pymemcache says, for a person."""
    if isinstance(error, MemcacheError):
        said = error.args[0] if error.args else "the server closed the connection"
        return said.decode("ascii", "backslashreplace") if isinstance(said, bytes) else str(said)
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__


class Item:
    """One item in hand."""

    __slots__ = ("_renew_at", "_sock", "_state", "_worker", "body", "flags")

    def __init__(self, worker: Worker, body: bytes, flags: int, sock: object) -> None:
        self.body: Final = body
        self.flags: Final = flags
        self._worker = worker
        self._sock = sock
        self._state = _State.HELD
        self._renew_at = 0.0

    @property
    def is_lost(self) -> bool:
        """Is the lease known to be gone? Then whatever is done now may be done twice."""
        return self._state is _State.LOST

    def confirm(self) -> None:
        """Done; returns when the server has written that down. Raises LeaseLost."""
        self._worker._end(self, _State.CONFIRMED)

    def abort(self) -> None:
        """Give it back, for somebody to try again; this delivery counts as an attempt."""
        self._worker._end(self, _State.ABORTED)

    def defer(self) -> None:
        """Give it back without counting an attempt."""
        self._worker._end(self, _State.DEFERRED)


class Worker:
    """One connection that takes items from one queue, one at a time.

    `wait` is how long one fetch waits for an item, `lease` how long the server waits for a sign
    of life before it gives the item to somebody else (a thread renews it while you work); both
    are durations like "30s". A lost connection is made again, with pauses that grow.
    """

    def __init__(
        self, queue: str, server: Address = DEFAULT_SERVER, *, wait: str = "5s", lease: str = "30s"
    ) -> None:
        wait_ms, lease_ms = parse_duration_ms(wait), parse_duration_ms(lease)
        if wait_ms < 1:
            raise ValueError("wait must be at least 1ms")
        if lease_ms < 1000:
            raise ValueError("lease must be at least 1s: the server counts it in whole seconds")
        self.queue: Final = queue
        self._server = server
        self._lease_seconds = -(-lease_ms // 1000)
        self._answer_seconds = wait_ms / 1000 + ANSWER_SECONDS
        self._open = f"open/t={wait_ms}"
        self._client: Client | None = None
        self._item: Item | None = None
        self._stopped = self._waiting = False
        # Guards the connection and what is in hand. The renewing thread sleeps on it, and so
        # never speaks while a fetch is in progress.
        self._lock = threading.Condition(threading.Lock())
        self._renewing = False

    def __iter__(self) -> Iterator[Item]:
        """Items for ever, or until `stop`. Leaving the loop closes the connection."""
        pause = _BACKOFF_SECONDS_MIN
        try:
            while not self._stopped:
                try:
                    item = self.fetch()
                except (OSError, MemcacheServerError, MemcacheUnknownError) as error:
                    log.warning("%s: %s; trying again", self.queue, reason(error))
                    self._sleep(pause)
                    pause = min(2 * pause, _BACKOFF_SECONDS_MAX)
                    continue
                pause = _BACKOFF_SECONDS_MIN
                if item is not None:
                    yield item
            self._confirm_last()
        finally:
            self.close()

    def fetch(self) -> Item | None:
        """Confirm the item in hand, if there is one, and fetch the next, in one trip.

        None when none came within `wait`. Raises OSError or pymemcache's MemcacheError when the
        server cannot be reached or refuses; what was in hand may then come again.
        """
        with self._lock:
            held, self._item = self._item, None
            if held is not None and not self._is_ours(held):
                self._lose(held, "the connection was lost while it was in hand")
                held = None
            # Confirm without a wait, so that the confirm is answered at once; the further trip
            # is made only when there is nothing to do anyway.
            found = self._confirm_and_open(held) if held is not None else None
            if found is None:
                found = self._wait_and_open()
            if found is None:
                return None
            assert self._client is not None
            item = Item(self, *found, self._client.sock)
            if self._stopped:
                self._say_end(item, _State.DEFERRED)
                return None
            self._take_in_hand(item)
            return item

    def stop(self) -> None:
        """End the loop after the item in hand; from a signal handler or another thread.

        A wait for an item ends at once.
        """
        self._stopped = True
        client = self._client
        if self._waiting and client is not None and client.sock is not None:
            with contextlib.suppress(OSError):
                client.sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Give back what is in hand, and hang up. The next fetch connects again."""
        with self._lock:
            item, self._item = self._item, None
            if item is not None and self._is_ours(item):
                self._say_end(item, _State.ABORTED)
            self._hang_up()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # -- with the lock held -----------------------------------------------------------------

    def _confirm_and_open(self, held: Item) -> tuple[bytes, int] | None:
        try:
            found = self._get("close/open")
        except (OSError, MemcacheError) as error:
            self._lose(held, reason(error))
            if _is_expired(error):
                return None
            raise
        held._state = _State.CONFIRMED
        return found

    def _wait_and_open(self) -> tuple[bytes, int] | None:
        self._connected()  # first, so that `stop` finds a socket to end the wait on
        self._waiting = True
        try:
            return self._get(self._open) if not self._stopped else None
        except (OSError, MemcacheError):
            if self._stopped:
                return None
            raise
        finally:
            self._waiting = False

    def _get(self, options: str) -> tuple[bytes, int] | None:
        client = self._connected()
        key = f"{self.queue}/{options}"
        found: tuple[bytes, int] | None = self._ask(client, lambda: client.get(key))
        return found

    def _connected(self) -> Client:
        if self._client is None:
            client = new_client(self._server, self._answer_seconds)
            self._ask(client, client.version)  # pymemcache connects with the first request
            self._client = client
        return self._client

    def _ask(self, client: Client, request: Callable[[], _T]) -> _T:
        """The answer; after anything else than an answer that connection is not used again."""
        try:
            return request()
        except BaseException:
            client.close()
            self._client = None
            raise

    def _hang_up(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def _is_ours(self, item: Item) -> bool:
        client = self._client
        return item._state is _State.HELD and client is not None and client.sock is item._sock

    def _lose(self, item: Item, why: str) -> None:
        item._state = _State.LOST
        log.warning("%s: the item in hand may be handled again: %s", self.queue, why)

    def _say_end(self, item: Item, state: _State) -> None:
        """End its lease; raises LeaseLost when a confirm was not acknowledged."""
        try:
            self._get(_WORDS[state])
        except (OSError, MemcacheError) as error:
            item._state = _State.LOST
            if state is _State.CONFIRMED:
                raise LeaseLost(f"{self.queue}: {reason(error)}") from error
        else:
            item._state = state

    # -- ends -------------------------------------------------------------------------------

    def _end(self, item: Item, state: _State) -> None:
        with self._lock:
            if item._state not in (_State.HELD, _State.LOST):
                raise ValueError(f"{self.queue}: this item was {item._state.value} already")
            if self._item is item:
                self._item = None
            if self._is_ours(item):
                self._say_end(item, state)
                return
            item._state = _State.LOST
            if state is _State.CONFIRMED:
                raise LeaseLost(f"{self.queue}: the lease of this item is over, it went back")

    def _confirm_last(self) -> None:
        item = self._item
        if item is not None:
            try:
                item.confirm()
            except LeaseLost as error:
                self._lose(item, str(error))

    # -- renewal ----------------------------------------------------------------------------

    def _take_in_hand(self, item: Item) -> None:
        first = min(_FIRST_RENEWAL_SECONDS, self._lease_seconds / 2)
        item._renew_at = time.monotonic() + first
        self._item = item
        if not self._renewing:
            self._renewing = True
            threading.Thread(target=self._renew, name=f"lease {self.queue}", daemon=True).start()

    def _renew(self) -> None:
        """Renew what is in hand at half time, while something is; a thread of its own."""
        with self._lock:
            try:
                while (item := self._item) is not None:
                    left = item._renew_at - time.monotonic()
                    if left > 0:
                        # Not longer: the next item may need it that soon.
                        self._lock.wait(min(left, _FIRST_RENEWAL_SECONDS))
                    elif self._is_ours(item) and self._touch():
                        item._renew_at = time.monotonic() + self._lease_seconds / 2
                    else:
                        self._item = None
                        self._lose(item, "its lease could not be renewed")
            finally:
                self._renewing = False

    def _touch(self) -> bool:
        client = self._client
        assert client is not None
        try:
            return bool(
                self._ask(client, lambda: client.touch(self.queue, self._lease_seconds))
            )
        except (OSError, MemcacheError):
            return False

    def _sleep(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while not self._stopped and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, _NAP_SECONDS))


def _is_numeric(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _is_expired(error: BaseException) -> bool:
    return isinstance(error, MemcacheServerError) and reason(error).startswith("lease expired")
