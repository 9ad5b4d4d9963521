"""The text port before several slices, with real sockets."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.process.wire.test_text_port import connect
from tests.support.daemon import DaemonProcess
from tests.support.launcher import Launcher
from tests.support.raw import Raw

CONFIG = "[server]\ntext_port = 0\n[fleet]\nslices = 3\n"


@pytest.fixture(scope="module")
def router(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    with DaemonProcess(tmp_path_factory.mktemp("text") / "data", config=CONFIG) as running:
        yield running


def test_each_queue_is_in_its_slice_and_the_answers_come_in_order(router: DaemonProcess) -> None:
    with connect(router) as text:
        text.send(b"put a:\none\n\nput c:\ntwo\nthree\n\nget a\nget c\nmonitor c 0\nstatus\n")
        said = b"+1\n+2\n:one\n:two\n*\n:UP\n"
        assert text.read(len(said)) == said
        text.ask(b"confirm c 1\n", b"+1\n")
    with router.socket() as other:
        other.sendall(b"get c\r\n")
        assert other.recv(100) == b"VALUE c 0 5\r\nthree\r\nEND\r\n"


def test_a_wait_ends_with_the_item_a_hang_up_or_the_end_of_the_input(router: DaemonProcess) -> None:
    with connect(router) as text, connect(router) as other:
        text.send(b"get b 60000\n")
        other.ask(b"put b:\none\n\n", b"+1\n")
        assert text.read(5) == b":one\n"
    with connect(router) as text:  # the hang-up gave it back
        text.ask(b"get b 60000\n", b":one\n")
        text.ask(b"confirm b 1\n", b"+1\n")
        text.send(b"get b 60000\nput c:\ntwo\n\nget c\n")
        text.sock.shutdown(socket.SHUT_WR)
        assert text.read(100) == b"*\n+1\n:two\n"


def test_a_handed_over_socket_of_the_name_text_speaks_it(tmp_path: Path) -> None:
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    ports = [each.getsockname()[1] for each in listeners]
    with Launcher(tmp_path, listeners) as launcher:
        launcher.start(
            "serve", "--data-dir", "data", "--http-port", "off",
            LISTEN_FDNAMES="kestrelpy.socket:text", KESTRELPY_FLEET_SLICES="2",
        )  # fmt: skip
        launcher.await_note("READY=1")
        with Raw(("127.0.0.1", ports[1])) as text, Raw(("127.0.0.1", ports[0])) as other:
            text.ask(b"put a:\nx\n\n", b"+1\n")
            other.ask(b"get a\r\n", b"VALUE a 0 1\r\nx\r\nEND\r\n")
            text.ask(b"shutdown\n", b"-shutdown is not allowed on this server (allow_shutdown)\n")
        code, out = launcher.stop()
    assert code == 0
    assert f"listening: text on 127.0.0.1:{ports[1]}, handed over\n" in out
