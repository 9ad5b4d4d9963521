"""The login and TLS of a client, from options and the environment: a server hears only as much of
it as it asks for."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kestrelpy.wire.dial import NOBODY, Access, access_of, connect, explained, login
from kestrelpy.wire.refusals import LoginRefused
from tests.support.guarded import certificate


@contextmanager
def answering(*answers: bytes) -> Iterator[tuple[tuple[str, int], list[bytes]]]:
    """A server with these answers, one to each request; yield its address and what it heard."""
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            peer, _ = server.accept()
            server.close()  # a client that dials again to learn why is refused at once
            with peer:
                for answer in answers:
                    data = peer.recv(4096)
                    if not data:
                        return
                    heard.append(data)
                    peer.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[:2], heard
        thread.join(20)


ANNA = Access(user="anna", password="let me in")


def test_a_login_is_user_and_password_in_the_body_of_a_set() -> None:
    with answering(b"CLIENT_ERROR unauthenticated\r\n", b"STORED\r\n") as (address, heard):
        connect(address, ANNA, 20, 20).close()

    assert heard == [b"verbosity 0\r\n", b"set login 0 0 14\r\nanna let me in\r\n"]


@pytest.mark.parametrize("answer", [b"OK\r\n", b"ERROR\r\n"])
def test_a_server_that_asks_for_no_login_never_hears_the_password(answer: bytes) -> None:
    with answering(answer, b"OK\r\n") as (address, heard):
        connect(address, ANNA, 20, 20).close()

    assert heard == [b"verbosity 0\r\n"]


def test_nobody_says_nothing_before_the_first_request() -> None:
    with answering(b"END\r\n") as (address, heard):
        connect(address, NOBODY, 20, 20).close()

    assert heard == []


@pytest.mark.parametrize(
    ("answers", "said", "may_pass"),
    [
        ([b"CLIENT_ERROR unauthenticated\r\n", b"CLIENT_ERROR authentication failure\r\n"],
         "no such user, or another password", False),
        ([b"CLIENT_ERROR unauthenticated\r\n", b"SERVER_ERROR too many logins\r\n"],
         "too many logins", True),
        ([b"SERVER_ERROR too many connections\r\n"], "too many connections", True),
    ],
)  # fmt: skip
def test_a_login_that_is_refused_says_why_and_whether_it_may_pass(
    answers: list[bytes], said: str, may_pass: bool
) -> None:
    with answering(*answers) as (address, _), pytest.raises(LoginRefused, match=said) as raised:
        connect(address, ANNA, 20, 20)

    assert raised.value.may_pass is may_pass


@pytest.mark.parametrize(
    "answers",
    [
        [b""],
        [b"CLIENT_ERROR unauth"],
        [b"CLIENT_ERROR unauthenticated\r\n", b""],
        [b"CLIENT_ERROR unauthenticated\r\n", b"STOR"],
    ],
)
def test_a_server_that_hangs_up_during_the_login_is_an_error_of_the_connection(
    answers: list[bytes]
) -> None:
    with answering(*answers) as (address, _), pytest.raises(ConnectionError):
        connect(address, ANNA, 20, 20)


@pytest.mark.parametrize("access", [NOBODY, Access(tls=True)])
def test_a_server_that_is_not_there_is_not_asked_again(
    access: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    monkeypatch.setattr(socket, "create_connection", lambda *words: asked.append(words))
    for error in (ConnectionRefusedError(), socket.gaierror()):
        assert explained(error, ("127.0.0.1", 1), access) is error
    assert asked == []


def test_options_go_before_the_environment_and_a_file_before_the_variable(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_bytes(b"of the file\r\n")
    variables = {"KESTRELPY_USER": "bert", "KESTRELPY_PASSWORD": "of the variable"}
    both = {**variables, "KESTRELPY_PASSWORD_FILE": str(file)}

    assert access_of(environ={}) == NOBODY
    assert access_of(environ=variables).credentials() == b"bert of the variable"
    assert access_of(environ=both).credentials() == b"bert of the file"
    assert access_of(user="anna", environ=both).credentials() == b"anna of the file"
    assert access_of(password="said", environ=both).credentials() == b"bert said"


def test_the_file_of_a_password_is_read_at_each_login(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("one")
    access = Access(user="anna", password_file=str(file))
    file.write_text("two")
    assert access.credentials() == b"anna two"
    assert access.with_password() == Access(user="anna", password="two")

    file.unlink()
    steps = login(access)
    next(steps)
    with pytest.raises(LoginRefused, match=f"{file}: No such file or directory"):
        steps.send(b"CLIENT_ERROR unauthenticated")


def test_a_password_is_never_shown() -> None:
    assert "let me in" not in repr(ANNA) + str(ANNA)


def test_a_file_of_tls_means_tls(tmp_path: Path) -> None:
    certificate(tmp_path, "one")
    pem, key = str(tmp_path / "one.pem"), str(tmp_path / "one.key")

    assert access_of(tls_ca=pem, environ={}).tls
    assert access_of(environ={"KESTRELPY_TLS": "true"}).tls
    assert not access_of(environ={"KESTRELPY_TLS": "off"}).tls
    given = access_of(environ={"KESTRELPY_TLS_CERT": pem, "KESTRELPY_TLS_KEY": key})
    assert (given.tls, given.tls_cert, given.tls_key) == (True, pem, key)


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ({"user": "anna"}, "user anna has no password: name a file"),
        ({"user": "an na", "password": "x"}, "'an na' is not a user's name"),
        ({"password": "x"}, "there is a password and no user"),
        ({"user": "anna", "password": ""}, "the password must have 1 to 1024 bytes"),
        ({"user": "anna", "password_file": "/none/secret"}, "/none/secret: No such file"),
        ({"tls_key": "one.key"}, "tls_key goes with tls_cert"),
        ({"tls_ca": "/none/ca.pem"}, "tls_ca /none/ca.pem: No such file"),
        ({"tls_cert": "/none/a.pem"}, "tls_cert /none/a.pem: No such file"),
        ({"tls_ca": __file__}, "OpenSSL cannot read it"),
    ],
)
def test_a_mistake_is_one_sentence(said: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text) as raised:
        Access(**said)

    assert "\n" not in str(raised.value)


def test_a_variable_that_is_neither_true_nor_false_is_refused() -> None:
    with pytest.raises(ValueError, match="KESTRELPY_TLS: 'maybe' is neither true nor false"):
        access_of(environ={"KESTRELPY_TLS": "maybe"})


def test_a_line_without_an_end_is_no_answer_to_a_login() -> None:
    said = "the server sent bytes that are no answer"
    with answering(b"x" * 5000) as (address, _), pytest.raises(ConnectionError, match=said):
        connect(address, ANNA, 20, 20)
