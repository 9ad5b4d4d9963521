"""Standard output and the log are no journal: full, slow, gone or closed, they end nothing."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from tests.support.daemon import DaemonProcess
from tests.support.raw import Raw, wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/dev/full is Linux's")

SERVE = (sys.executable, "-m", "kestrelpy", "serve", "--port", "0", "--http-port", "0")


@contextmanager
def serving(where: Path, redirection: str) -> Iterator[subprocess.Popen[bytes]]:
    """A daemon behind a shell's redirection, which is interrupted if it does not end."""
    (where / "kestrelpy.toml").write_text('[server]\nsocket = "s"\n')
    command = ("sh", "-c", f'exec "$0" "$@" {redirection}', *SERVE)
    with subprocess.Popen(
        command, cwd=where, stdin=subprocess.DEVNULL, start_new_session=True
    ) as process:
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # the daemon behind a pipe as well


def ask(where: Path, request: bytes, answer: bytes) -> None:
    wait_until(lambda: listens(where), "it listens")
    with Raw(str(where / "s")) as raw:
        raw.ask(request, answer)


def listens(where: Path) -> bool:
    try:
        with Raw(str(where / "s")):
            return True
    except OSError:
        return False


@pytest.mark.parametrize(
    "redirection",
    [
        ">/dev/full 2>log", "2>/dev/full >out", ">/dev/full 2>&1", "2>log | true", ">&- 2>log",
        "2>&- >out", ">&- 2>&- <&-", "2>&1 | head -1",
    ],
)  # fmt: skip
def test_it_serves_and_ends_well_whatever_takes_its_output(
    tmp_path: Path, redirection: str
) -> None:
    with serving(tmp_path, redirection) as process:
        ask(tmp_path, b"set q 0 0 1\r\nx\r\n", b"STORED\r\n")
        ask(tmp_path, b"get q\r\n", b"VALUE q 0 1\r\nx\r\nEND\r\n")
        if "|" in redirection:
            return  # the signal would reach the shell, not the daemon
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    assert not list(tmp_path.glob("data/**/*CRITICAL*"))
    if "2>log" in redirection:
        log = (tmp_path / "log").read_text()
        assert "Traceback" not in log
        assert "CRITICAL" not in log
        assert "stopped: SIGTERM" in log


def test_a_log_that_nobody_reads_delays_nobody_and_says_what_is_lost(tmp_path: Path) -> None:
    readable, writable = os.pipe()
    fcntl.fcntl(writable, fcntl.F_SETPIPE_SZ, 4096)
    (tmp_path / "kestrelpy.toml").write_text('[server]\nsocket = "s"\nhttp_host = "127.0.0.1"\n')
    with subprocess.Popen(
        SERVE, cwd=tmp_path, stderr=writable, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL
    ) as process:
        os.close(writable)
        assert process.stdout is not None
        port = 0
        for line in process.stdout:
            if found := re.search(rb"http on 127\.0\.0\.1:(\d+)", line):
                port = int(found[1])
            if line.startswith(b"ready"):
                break
        ask(tmp_path, b"set q 0 0 1\r\nx\r\n", b"STORED\r\n")
        for _ in range(600):  # each leaves a line, and the pipe has room for forty
            for verb in ("pause", "resume"):
                path = f"http://127.0.0.1:{port}/admin/queues/q/{verb}"
                urlopen(Request(path, method="POST"), timeout=30).close()
        ask(tmp_path, b"get q\r\n", b"VALUE q 0 1\r\nx\r\nEND\r\n")
        process.send_signal(signal.SIGTERM)
        read = bytearray()
        while piece := os.read(readable, 1 << 16):
            read += piece
        assert process.wait(30) == 0
    os.close(readable)
    assert b"lines of this log are lost" in read


@pytest.mark.parametrize("taken", [("stdout",), ("stderr",), ("stdout", "stderr")], ids="-".join)
def test_a_start_whose_output_is_a_full_pipe_is_ready(
    tmp_path: Path, taken: tuple[str, ...]
) -> None:
    readable, writable = os.pipe()
    fcntl.fcntl(writable, fcntl.F_SETPIPE_SZ, 4096)
    os.write(writable, b"x" * 4096)  # a blocking pipe without room, as that of a stuck collector
    (tmp_path / "kestrelpy.toml").write_text('[server]\nsocket = "s"\n')
    out, err = (
        writable if each in taken else subprocess.DEVNULL for each in ("stdout", "stderr")
    )
    with subprocess.Popen(
        SERVE, cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=out, stderr=err
    ) as process:
        ask(tmp_path, b"set q 0 0 1\r\nx\r\n", b"STORED\r\n")
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    os.close(writable)
    os.close(readable)


def test_a_signal_that_it_has_no_use_for_is_a_line_in_the_log(tmp_path: Path) -> None:
    with DaemonProcess(tmp_path / "data") as daemon, Raw(("127.0.0.1", daemon.port)) as raw:
        names = ("SIGUSR1", "SIGUSR2", "SIGQUIT", "SIGALRM", "SIGVTALRM", "SIGPROF", "SIGIO")
        numbers = {name: int(getattr(signal, name)) for name in names}
        numbers |= {f"SIGRTMIN+{n}": signal.SIGRTMIN + n for n in (0, 1, 30)}
        for name, number in numbers.items():
            os.kill(daemon.pid, number)
            raw.ask(b"set q 0 0 1\r\nx\r\n", b"STORED\r\n")
            said = f"{name} ignored: SIGTERM and SIGINT end the daemon, SIGHUP reloads"
            wait_until(lambda said=said: any(said in each for each in daemon.lines), said)
        assert daemon.stop() == 0
