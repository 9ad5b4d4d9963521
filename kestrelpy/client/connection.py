"""One connection on pymemcache that connects when it is needed, and again after a break.

One rule: after a failed request the connection is closed, so that no request ever gets the answer
to another one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from pymemcache.client.base import Client
from pymemcache.exceptions import (
    MemcacheClientError,
    MemcacheError,
    MemcacheServerError,
    MemcacheUnexpectedCloseError,
    MemcacheUnknownError,
)

from kestrelpy.wire import dial
from kestrelpy.wire.answers import NO_ANSWER, ReceivedItem, parse_found
from kestrelpy.wire.dial import NOBODY, Access, Address
from kestrelpy.wire.refusals import LoginRefused, plain

DEFAULT_SERVER: Final = ("127.0.0.1", 22133)
# A slow disk makes answers slow, not wrong: wait long before giving up.
ANSWER_SECONDS: Final = 30.0
CONNECT_SECONDS: Final = 5.0
# Errors that may soon be over: no server, a broken connection, a refusal for now.
PASSING: Final = (OSError, MemcacheServerError, MemcacheUnknownError)
# The answers to a token that names no lease, whichever kind of error they are.
_LEASE_IS_OVER: Final = ("lease expired", "token ")
_WORDS: Final = 5  # of a VALUE line with a number

_T = TypeVar("_T")


class LoginFailed(MemcacheClientError):
    """The server refused the user or the password."""


class _BodyAndFlags:
    """A serializer for pymemcache: bytes as they are, with the item's flags."""

    def serialize(self, key: object, value: bytes) -> tuple[bytes, int]:
        """Return the bytes as they are, with flags 0."""
        return value, 0

    def deserialize(self, key: object, value: bytes, flags: int) -> tuple[bytes, int]:
        """Return the bytes and the flags."""
        return value, flags


class _FullClient(Client):
    """A client that logs in, and that understands VALUE lines with `full`: they have more words
    than five."""

    full: tuple[bytes, ...] = ()  # the words after the key of the last item with `full`
    access = NOBODY

    def _connect(self) -> None:
        self.close()
        try:
            self.sock = dial.connect(self.server, self.access, self.connect_timeout, self.timeout)
        except LoginRefused as error:
            raise (MemcacheServerError if error.may_pass else LoginFailed)(str(error)) from None

    def _extract_value(
        self, expect_cas: bool, line: bytes, buf: bytes, *keys: object
    ) -> tuple[object, object, bytes]:
        words = line.split()
        if len(words) > _WORDS:
            self.full = tuple(words[2:])
            line = b" ".join(words[:_WORDS])
        found: tuple[object, object, bytes] = super()._extract_value(expect_cas, line, buf, *keys)
        return found


def new_client(
    server: Address,
    answer_seconds: float = ANSWER_SECONDS,
    connect_seconds: float = CONNECT_SECONDS,
    access: Access = NOBODY,
) -> _FullClient:
    """Return a pymemcache client for one connection; its `get` returns (body, flags).

    It connects, and logs in, with its first request, and again after a break.
    """
    client = _FullClient(
        server,
        serde=_BodyAndFlags(),
        connect_timeout=connect_seconds,
        timeout=answer_seconds,
        default_noreply=False,
    )
    client.access = access
    return client


def reason(error: BaseException) -> str:
    """Return the text of an exception of a socket or of pymemcache, for people."""
    if isinstance(error, MemcacheError):
        said = error.args[0] if error.args else "the server closed the connection"
        if isinstance(said, bytes):
            return plain(said.decode("ascii", "backslashreplace"))
        return str(said)
    if isinstance(error, OSError):
        return dial.why(error)
    return str(error) or type(error).__name__


def is_lease_over(error: BaseException) -> bool:
    """True if the error is the server's answer to a token that names no lease any more."""
    refused = isinstance(error, MemcacheServerError | MemcacheClientError)
    return refused and reason(error).startswith(_LEASE_IS_OVER)


def is_refused(error: BaseException, word: str) -> bool:
    """True if the error is the server's `SERVER_ERROR <word> ...` or `CLIENT_ERROR <word> ...`."""
    if isinstance(error, MemcacheUnexpectedCloseError):
        return False
    is_refusal = isinstance(error, MemcacheServerError | MemcacheClientError)
    return is_refusal and reason(error).startswith(word)


