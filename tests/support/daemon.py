"""A real daemon as its own process, on a free loopback port, for tests that need the real thing."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from pymemcache.client.base import Client

from tests.support import fork_server

START_SECONDS = 30.0
STOP_SECONDS = 30.0
PORT_SECONDS = 10.0
LOOPBACK = "127.0.0.1"
_TAKEN = "Address already in use"
_HTTP_LISTENER = re.compile(r"http on [0-9.]+:(\d+)")
_LISTENER = re.compile(r"memcache on [0-9.]+:(\d+)")


class DaemonProcess:
    """`kestrelpy serve` on `data_dir`. Start it again after a kill: it listens on the same port."""

    def __init__(
        self, data_dir: Path, *, config: str = "", port: int = 0, http_port: str = "off",
        host: str = LOOPBACK,
    ) -> None:  # fmt: skip
        """`http_port` is "0" for any free port."""
        self.data_dir = data_dir
        self.host = host
        self.http_port = http_port
        self.port = port
        self.ready_line = ""
        self.lines: list[str] = []
        self._config = data_dir.parent / f"{data_dir.name}.toml"
        self._config.write_text(config)
        self._process: subprocess.Popen[str] | None = None

    @property
    def config_file(self) -> Path:
        """Change it, then reload."""
        return self._config

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self, *prefix: str) -> Self:
        """Start and wait for `ready`; `prefix` goes before the command (strace, for instance).

        Its port may be in use: between two starts any process may get it for a connection out.
        """
        deadline = time.monotonic() + PORT_SECONDS
        began = len(self.lines)
        while not self._is_ready(prefix):
            said = "".join(self.lines[began:])
            is_taken = _TAKEN in said and time.monotonic() < deadline
            assert is_taken, f"the daemon did not start:\n{said}"
            self.lines[began:] = []
            time.sleep(0.1)
        return self

    def _is_ready(self, prefix: Sequence[str]) -> bool:
        """Start it; False: it ended before it was ready."""
        words = [
            "serve", "--config", str(self._config), "--data-dir", str(self.data_dir),
            "--port", str(self.port), "--http-port", self.http_port,
        ]  # fmt: skip
        if self.host != LOOPBACK:
            words += ["--host", self.host]
        environment = {k: v for k, v in os.environ.items() if not k.startswith("KESTRELPY_")}
        self._process = fork_server.start(
            words, prefix, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env=environment,
        )  # fmt: skip
        killer = threading.Timer(START_SECONDS, self._process.kill)
        killer.start()
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._note(line)
            if line.startswith(("ready", "standby")):  # it serves, or it waits
                self.ready_line = line
                break
        else:
            killer.cancel()
            return False
        killer.cancel()
        threading.Thread(target=self._drain, args=(self._process,), daemon=True).start()
        return True

    def _drain(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self._note(line)

    def _note(self, line: str) -> None:
        """A member of a fleet that goes on as a standby listens anew: on other ports, if on 0."""
        self.lines.append(line)
        if found := _LISTENER.search(line):
            self.port = int(found[1])
        if http := _HTTP_LISTENER.search(line):
            self.http_port = http[1]

    def kill(self) -> None:
        """`kill -9`, and wait until it is gone."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(STOP_SECONDS)

    def stop(self) -> int:
        """Send SIGTERM; return the exit code."""
        assert self._process is not None
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        return self.wait()

    def wait(self) -> int:
        """Wait until the daemon ends by itself; return the exit code."""
        assert self._process is not None
        return self._process.wait(STOP_SECONDS)

    def client(self, timeout: float = 10.0) -> Client:
        """A pymemcache client on one connection, told not to use noreply."""
        return Client(
            (self.host, self.port), timeout=timeout, connect_timeout=timeout,
            default_noreply=False,
        )  # fmt: skip

    def socket(self, timeout: float = 10.0) -> socket.socket:
        """Return a raw connection."""
        return socket.create_connection((self.host, self.port), timeout)

    def __enter__(self) -> Self:
        return self.start() if self._process is None else self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait(STOP_SECONDS)
