"""One connection to a server: an answer counts once its END has arrived."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest

from kestrelpy.spark.errors import KestrelError
from kestrelpy.spark.live.wire import LiveConnection, Lost, Patience, ServerUnreachable, why
from kestrelpy.spark.offsets import Address

PATIENCE = Patience(connect_ms=30_000, read_ms=30_000, retries=0, retry_ms=0)
Serve = Callable[..., LiveConnection]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Return a wire to a server that answers a request with these chunks, and hangs up."""
    ends: list[Callable[[], None]] = []

    def made(*chunks: bytes, patience: Patience = PATIENCE) -> LiveConnection:
        path = str(tmp_path / f"{len(ends)}.sock")
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        listener.listen()

        def answer() -> None:
            with listener, listener.accept()[0] as other, suppress(OSError):
                other.recv(1000)
                for chunk in chunks:
                    other.sendall(chunk)

        thread = threading.Thread(target=answer)
        thread.start()
        wire = LiveConnection(Address(path), patience)
        ends.extend((wire.close, thread.join))
        return wire

    yield made
    for end in ends:
        end()


def value(marker: int, body: bytes) -> bytes:
    return b"VALUE q/peek 7 %d %d 1700 - 0 ready - -\r\n%b\r\n" % (len(body), marker, body)


def asked(wire: LiveConnection) -> LiveConnection:
    wire.ask("gets q/peek/after=0/n=9/full")
    return wire


class InChunks:
    """A socket that gives `size` bytes at a time."""

    def __init__(self, inner: socket.socket, size: int) -> None:
        self._inner, self._size = inner, size

    def recv(self, size: int) -> bytes:
        return self._inner.recv(min(size, self._size))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


@pytest.mark.parametrize("chunk", [1, 7, 64, 100_000])
def test_an_answer_is_the_same_in_chunks_of_any_size(serve: Serve, chunk: int) -> None:
    bodies = [b"", b"x", b"\r\nEND\r\n", b"y" * 3000]
    answer = b"".join(value(n, body) for n, body in enumerate(bodies, 1)) + b"END\r\n"
    wire = serve(answer)
    wire._socket = cast(socket.socket, InChunks(wire._socket, chunk))

    found = asked(wire).values()

    assert found.lengths == [0, 1, 7, 3000]
    assert found.bodies == b"".join(bodies)
    assert [fields[4] for fields in found.lines] == [b"1", b"2", b"3", b"4"]
    assert found.last_marker == 4


def test_an_answer_larger_than_the_room_is_read_whole(serve: Serve) -> None:
    large = bytes(range(256)) * (24 << 10)

    chunks = (value(1, b"small"), value(2, large), value(3, b"last"), b"END\r\n")
    found = asked(serve(*chunks)).values()

    assert found.lengths == [5, len(large), 4]
    assert found.bodies == b"small" + large + b"last"


def test_no_items_are_an_empty_answer(serve: Serve) -> None:
    found = asked(serve(b"END\r\n")).values()
    assert (found.lines, found.bodies) == ([], b"")


@pytest.mark.parametrize(
    "sent", [b"", value(1, b"x"), value(1, b"x") + b"EN", value(1, b"xyz")[:-4], b"VALUE q"]
)
def test_an_answer_without_its_end_is_lost(serve: Serve, sent: bytes) -> None:
    with pytest.raises(Lost, match="hung up"):
        asked(serve(sent)).values()


def test_a_refusal_is_the_server_s_own_sentence(serve: Serve) -> None:
    with pytest.raises(KestrelError, match=r" refused: queue q has no such marker\.$"):
        asked(serve(b"CLIENT_ERROR queue q has no such marker\r\n")).values()


@pytest.mark.parametrize("said", [b"HTTP/1.1 400 Bad Request", b"ERROR", b"VALUE q 0 5", b"STAT a"])
def test_an_answer_of_another_kind_is_shown(serve: Serve, said: bytes) -> None:
    with pytest.raises(KestrelError, match="which is not what kestrelpy says") as caught:
        asked(serve(said + b"\r\n")).values()

    assert repr(said.decode()) in str(caught.value)


def test_a_line_without_end_is_no_memcache(serve: Serve) -> None:
    with pytest.raises(KestrelError, match="does not speak memcache"):
        asked(serve(b"x" * (65 << 10))).values()


def test_statistics_are_names_and_values(serve: Serve) -> None:
    wire = serve(b"STAT a 1\r\nSTAT b two words\r\nEND\r\n")
    assert wire.stats("queues") == {"a": "1", "b": "two words"}


def test_a_server_says_its_id_among_its_statistics(serve: Serve) -> None:
    assert serve(b"STAT version 1\r\nSTAT server_id 5e12\r\nSTAT more 1\r\n").server_id() == "5e12"
    with pytest.raises(KestrelError, match="does not say its id"):
        serve(b"STAT version 1\r\nEND\r\n").server_id()


def test_a_server_that_is_not_there_is_lost_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(Lost, match="No such file"):
        LiveConnection(Address(str(tmp_path / "none.sock")), PATIENCE)
    assert why(TimeoutError()) == "no answer in time"
    assert why(OSError()) == "OSError"
    gone = ServerUnreachable(Address("a", 1), "no answer in time")
    assert str(gone).startswith("The server a:1 cannot be reached: no answer in time.")
    assert "are skipped" in gone.skipped
