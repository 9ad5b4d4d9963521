"""Starts the daemon as systemd does: with a NOTIFY_SOCKET, and with sockets that it listens on."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

SECONDS = 30.0
# The process that becomes the daemon must be the one that LISTEN_PID names.
_LAUNCH = """
import os, sys
handed = [int(n) for n in sys.argv[1].split(",") if n]
moved = [__import__("fcntl").fcntl(n, 0, 100) for n in handed]  # F_DUPFD: out of the way
for at, n in enumerate(moved):
    os.dup2(n, 3 + at, inheritable=True)
if handed:
    os.environ["LISTEN_PID"], os.environ["LISTEN_FDS"] = str(os.getpid()), str(len(handed))
if "WATCHDOG_USEC" in os.environ:
    os.environ["WATCHDOG_PID"] = str(os.getpid())
os.execv(sys.executable, [sys.executable, "-m", "kestrelpy", *sys.argv[2:]])
"""


class Launcher:
    """A supervisor: `notes` are the datagrams so far, `handed` the sockets of each start."""

    def __init__(self, folder: Path, handed: Sequence[socket.socket] = ()) -> None:
        self.folder, self.handed = folder, handed
        self.notes: list[str] = []
        self.path = folder / "notify"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(self.path))
        self._socket.settimeout(SECONDS)
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *words: str, **environment: str) -> None:
        """Start the daemon; it may not serve yet."""
        ours = ("KESTRELPY_", "LISTEN_", "NOTIFY_", "WATCHDOG_")
        clean = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
        numbers = [each.fileno() for each in self.handed]
        root = str(Path(__file__).parents[2])
        self.process = subprocess.Popen(
            [sys.executable, "-c", _LAUNCH, ",".join(map(str, numbers)), *words],
            env=clean | {"NOTIFY_SOCKET": str(self.path), "PYTHONPATH": root} | environment,
            pass_fds=numbers, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def await_note(self, text: str) -> str:
        """Return the next datagram with this line."""
        while True:
            note = self._socket.recv(4096).decode()
            self.notes.append(note)
            if any(line.startswith(text) for line in note.splitlines()):
                return note

    def send(self, number: int) -> None:
        """Send a signal."""
        assert self.process is not None
        self.process.send_signal(number)

    def stop(self) -> tuple[int, str]:
        """SIGTERM; return the exit code and the output."""
        self.send(signal.SIGTERM)
        return self.ended()

    def ended(self) -> tuple[int, str]:
        """Wait for the end; return the exit code and the output."""
        assert self.process is not None
        out, _ = self.process.communicate(timeout=SECONDS)
        return self.process.returncode, out.decode()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._socket.close()
        for each in self.handed:
            each.close()
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.communicate()
