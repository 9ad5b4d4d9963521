"""A daemon whose memory, files and disk are read while it runs; stopped, killed, started again.

One rule: the folder outlives the process, so that the next start finds it. The end of the `with`
block removes it.
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from bench.servers import MEMCACHE_LISTENER, READY, ServerFailed, environment, free_port

START_LIMIT_S = 1800.0  # ten million items replayed one by one
STOP_LIMIT_S = 120.0
ANSWER_LIMIT_S = 120.0
POLL_S = 0.002
STEADY_S = 0.3
STEADY_LIMIT_S = 30.0
TAIL_CHARACTERS = 500


@dataclass(eq=False)
class Daemon:
    """`python -m kestrelpy serve` in a folder of its own, on one port for all its lives."""

    parent: Path
    python: str
    config: str = ""
    port: int = field(default_factory=free_port)
    http_port: int | None = None  # None: it speaks no HTTP

    def __post_init__(self) -> None:
        self.place = Path(tempfile.mkdtemp(prefix="kestrelpy-", dir=self.parent))
        self.data = self.place / "data"
        self._log = self.place / "log"
        self._process: subprocess.Popen[bytes] | None = None
        (self.place / "kestrelpy.toml").write_text(self.config)

    # -- a life -----------------------------------------------------------------------------

    def start(self) -> float:
        """Start it and wait until its port accepts; return the seconds. Raises ServerFailed."""
        command = [
            self.python, "-m", "kestrelpy", "serve", "--config", "kestrelpy.toml",
            "--data-dir", "data", "--host", "127.0.0.1", "--port", str(self.port),
            "--http-port", str(self.http_port or "off"),
        ]  # fmt: skip
        began = time.monotonic()
        with self._log.open("wb") as out:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                cwd=self.place, env=environment(self.python),
            )  # fmt: skip
        while time.monotonic() < began + START_LIMIT_S:
            said = self._log.read_text(errors="replace")
            if MEMCACHE_LISTENER.search(said) and READY.search(said):
                return time.monotonic() - began
            if self._process.poll() is not None:
                raise ServerFailed(f"kestrelpy ended at once: {said[-TAIL_CHARACTERS:]}")
            time.sleep(POLL_S)
        raise ServerFailed(f"kestrelpy was not ready in {START_LIMIT_S:.0f} s")

    def stop(self) -> None:
        """Send SIGTERM and wait for the end; raise ServerFailed if it is not a clean one."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        code = self._process.wait(STOP_LIMIT_S)
        if code != 0:
            raise ServerFailed(f"kestrelpy ended with code {code} when it was stopped")

    def kill(self) -> None:
        """Kill it with `kill -9`."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End it, and remove its folder."""
        self.kill()
        shutil.rmtree(self.place, ignore_errors=True)

    # -- what it takes ----------------------------------------------------------------------

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def memory_bytes(self, name: str = "VmRSS") -> int:
        """Return the bytes it has in memory now; `VmHWM`: the most it ever had."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) << 10
        raise ServerFailed("kestrelpy is gone")

    def open_files(self) -> int:
        """Return how many descriptors it holds."""
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def disk_bytes(self) -> int:
        """Return the bytes that its files take on the disk."""
        return sum(blocks for _, blocks in self._files())

    def largest_segment_bytes(self) -> int:
        """Return the size of its largest segment in bytes."""
        return max((b for name, b in self._files() if ".segment" in name), default=0)

    def wait_until_steady(self) -> None:
        """Wait until its files stop changing, so no segment is being prepared."""
        deadline = time.monotonic() + STEADY_LIMIT_S
        before, now = -1, self.disk_bytes()
        while before != now and time.monotonic() < deadline:
            time.sleep(STEADY_S)
            before, now = now, self.disk_bytes()

    def _files(self) -> list[tuple[str, int]]:
        found = []
        for folder, _, names in os.walk(self.data):
            for name in names:
                with contextlib.suppress(FileNotFoundError):  # removed at this moment
                    found.append((name, os.stat(os.path.join(folder, name)).st_blocks * 512))
        return found

    # -- talking to it ----------------------------------------------------------------------

    def connect(self) -> "Line":
        return Line(self.port)


class Line:
    """One connection, one request at a time."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), ANSWER_LIMIT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._in = self._socket.makefile("rb")

    def send(self, request: bytes) -> None:
        self._socket.sendall(request)

    def line(self) -> bytes:
        """Return the next line without its end; raise ServerFailed at the end of the connection."""
        line = self._in.readline()
        if not line.endswith(b"\r\n"):
            raise ServerFailed("kestrelpy closed the connection")
        return line[:-2]

    def ask(self, request: bytes) -> bytes:
        """Send a request; return the first line of its answer."""
        self.send(request)
        return self.line()

    def rest_of_item(self) -> None:
        """What comes behind VALUE."""
        self.line()
        self.line()

    def stats(self, queue: bytes = b"") -> dict[str, str]:
        """Return the facts of one queue without their prefix, or all facts."""
        self.send(b"stats %b\r\n" % queue)
        prefix = f"queue_{queue.decode()}_" if queue else ""
        found = {}
        while (line := self.line()) != b"END":
            _, key, value = line.decode().split(" ", 2)
            found[key.removeprefix(prefix)] = value
        return found

    def close(self) -> None:
        self._in.close()
        self._socket.close()
