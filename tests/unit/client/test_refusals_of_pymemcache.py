"""What an exception of pymemcache means: each kind of it, with the words and without them."""

from __future__ import annotations

import ssl
from typing import Any, cast

import pytest
from pymemcache.exceptions import (
    MemcacheClientError,
    MemcacheServerError,
    MemcacheUnexpectedCloseError,
)

from kestrelpy.client.connection import (
    NO_ANSWER,
    BlockingConnection,
    is_lease_over,
    is_logged_out,
    is_refused,
    reason,
)
from kestrelpy.wire.dial import Access

OVER = b"token 7 of jobs is not valid: confirmed, expired or never issued"
LOGIN = MemcacheClientError(b"unauthenticated")


def test_an_exception_without_a_text_is_told_by_its_kind() -> None:
    assert reason(RuntimeError()) == "RuntimeError"
    assert reason(RuntimeError("no room")) == "no room"


@pytest.mark.parametrize("kind", [MemcacheServerError, MemcacheClientError])
def test_both_refusals_of_a_server_say_what_is_over(kind: type[Exception]) -> None:
    assert is_lease_over(kind(OVER))
    assert not is_lease_over(kind(b"forbidden"))
    assert is_refused(kind(b"full"), "full")
    assert not is_refused(kind(b"readonly"), "full")


@pytest.mark.parametrize("kind", [RuntimeError, OSError, ValueError])
def test_no_other_exception_says_so_whatever_its_words(kind: type[Exception]) -> None:
    assert not is_lease_over(kind(OVER.decode()))
    assert not is_refused(kind("full"), "full")
    assert not is_logged_out(kind(b"unauthenticated"))


def test_a_login_is_wanted_by_one_word_alone() -> None:
    assert is_logged_out(LOGIN)
    assert not is_logged_out(MemcacheClientError(b"unauthenticated users are refused"))
    assert not is_logged_out(MemcacheServerError(b"unauthenticated"))
    assert not is_refused(MemcacheUnexpectedCloseError(), "")


class Client:
    """In the place of pymemcache: each request raises what is next, or is answered."""

    sock = None

    def __init__(self, *errors: BaseException) -> None:
        self.errors = list(errors)
        self.asked = self.closed = 0

    def version(self) -> None:
        pass

    def get(self, _: str) -> None:
        self.asked += 1
        if self.errors:
            raise self.errors.pop(0)

    def close(self) -> None:
        self.closed += 1


def connected(client: Client, monkeypatch: pytest.MonkeyPatch, user: str = "") -> Any:
    monkeypatch.setattr("kestrelpy.client.connection.new_client", lambda *_: client)
    access = Access(user, "secret") if user else Access()
    return BlockingConnection(("127.0.0.1", 1), 1, 1, access)


def test_a_user_that_was_logged_out_logs_in_once_more_and_asks_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client = Client(LOGIN)
    connected(client, monkeypatch, "ann").get("jobs")
    assert (client.asked, client.closed) == (2, 1)


@pytest.mark.parametrize(
    ("user", "error"), [("", LOGIN), ("ann", MemcacheClientError(b"forbidden"))]
)
def test_nobody_and_another_refusal_are_asked_no_second_time(
    monkeypatch: pytest.MonkeyPatch, user: str, error: Exception
) -> None:
    client = Client(error, error)
    with pytest.raises(MemcacheClientError):
        connected(client, monkeypatch, user).get("jobs")
    assert client.asked == 1


@pytest.mark.parametrize(
    ("error", "becomes", "text"),
    [(ValueError("not a number"), ConnectionError, NO_ANSWER),
     (ssl.SSLCertVerificationError(1, "expired"), ssl.SSLCertVerificationError, "expired"),
     (KeyboardInterrupt("now"), KeyboardInterrupt, "now")],
)  # fmt: skip
def test_bytes_that_are_no_answer_break_the_connection_and_a_certificate_stays_what_it_is(
    monkeypatch: pytest.MonkeyPatch, error: BaseException, becomes: type[BaseException], text: str
) -> None:
    client = Client(error)
    with pytest.raises(becomes, match=text) as raised:
        connected(client, monkeypatch).get("jobs")
    assert type(raised.value) is becomes
    assert client.closed == 1


def test_a_wait_without_a_connection_or_a_socket_has_no_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ended = list[object]()
    monkeypatch.setattr("kestrelpy.client.connection.dial.end_sending", ended.append)
    client = Client()
    connection = connected(client, monkeypatch)
    connection.end_wait()
    connection.connect()
    connection.end_wait()
    assert not ended
    client.sock = cast(Any, object())
    connection.end_wait()
    assert ended == [client.sock]
