"""Servers that cannot be reached, do not answer, or are something else: one sentence each."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kestrelpy.cli import remote
from kestrelpy.cli.errors import CommandError
from tests.process.cli.command import Command
from tests.support.daemon import DaemonProcess


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


@pytest.mark.parametrize(
    "words",
    [["status"], ["queues", "ls"], ["put", "q", "x"], ["get", "q"], ["peek", "q"],
     ["work", "q", "--once", "--", "cat"]],
)  # fmt: skip
def test_an_unreachable_server_is_one_sentence(kestrelpy: Command, words: list[str]) -> None:
    server = f"127.0.0.1:{closed_port()}"

    ended = kestrelpy(*words, KESTRELPY_SERVER=server)

    assert ended.is_sentence(2), ended
    assert f"no server at {server}: Connection refused" in ended.err
    assert ended.out == b""


def test_a_name_without_an_address_is_one_sentence(kestrelpy: Command) -> None:
    ended = kestrelpy("status", "--server", "no-such-host.invalid:22133")

    assert ended.is_sentence(2), ended
    assert "no-such-host.invalid:22133" in ended.err


def test_the_flag_wins_over_the_environment(kestrelpy: Command, daemon: DaemonProcess) -> None:
    ended = kestrelpy(
        "status", "--server", f"127.0.0.1:{daemon.port}", KESTRELPY_SERVER="127.0.0.1:1"
    )

    assert ended.code == 0, ended


def test_localhost_is_found_wherever_the_server_listens(
    kestrelpy: Command, daemon: DaemonProcess
) -> None:
    assert kestrelpy("status", "--server", f"localhost:{daemon.port}").code == 0


def test_a_unix_socket_is_a_server_too(kestrelpy: Command, tmp_path: Path) -> None:
    path = tmp_path / "s"
    with DaemonProcess(tmp_path / "data", config=f'[server]\nsocket = "{path}"'):
        assert kestrelpy("put", "q", "x", "--server", str(path)).code == 0
        assert kestrelpy("get", "q", "--server", str(path)).out == b"x"

    assert kestrelpy("status", "--server", str(tmp_path / "none")).is_sentence(2)


@contextmanager
def answering(answer: bytes | None) -> Iterator[str]:
    """A server with one reply to every request; None: no reply."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            peer, _ = server.accept()
            with peer:
                while peer.recv(4096):
                    if answer is not None:
                        peer.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
    thread.join()


@pytest.mark.parametrize(
    ("answer", "code", "said"),
    [
        (None, 2, "no answer in time"),
        (b"ERROR\r\n", 2, "is it kestrelpy?"),
        (b"-ERR unknown command\r\n", 2, "said: "),
        (b"CLIENT_ERROR no such option\r\n", 2, "refused: no such option"),
        (b"SERVER_ERROR too many connections\r\n", 1, "refused: too many connections"),
    ],
)
def test_the_reply_of_another_server_is_one_sentence(
    answer: bytes | None, code: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "ANSWER_SECONDS", 0.1)
    with (
        answering(answer) as server,
        pytest.raises(CommandError) as raised,
        remote.connected(server) as client,
    ):
        client.get("q")

    assert said in str(raised.value)
    assert raised.value.code == code


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:22133", ("127.0.0.1", 22133)),
        ("[::1]:1", ("::1", 1)),
        ("queue.example:65535", ("queue.example", 65535)),
        ("/run/kestrelpy.sock", "/run/kestrelpy.sock"),
        ("./kestrelpy.sock", "./kestrelpy.sock"),
    ],
)
def test_an_address_is_host_and_port_or_a_path(text: str, address: object) -> None:
    assert remote.parse_address(text) == address


@pytest.mark.parametrize(
    "text", ["", "host", "host:", ":1", "host:x", "host:65536", "host:²", "k.sock"]
)
def test_an_invalid_address_is_refused(text: str) -> None:
    with pytest.raises(CommandError, match="is not a server's address"):
        remote.parse_address(text)
