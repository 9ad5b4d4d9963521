"""Kestrel's simple text protocol on a port of its own, with real sockets.

Promise text-port: kill of the real process; syncs held back by hand; failed writes; power cut on a
    memory disk.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.daemon import DaemonProcess
from tests.support.kills import leave_nothing
from tests.support.launcher import Launcher
from tests.support.raw import Raw, resident_bytes, wait_until

ROOT = Path(__file__).parents[3]
MIB = 1 << 20
ON = "[server]\ntext_port = 0\n"


def text_port(daemon: DaemonProcess) -> int:
    """Return the port of the last start."""
    found = re.findall(r"^listening: text on 127\.0\.0\.1:(\d+)$", "".join(daemon.lines), re.M)
    return int(found[-1])


def connect(daemon: DaemonProcess, *, receive_buffer: int = 0) -> Raw:
    return Raw(("127.0.0.1", text_port(daemon)), receive_buffer=receive_buffer)


@pytest.fixture(scope="module")
def texting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    with DaemonProcess(tmp_path_factory.mktemp("text") / "data", config=ON) as process:
        yield process
        leave_nothing(process)


@pytest.fixture
def text(texting: DaemonProcess) -> Iterator[Raw]:
    with connect(texting) as connection:
        yield connection


def test_items_go_in_by_the_put_and_come_out_one_by_one(text: Raw, queue: str) -> None:
    name = queue.encode()
    text.ask(b"put %b:\none\ntwo\nthree\n\n" % name, b"+3\n")
    for item in (b":one\n", b":two\n", b":three\n", b"*\n"):
        text.ask(b"get %b\n" % name, item)


def test_a_get_waits_until_an_item_comes_by_the_other_port(
    texting: DaemonProcess, text: Raw, queue: str
) -> None:
    text.ask(f"get {queue} 20\n".encode(), b"*\n")
    client = texting.client()
    assert client.set(queue, b"first")
    text.ask(f"get {queue}\n".encode(), b":first\n")
    text.send(f"get {queue} 60000\n".encode())
    wait_until(lambda: client.stats()[f"queue_{queue}_waiters".encode()] == 1, "a waiter")
    assert client.set(queue, b"hello")
    text.expect(b":hello\n")
    text.ask(f"confirm {queue} 1\n".encode(), b"+1\n")
    client.close()


def test_a_hang_up_gives_back_what_was_not_confirmed(
    texting: DaemonProcess, text: Raw, queue: str
) -> None:
    name = queue.encode()
    text.ask(b"put %b:\none\ntwo\n\n" % name, b"+2\n")
    gone = connect(texting)
    gone.ask(b"get %b\n" % name, b":one\n")
    gone.ask(b"get %b\n" % name, b":two\n")  # one is confirmed, and two is not
    text.ask(b"get %b\n" % name, b"*\n")
    gone.hang_up()
    text.ask(b"get %b 60000\n" % name, b":two\n")
    text.ask(b"confirm %b 1\n" % name, b"+1\n")


def test_a_put_that_was_answered_survives_a_kill(tmp_path: Path) -> None:
    items, number = [], 0
    with DaemonProcess(tmp_path / "data", config=ON) as daemon:
        for _ in range(5):
            with connect(daemon) as text:
                for size in (1, 1024, 7):
                    some = [b"%d" % (number + each) for each in range(size)]
                    number += size
                    text.ask(b"put jobs:\n%b\n\n" % b"\n".join(some), b"+%d\n" % size)
                    items += some
                # This one is in flight: stored or not, but never in part before another.
                text.send(b"put half:\nx\n\n")
                daemon.kill()
            daemon.start()
        with connect(daemon) as text:
            for item in items:
                text.ask(b"get jobs\n", b":%b\n" % item)
            text.ask(b"get jobs\n", b"*\n")


def test_a_confirmed_item_does_not_come_back_after_a_kill(tmp_path: Path) -> None:
    with DaemonProcess(tmp_path / "data", config=ON) as daemon:
        with connect(daemon) as text:
            text.ask(b"put jobs:\none\ntwo\nthree\n\n", b"+3\n")
            text.ask(b"get jobs\n", b":one\n")
            text.ask(b"get jobs\n", b":two\n")  # its reply says that one is confirmed
            daemon.kill()
        daemon.start()
        with connect(daemon) as text:
            text.ask(b"get jobs\n", b":two\n")
            text.ask(b"confirm jobs 1\n", b"+1\n")
            daemon.kill()
        daemon.start()
        with connect(daemon) as text:
            text.ask(b"get jobs\n", b":three\n")


def test_a_client_that_never_reads_is_not_noticed(
    texting: DaemonProcess, text: Raw, queue: str
) -> None:
    with connect(texting, receive_buffer=4096) as deaf:
        text.ask(f"put {queue}:\n".encode() + b"x" * MIB + b"\n\n", b"+1\n")
        before = resident_bytes(texting.pid)
        deaf.sock.setblocking(False)
        with pytest.raises(BlockingIOError):
            while True:
                deaf.sock.send(f"peek {queue}\n".encode() * 1000)
        for _ in range(20):
            text.ask(b"status\n", b":UP\n")
        assert resident_bytes(texting.pid) - before < 48 * MIB
    text.ask(f"flush {queue}\n".encode(), b"+0\n")


def test_a_put_without_an_end_is_not_stored(texting: DaemonProcess, text: Raw, queue: str) -> None:
    with connect(texting) as endless:
        before = resident_bytes(texting.pid)
        read = int(texting.client().stats()[b"bytes_read"])
        endless.send(f"put {queue}:\n".encode())
        for _ in range(100):
            endless.send(b"x" * (MIB - 1) + b"\n")
        text.ask(b"status\n", b":UP\n")
        wait_until(
            lambda: int(texting.client().stats()[b"bytes_read"]) - read > 100 * (MIB - 1),
            "all of it read",
        )
        assert resident_bytes(texting.pid) - before < 48 * MIB
        said = b"-put too large (limit 8388608 bytes): nothing was stored\n:UP\n"
        endless.ask(b"\nstatus\n", said)
    text.ask(f"get {queue}\n".encode(), b"*\n")


@pytest.mark.parametrize(
    "first", [b"\x80\x00\x00\x01", b"POST /q HTTP/1.1\r\n\r\nput q:\r\nx\r\n\r\n", b"Host: x\n"]
)
def test_the_wrong_protocol_is_closed_without_a_word(text: Raw, first: bytes) -> None:
    text.send(first)
    assert text.rest() in (b"", b"(reset)")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"get q x", b"-Error parsing timeout."), (b"get", b"-Queue name required."),
        (b"confirm q 1", b"-Not that many transactions open."),
        (b"stats", b"-Unknown command: stats."), (b"\xff\xfe", b"-Unknown command: \\xff\\xfe."),
        (b"put q\nstatus\n", b"-put needs a colon"), (b"monitor q", b"-Queue name & timeout"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_one_line_and_the_connection_stays(
    text: Raw, line: bytes, said: bytes
) -> None:
    text.send(line + b"\nversion\n")
    answer = b""
    while answer.count(b"\n") < 2:
        answer += text.read(1)
    assert answer.startswith(said) and answer.splitlines()[1].startswith(b":")


def test_connections_of_both_ports_are_counted_together(tmp_path: Path) -> None:
    config = f"{ON}max_connections = 2\n"
    with DaemonProcess(tmp_path / "data", config=config) as daemon, connect(daemon) as text:
        text.ask(b"status\n", b":UP\n")
        with Raw(("127.0.0.1", daemon.port)) as other:
            assert other.stats()["curr_connections"] == "2"
            with connect(daemon) as third:
                assert third.rest() == b"-too many connections\n"


def test_an_idle_connection_is_closed_but_not_one_that_waits_or_holds(tmp_path: Path) -> None:
    config = f'{ON}idle_timeout = "300ms"\n'
    with (
        DaemonProcess(tmp_path / "data", config=config) as daemon,
        connect(daemon) as idle, connect(daemon) as holder, connect(daemon) as waiter,
    ):  # fmt: skip
        holder.ask(b"put jobs:\nx\n\n", b"+1\n")
        holder.ask(b"get jobs\n", b":x\n")
        waiter.send(b"get other 60000\n")
        idle.send(b"status\n")
        assert idle.rest() in (b":UP\n", b":UP\n(reset)", b"(reset)")
        holder.ask(b"put other:\ny\n\n", b"+1\n")
        waiter.expect(b":y\n")
        holder.ask(b"confirm jobs 1\n", b"+1\n")


def test_a_stop_answers_who_waits_and_counts_no_attempt(tmp_path: Path) -> None:
    with DaemonProcess(tmp_path / "data", config=ON) as daemon:
        with connect(daemon) as text, connect(daemon) as waiter:
            text.ask(b"put jobs:\nx\n\n", b"+1\n")
            text.ask(b"get jobs\n", b":x\n")
            waiter.send(b"get other 60000\n")
            client = daemon.client()
            assert daemon.stop() == 0
            assert waiter.rest() in (b"*\n", b"")
            client.close()
        daemon.start()
        with Raw(("127.0.0.1", daemon.port)) as other:
            other.send(b"gets jobs/open/full\r\n")
            assert other.line().split()[7] == b"0"


def test_a_port_in_use_ends_the_start_with_one_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = subprocess.run(
            [
                sys.executable, "-m", "kestrelpy", "serve", "--data-dir", str(tmp_path),
                "--http-port", "off",
            ],
            env={
                **os.environ, "KESTRELPY_SERVER_PORT": "0", "KESTRELPY_SERVER_TEXT_PORT": str(port)
            },
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
    assert done.returncode == 2
    assert f"cannot listen on 127.0.0.1:{port}: Address already in use" in done.stderr
    assert "ready" not in done.stdout and "Traceback" not in done.stderr


IMPORTED = """
import asyncio, sys
from pathlib import Path
from kestrelpy.config import Config
from kestrelpy.server import Daemon
async def main():
    config = Config.model_validate({"server": {"port": 0, "http_port": "off", "data_dir": sys.argv[1]} | eval(sys.argv[2])})
    daemon = Daemon(config, lambda: config, print)
    await daemon.start()
    await daemon.stop()
