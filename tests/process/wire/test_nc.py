"""Requests by `nc`: typed by a person, or piped by a shell script."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.daemon import DaemonProcess

pytestmark = pytest.mark.skipif(shutil.which("nc") is None, reason="nc is not installed")


def nc(*arguments: str, text: bytes) -> bytes:
    """Run `printf ... | nc -N ...`; return its output until the server hangs up."""
    command = ["nc", "-N", *arguments]
    return subprocess.run(command, input=text, capture_output=True, timeout=30, check=True).stdout


def test_the_conversation_of_the_readme(daemon: DaemonProcess, queue: str) -> None:
    typed = [
        (f"set {queue} 0 0 5\n", b""),
        ("hello\n", b"STORED\r\n"),
        (f"get {queue}/open\n", f"VALUE {queue}/open 0 5\r\nhello\r\nEND\r\n".encode()),
        (f"get {queue}/close\n", b"END\r\n"),
    ]
    process = subprocess.Popen(
        ["nc", "127.0.0.1", str(daemon.port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None and process.stdout is not None

    for line, answer in typed:
        process.stdin.write(line.encode())
        process.stdin.flush()
        assert process.stdout.read(len(answer)) == answer
    process.stdin.write(b"quit\n")
    process.stdin.close()

    assert process.stdout.read() == b""
    assert process.wait() == 0


def test_hanging_up_instead_of_closing_gives_back(daemon: DaemonProcess, queue: str) -> None:
    process = subprocess.Popen(
        ["nc", "127.0.0.1", str(daemon.port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(f"set {queue} 0 0 5\nhello\nget {queue}/open\n".encode())
    process.stdin.flush()
    expected = f"STORED\r\nVALUE {queue}/open 0 5\r\nhello\r\nEND\r\n".encode()
    assert process.stdout.read(len(expected)) == expected

    process.kill()
    process.wait()

    assert daemon.client().get(f"{queue}/open/t=20s") == b"hello"


def test_a_pipe_gets_all_its_answers(daemon: DaemonProcess, queue: str) -> None:
    text = f"set {queue} 0 0 2\r\nhi\r\nget {queue}/peek\r\nget {queue}/t=1ms\r\nversion\r\n"

    answer = nc("127.0.0.1", str(daemon.port), text=text.encode())

    assert answer.startswith(
        f"STORED\r\nVALUE {queue}/peek 0 2\r\nhi\r\nEND\r\nVALUE {queue}/t=1ms 0 2\r\nhi\r\nEND\r\n"
        "VERSION ".encode()
    )


def test_a_long_pipe_gets_all_its_answers(daemon: DaemonProcess, queue: str) -> None:
    text = f"set {queue} 0 0 1000\n{'x' * 1000}\n" + f"get {queue}/peek\n" * 20_000

    answer = nc("127.0.0.1", str(daemon.port), text=text.encode())

    one = f"VALUE {queue}/peek 0 1000\r\n{'x' * 1000}\r\nEND\r\n"
    assert answer == b"STORED\r\n" + one.encode() * 20_000


def test_a_pipe_through_the_unix_socket(socket_path: Path, queue: str) -> None:
    answer = nc("-U", str(socket_path), text=f"set {queue} 0 0 2\nhi\nget {queue}\n".encode())

    assert answer == f"STORED\r\nVALUE {queue} 0 2\r\nhi\r\nEND\r\n".encode()