def is_logged_out(error: BaseException) -> bool:
    """True if the server wants a login, maybe once more: a reload has changed the user."""
    return isinstance(error, MemcacheClientError) and error.args == (b"unauthenticated",)


def max_attempts_in(facts: Mapping[bytes, bytes | int], queue: str) -> int | None:
    """Return `max_attempts` of the answer to `stats <queue>/settings`; None if it has no limit."""
    value = facts.get(f"queue_{queue}_setting_max_attempts".encode(), b"")
    try:
        return int(value)
    except ValueError:
        return None


class BlockingConnection:
    """A connection for one thread at a time; any thread may call `end_wait`."""

    def __init__(
        self, server: Address, answer_seconds: float, connect_seconds: float,
        access: Access = NOBODY,
    ) -> None:  # fmt: skip
        self._server = server
        self._access = access
        self._seconds = answer_seconds, connect_seconds
        self._client: _FullClient | None = None

    def get(self, key: str) -> None:
        """Send a request whose answer is END. Raises OSError or MemcacheError."""
        self._ask(lambda client: client.get(key))

    def open(self, key: str) -> ReceivedItem | None:
        """Return the item in the answer to a key with `open` and `full`, or None for END.

        Raises OSError or MemcacheError.
        """

        def request(client: _FullClient) -> ReceivedItem | None:
            client.full = ()
            found, _ = client.gets(key)
            return parse_found(found[0], client.full) if found is not None else None

        return self._ask(request)

    def number(self, queue: str, token: int) -> int:
        """Return the number of the item that a token leases; 0 if there is none.

        Raises OSError or MemcacheError.
        """
        return self._ask(lambda client: int(client.stats(f"{queue}/token={token}").get(b"id", 0)))

    def max_attempts(self, queue: str) -> int | None:
        """Return the queue's setting: this many failures make a dead letter; None: it has no limit.

        Raises OSError or MemcacheError.
        """
        facts = self._ask(lambda client: client.stats(f"{queue}/settings"))
        return max_attempts_in(facts, queue)

    def touch(self, key: str, seconds: int) -> bool:
        """Return True for TOUCHED, False for NOT_FOUND. Raises OSError or MemcacheError."""
        return bool(self._ask(lambda client: client.touch(key, seconds)))

    def connect(self) -> _FullClient:
        """Connect if there is no connection. Raises OSError or MemcacheError."""
        if self._client is None:
            client = new_client(self._server, *self._seconds, self._access)
            try:
                client.version()  # pymemcache connects with the first request
            except (ConnectionError, MemcacheUnexpectedCloseError) as error:
                client.close()
                raise explained(error, self._server, self._access) from None
            except BaseException:
                client.close()
                raise
            self._client = client
        return self._client

    def end_wait(self) -> None:
        """Close the sending direction: the server ends a wait at once.

        The receiving direction stays open, so that an item on its way is not lost.
        """
        client = self._client
        if client is not None and client.sock is not None:
            dial.end_sending(client.sock)

    def close(self) -> None:
        """Close the connection. The next request connects again."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _ask(self, request: Callable[[_FullClient], _T]) -> _T:
        try:
            return self._ask_once(request)
        except MemcacheClientError as error:
            if self._access.user is None or not is_logged_out(error):
                raise
        return self._ask_once(request)

    def _ask_once(self, request: Callable[[_FullClient], _T]) -> _T:
        client = self.connect()
        try:
            return request(client)
        except BaseException as error:
            self.close()
            # One about a certificate is of both kinds.
            if isinstance(error, ValueError) and not isinstance(error, OSError):
                raise ConnectionError(NO_ANSWER) from None
            raise


def explained(error: Exception, server: Address, access: Access) -> Exception:
    """Return what is wrong with a connection that ended before its first answer."""
    if isinstance(error, MemcacheUnexpectedCloseError):
        found = dial.explained(ConnectionError(), server, access)
        return found if isinstance(found, dial.TlsRefused) else error
    return dial.explained(error, server, access) if isinstance(error, OSError) else error