asyncio.run(main())
print("text is", "in" if "kestrelpy.protocol.text" in sys.modules else "out")
"""  # noqa: E501


@pytest.mark.parametrize(
    ("settings", "count", "said"),
    [("{}", 1, "text is out"), ("{'text_port': 'off'}", 1, "text is out"),
     ("{'text_port': 0}", 2, "text is in")],
)  # fmt: skip
def test_what_is_off_neither_listens_nor_is_imported(
    tmp_path: Path, settings: str, count: int, said: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", IMPORTED, str(tmp_path / "data"), settings],
        capture_output=True, text=True, timeout=60, check=True, cwd=ROOT,
    )  # fmt: skip
    lines = done.stdout.splitlines()
    assert lines[-1] == said
    listening = [line for line in lines if line.startswith("listening: ")]
    assert len(listening) == count
    assert lines.index(listening[-1]) < [line.startswith("ready: ") for line in lines].index(True)


def test_a_reload_says_that_the_port_waits_for_the_next_start(tmp_path: Path) -> None:
    with DaemonProcess(tmp_path / "data", config=ON) as daemon:
        daemon.config_file.write_text('[server]\ntext_port = "off"\n')
        os.kill(daemon.pid, signal.SIGHUP)
        said = "[server] text_port: applied at the next start, not by a reload"
        wait_until(lambda: any(said in line for line in daemon.lines), "a warning")
        with connect(daemon) as text:
            text.ask(b"status\n", b":UP\n")


def test_a_socket_of_the_name_text_that_is_handed_over_speaks_text(tmp_path: Path) -> None:
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    ports = [each.getsockname()[1] for each in listeners]
    serve = ("serve", "--data-dir", "data", "--http-port", "off")
    with Launcher(tmp_path, listeners) as launcher:
        launcher.start(*serve, LISTEN_FDNAMES="kestrelpy.socket:text")
        launcher.await_note("READY=1")
        with Raw(("127.0.0.1", ports[1])) as text, Raw(("127.0.0.1", ports[0])) as other:
            text.ask(b"put jobs:\nx\n\n", b"+1\n")
            other.ask(b"get jobs\r\n", b"VALUE jobs 0 1\r\nx\r\nEND\r\n")
        code, out = launcher.stop()
    assert code == 0
    assert f"listening: memcache on 127.0.0.1:{ports[0]}, handed over\n" in out
    assert f"listening: text on 127.0.0.1:{ports[1]}, handed over\n" in out


def test_the_text_port_is_opened_beside_sockets_that_are_handed_over(tmp_path: Path) -> None:
    with Launcher(tmp_path, [socket.create_server(("127.0.0.1", 0))]) as launcher:
        launcher.start(
            "serve", "--data-dir", "data", "--http-port", "off", KESTRELPY_SERVER_TEXT_PORT="0"
        )
        launcher.await_note("READY=1")
        _, out = launcher.stop()
    assert len(re.findall(r"^listening: text on 127\.0\.0\.1:\d+$", out, re.M)) == 1
