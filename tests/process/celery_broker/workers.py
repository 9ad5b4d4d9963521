"""Celery worker processes and the queue of a daemon, for the tests."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.daemon import DaemonProcess

ROOT = Path(__file__).parents[3]
SECONDS = 60.0
DONE = "-- done --"
PRODUCER = f"""
import ast, sys
from celery import chain, chord, group
from tests.process.celery_broker.shop import *
for line in sys.stdin:
    exec(ast.literal_eval(line), globals())
    print({DONE!r}, flush=True)
"""
URL = "kestrelpy://127.0.0.1:{port}"


class Shop:
    """The application of `shop.py` on one daemon, in a folder."""

    def __init__(self, daemon: DaemonProcess, folder: Path, lease: str = "5s") -> None:
        self.daemon, self.folder = daemon, folder
        (folder / "results").mkdir(exist_ok=True)
        self.environment = {
            **os.environ, "SHOP_FOLDER": str(folder), "SHOP_LEASE": lease,
            "SHOP_BROKER": URL.format(port=daemon.port), "PYTHONPATH": str(ROOT),
        }  # fmt: skip
        self.processes: list[subprocess.Popen[bytes]] = []
        self._producer: subprocess.Popen[str] | None = None

    def celery(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "celery", "-A", "tests.process.celery_broker.shop", *words]

    def start(self, *words: str, pool: str = "prefork", jobs: int = 2) -> subprocess.Popen[bytes]:
        """Start a worker; it logs to a file."""
        name = f"w{len(self.processes)}"
        with (self.folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                self.celery("worker", "-n", f"{name}@test", "-P", pool, "-c", str(jobs), *words),
                env=self.environment, cwd=self.folder, stdout=log, stderr=log, process_group=0,
            )  # fmt: skip
        self.processes.append(process)
        return process

    def kill(self, process: subprocess.Popen[Any]) -> None:
        """`kill -9` a worker with its children."""
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(SECONDS)

    def stop(self, process: subprocess.Popen[bytes]) -> None:
        """Stop a worker as a person does: it finishes what runs."""
        process.send_signal(signal.SIGTERM)
        process.wait(SECONDS)

    def send(self, script: str) -> str:
        """Run a script in the producer, a process that ends with the shop; return its output."""
        if self._producer is None:
            self._producer = subprocess.Popen(
                [sys.executable, "-c", PRODUCER], env=self.environment, cwd=self.folder,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                process_group=0,
            )  # fmt: skip
        pipes = self._producer
        assert pipes.stdin is not None and pipes.stdout is not None
        pipes.stdin.write(f"{script!r}\n")
        pipes.stdin.flush()
        said = []
        for line in pipes.stdout:
            if line == DONE + "\n":
                return "".join(said).strip()
            said.append(line)
        raise AssertionError("".join(said))

    def close(self) -> None:
        """Kill what still runs."""
        for process in [*self.processes, *filter(None, [self._producer])]:
            if process.poll() is None:
                self.kill(process)

    def ran(self) -> list[str]:
        """The lines of the tasks that have run."""
        path = self.folder / "ran"
        return path.read_text().splitlines() if path.exists() else []

    def logs(self) -> str:
        return "\n".join(each.read_text() for each in sorted(self.folder.glob("*.log")))

    def until(self, condition: Callable[[], Any], seconds: float = SECONDS) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, f"it did not come to be:\n{self.logs()[-6000:]}"
            time.sleep(0.05)

    def counts(self, queue: str = "celery") -> dict[str, int]:
        client = self.daemon.client()
        prefix = f"queue_{queue}_"
        found = {k.decode().removeprefix(prefix): n for k, n in client.stats(queue).items()}
        client.close()
        return found

    def is_empty(self, queue: str = "celery") -> bool:
        left = self.counts(queue)
        return not any(left.get(each) for each in ("items", "delayed", "open_transactions"))


@contextmanager
def shop_of(folder: Path, lease: str = "5s") -> Iterator[Shop]:
    """A daemon, and the application on it; its workers are killed at the end."""
    with DaemonProcess(folder / "data") as daemon:
        shop = Shop(daemon, folder, lease)
        try:
            yield shop
        finally:
            shop.close()
