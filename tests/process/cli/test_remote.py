"""Servers that cannot be reached, do not answer, or are something else: one sentence each."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kestrelpy.cli import remote
from kestrelpy.cli.at import At
from kestrelpy.cli.errors import CommandError
from tests.process.cli.command import Command
from tests.support.daemon import DaemonProcess


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A daemon that takes connections and does not answer."""
    with DaemonProcess(tmp_path_factory.mktemp("stopped") / "data") as daemon:
        os.kill(daemon.pid, signal.SIGSTOP)
        yield f"127.0.0.1:{daemon.port}"
        os.kill(daemon.pid, signal.SIGCONT)


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


COMMANDS = [
    ["status"], ["top", "--once"], ["put", "q", "x"], ["get", "q"], ["peek", "q"],
    ["move", "q", "r"],
    ["queues", "ls"], ["queues", "show", "q"], ["queues", "create", "q"], ["queues", "pause", "q"],
    ["queues", "resume", "q"], ["queues", "flush", "q"], ["queues", "delete", "q"],
    ["items", "ls", "q"], ["items", "show", "q", "1"], ["item", "show", "q", "1"],
    ["item", "cancel", "q", "1"], ["item", "retry", "q", "1"], ["dead", "ls", "q"],
    ["dead", "purge", "q", "1"], ["dead", "redrive", "q", "1"], ["schedules", "ls"],
]  # fmt: skip


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_no_command_waits_longer_for_a_stopped_daemon_than_its_timeout(
    kestrelpy: Command, stopped: str, words: list[str]
) -> None:
    ended = kestrelpy(*words, "--server", stopped, "--timeout", "150ms")

    assert ended.is_sentence(2), ended
    assert f"{stopped}: no answer within 150ms (--timeout)" in ended.err


def test_the_timeout_comes_from_the_environment_too(kestrelpy: Command, stopped: str) -> None:
    ended = kestrelpy("status", "--server", stopped, KESTRELPY_TIMEOUT="120ms")

    assert "no answer within 120ms" in ended.err


@pytest.mark.parametrize(
    ("timeout", "said"), [("5", '--timeout: "5" is not a duration'), ("0s", "at least 1ms")]
)
def test_an_unusable_timeout_is_one_sentence(kestrelpy: Command, timeout: str, said: str) -> None:
    ended = kestrelpy("status", "--timeout", timeout)

    assert ended.is_sentence(2), ended
    assert said in ended.err


@pytest.mark.parametrize(
    "words",
    [each for each in COMMANDS
     if "q" in each and each[0] != "put" and each[:2] != ["queues", "create"]],
    ids=" ".join,
)  # fmt: skip
def test_an_unknown_queue_is_the_same_sentence_everywhere(
    kestrelpy: Command, words: list[str]
) -> None:
    ended = kestrelpy(*("nosuch" if word == "q" else word for word in words))

    assert (ended.code, ended.err) == (1, "kestrelpy: no queue nosuch\n"), ended
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
        (None, 2, "no answer within 100ms (--timeout)"),
        (b"ERROR\r\n", 2, "is it kestrelpy?"),
        (b"-ERR unknown command\r\n", 2, "said: "),
        (b"CLIENT_ERROR no such option\r\n", 2, "refused: no such option"),
        (b"SERVER_ERROR too many connections\r\n", 1, "refused: too many connections"),
    ],
)
def test_the_reply_of_another_server_is_one_sentence(
    answer: bytes | None, code: int, said: str
) -> None:
    with (
        answering(answer) as server,
        pytest.raises(CommandError) as raised,
        remote.connected(At(server, 100)) as client,
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
    "text",
    [
        "", "host", "host:", ":1", "host:x", "host:65536", "host:²", "k.sock", "http://host:1",
        "kestrelpy://host:22133",
    ],
)  # fmt: skip
def test_an_invalid_address_is_refused(text: str) -> None:
    with pytest.raises(CommandError, match="is not a server's address"):
        remote.parse_address(text)
