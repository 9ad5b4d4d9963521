"""Three daemons as processes of their own, on loopback, each with its folder: for `pipeline`.

    FOLDER/daemon-1/kestrelpy.toml   data/   archive/   daemon.log

Segments are small and go to `archive_to` when the journal does not need them any more, so that the
whole history stays, in many files.

One rule: however a run ends, no process is left behind.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from pymemcache.client.base import Client

DAEMONS: Final = 3
ATTEMPTS: Final = 3
_CONFIG: Final = f"""\
[server]
host = "127.0.0.1"

[journal]
segment_min = "32KiB"
segment_max = "128KiB"

[queue_defaults]
max_attempts = {ATTEMPTS}
archive_to = "archive"
"""
_START_SECONDS: Final = 60.0
_STOP_SECONDS: Final = 30.0
_LOOK_SECONDS: Final = 0.02


class Failed(Exception):
    """The run cannot go on; the text says why."""


class Daemon:
    """One daemon. After a restart it has the same port."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True)
        (folder / "kestrelpy.toml").write_text(_CONFIG)

    @property
    def paths(self) -> list[str]:
        """The folders with its journals: the data directory, and the archive if it has any."""
        data, archive = self.folder / "data", self.folder / "archive"
        return [str(data), *([str(archive)] if any(archive.glob("*.segment")) else [])]

    def start(self) -> None:
        """Start it, or start it again, and wait until it is ready. Raises Failed."""
        out, log = self.folder / "daemon.out", self.folder / "daemon.log"
        command = [
            sys.executable, "-m", "kestrelpy", "serve",
            "--config", str(self.folder / "kestrelpy.toml"),
            "--data-dir", str(self.folder / "data"), "--port", str(self.port),
            "--http-port", "off",
        ]  # fmt: skip
        with out.open("w") as stdout, log.open("a") as stderr:
            self._process = subprocess.Popen(command, stdout=stdout, stderr=stderr)
        deadline = time.monotonic() + _START_SECONDS
        while "\nready" not in (said := out.read_text()):
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise Failed(f"{self.folder.name} did not start:\n{log.read_text()}")
            time.sleep(_LOOK_SECONDS)
        for line in said.splitlines():
            if line.startswith("listening: memcache"):
                self.port = int(line.rpartition(":")[2])

    def client(self) -> Client:
        """Return a client with a connection of its own that waits for answers."""
        address = ("127.0.0.1", self.port)
        return Client(address, connect_timeout=5, timeout=30, default_noreply=False, no_delay=True)

    def is_empty(self, queues: list[str]) -> bool:
        """True if no item is ready or leased. Raises OSError if the daemon is down."""
        client = self.client()
        try:
            for queue in queues:
                stats = client.stats(queue)
                names = (f"queue_{queue}_{key}" for key in ("items", "open_transactions"))
                if any(stats.get(name.encode(), 0) for name in names):
                    return False
            return True
        finally:
            client.close()

    def total(self, queues: list[str]) -> int:
        """Return how many items these queues ever had. Raises OSError if the daemon is down."""
        client = self.client()
        try:
            stats = client.stats()
            return sum(int(stats.get(f"queue_{q}_total_items".encode(), 0)) for q in queues)
        finally:
            client.close()

    def kill(self) -> None:
        """Kill it with `kill -9`."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> None:
        """Stop it with SIGTERM: requests in flight are answered. Raises Failed."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            code = self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            raise Failed(f"{self.folder.name} did not end within {_STOP_SECONDS:.0f} s") from None
        if code:
            log = (self.folder / "daemon.log").read_text()
            raise Failed(f"{self.folder.name} ended with exit code {code}:\n{log}")
