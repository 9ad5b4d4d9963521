"""The command `kestrelpy` as a user runs it: a process, its output and its exit code."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from tests.support import fork_server
from tests.support.daemon import DaemonProcess

SECONDS = 30.0


class Command:
    """Runs `kestrelpy ...` against one server."""

    def __init__(self, port: int, folder: Path) -> None:
        self.server = f"127.0.0.1:{port}"
        self.folder = folder  # the working directory: no kestrelpy.toml lies there

    def start(
        self, *words: str, stdout: int | BinaryIO = subprocess.PIPE, **environment: str
    ) -> subprocess.Popen[bytes]:
        """Start it."""
        ours = ("KESTRELPY_", "PYTHONUNBUFFERED")  # the latter would hide a missing flush
        clean = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
        source = str(Path(__file__).parents[3])
        return fork_server.start(
            words,
            stdin=subprocess.PIPE, stdout=stdout, stderr=subprocess.PIPE,
            env={**clean, "PYTHONPATH": source, "KESTRELPY_SERVER": self.server, **environment},
            cwd=self.folder,
        )  # fmt: skip

    def __call__(self, *words: str, stdin: bytes = b"", **environment: str) -> Ended:
        """Run it to its end."""
        return self.finish(self.start(*words, **environment), stdin)

    def finish(self, process: subprocess.Popen[bytes], stdin: bytes = b"") -> Ended:
        """Wait for the end of a started command."""
        try:
            out, err = process.communicate(stdin, SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        return Ended(process.returncode, out, err.decode())


class Ended:
    """The result of a command."""

    def __init__(self, code: int, out: bytes, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    def __repr__(self) -> str:
        return f"exit code {self.code}, stdout {self.out!r}, stderr {self.err!r}"

    def is_sentence(self, code: int) -> bool:
        """True if stderr is one line with the program's name, and the exit code is `code`."""
        lines = self.err.splitlines()
        return self.code == code and len(lines) == 1 and lines[0].startswith("kestrelpy: ")


def eventually(condition: Callable[[], object], seconds: float = SECONDS) -> None:
    """Wait until it is true."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to be"
        time.sleep(0.01)


def counts(daemon: DaemonProcess, queue: str) -> dict[str, int]:
    """`stats <queue>`."""
    client = daemon.client()
    prefix = f"queue_{queue}_"
    found = {key.decode().removeprefix(prefix): n for key, n in client.stats(queue).items()}
    client.close()
    return found
