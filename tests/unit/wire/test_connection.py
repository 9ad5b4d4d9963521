"""A blocking connection: answers in the order of the requests, and what its end means."""

from __future__ import annotations

import ssl
from typing import Any

import pytest

from kestrelpy.wire import dial
from kestrelpy.wire.connection import WireConnection
from kestrelpy.wire.dial import NOBODY, Access, Address


class Chunks:
    """A socket that receives these chunks, and then its end; an exception is raised."""

    def __init__(self, *chunks: bytes | Exception) -> None:
        self.chunks = list(chunks)
        self.sent = b""

    def sendall(self, data: bytes) -> None:
        self.sent += data

    def recv(self, size: int) -> bytes:
        chunk = self.chunks.pop(0) if self.chunks else b""
        if isinstance(chunk, Exception):
            raise chunk
        return chunk


@pytest.fixture
def explained(monkeypatch: pytest.MonkeyPatch) -> list[OSError]:
    """The errors that were explained: a server was asked whether it speaks TLS."""
    asked: list[OSError] = []

    def explain(error: OSError, *_: object) -> OSError:
        asked.append(error)
        return dial.TlsRefused("this port speaks TLS")

    monkeypatch.setattr(dial, "explained", explain)
    return asked


def connected(
    monkeypatch: pytest.MonkeyPatch, *chunks: bytes | Exception
) -> tuple[WireConnection, Chunks]:
    sock = Chunks(*chunks)

    def connect(address: Address, access: Access, *seconds: float) -> Any:
        assert (address, access, seconds) == (("a", 1), NOBODY, (2.0, 30.0))
        return sock

    monkeypatch.setattr(dial, "connect", connect)
    return WireConnection(("a", 1), NOBODY, 2.0, 30.0), sock


def test_answers_come_one_by_one_as_they_were_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chunks = (b"STORED\r\nVALUE q 0 1\r\nx\r\nEND\r\nEN", b"D\r\n")
    connection, sock = connected(monkeypatch, *chunks)
    connection.send(b"set q 0 0 1\r\nx\r\nget q\r\nget q\r\n")

    stored, item, nothing = [connection.answer() for _ in range(3)]

    assert sock.sent == b"set q 0 0 1\r\nx\r\nget q\r\nget q\r\n"
    assert (stored.line, item.bodies, nothing.bodies) == (b"STORED", [b"x"], [])


@pytest.mark.parametrize("chunks", [(), (b"\x15\x03\x03",), (ConnectionResetError(),)])
def test_an_end_before_the_first_line_is_explained(
    monkeypatch: pytest.MonkeyPatch, explained: list[OSError], chunks: tuple[Any, ...]
) -> None:
    connection, _ = connected(monkeypatch, *chunks)

    with pytest.raises(dial.TlsRefused, match="speaks TLS"):
        connection.answer()

    assert len(explained) == 1


def test_a_later_end_is_what_it_is(
    monkeypatch: pytest.MonkeyPatch, explained: list[OSError]
) -> None:
    connection, _ = connected(monkeypatch, b"END\r\n")
    connection.answer()

    with pytest.raises(ConnectionError, match="the server closed the connection"):
        connection.answer()

    assert explained == []


def test_an_answer_that_does_not_come_in_time_is_not_explained(
    monkeypatch: pytest.MonkeyPatch, explained: list[OSError]
) -> None:
    connection, _ = connected(monkeypatch, TimeoutError())

    with pytest.raises(TimeoutError):
        connection.answer()

    assert explained == []


def test_a_message_of_tls_itself_is_no_answer_and_no_end(
    monkeypatch: pytest.MonkeyPatch, explained: list[OSError]
) -> None:
    connection, _ = connected(monkeypatch, ssl.SSLWantReadError(), b"END\r\n")

    with pytest.raises(BlockingIOError):
        connection.receive()

    assert connection.answer().line == b"END"
    assert explained == []
