"""A daemon for a recipe: a fresh one on a free port, or the one at `--server`.

    with fresh.server(__doc__) as server:
        queue = server.client()

A fresh daemon stores its data in a folder of its own; both are removed at the end.

One rule: however the recipe ends, no process is left behind.
"""

from __future__ import annotations

import argparse
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote

from pymemcache.client.base import PooledClient

START_SECONDS = 60.0
LOOK_SECONDS = 0.02


class Server:
    """The daemon with the recipe's queues; `folder` is None if the recipe did not start it."""

    def __init__(self, address: tuple[str, int], folder: Path | None = None) -> None:
        self.address = address
        self.folder = folder
        self.http_port = "off"
        self.said = ""  # by the daemon, at its last start
        self.began = time.monotonic()
        self.process: subprocess.Popen[bytes] | None = None
        # Settings in the environment are for another daemon.
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("KESTRELPY_")}

    def client(self) -> PooledClient:
        """Return a client for all threads: each request takes a free connection of the pool."""
        # An answer may take as long as its t=, so the timeout is longer. pymemcache's default is
        # noreply, which promises nothing: turn it off.
        return PooledClient(self.address, connect_timeout=5, timeout=60, default_noreply=False)

    def say(self, text: str) -> None:
        """Print one line, with the time since the beginning."""
        # In one write: `print` makes two, and lines of other threads come in between.
        sys.stdout.write(f"{time.monotonic() - self.began:5.1f} s  {text}\n")
        sys.stdout.flush()

    def start(self) -> None:
        """Start the daemon, or start it again on the same port, and wait until it is ready."""
        assert self.folder is not None
        out, log = self.folder / "daemon.out", self.folder / "daemon.log"
        command = [
            sys.executable, "-m", "kestrelpy", "serve",
            "--config", str(self.folder / "kestrelpy.toml"), "--port", str(self.address[1]),
            "--http-port", self.http_port,
        ]  # fmt: skip
        with out.open("w") as stdout, log.open("a") as stderr:
            self.process = subprocess.Popen(
                command,
                stdout=stdout,
                stderr=stderr,
                env=self.environment,
                process_group=0,  # Ctrl-C ends the recipe, and the recipe ends this
            )
        deadline = time.monotonic() + START_SECONDS
        # Ready to serve, or the standby of another member of a fleet.
        while not re.search("^(ready|standby)", said := out.read_text(), re.MULTILINE):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the daemon did not start:\n{log.read_text()}")
            time.sleep(LOOK_SECONDS)
        self.said = said
        for line in said.splitlines():
            if line.startswith("listening: memcache"):
                self.address = (self.address[0], int(line.rpartition(":")[2]))
            elif line.startswith("listening: http"):
                self.http_port = line.rpartition(":")[2].rstrip("/")

    def kill(self) -> None:
        """Kill the daemon with `kill -9`."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()


@contextmanager
def server(doc: str | None, config: str = "") -> Iterator[Server]:
    """Give the daemon that the command line names, or a fresh one with this `config`."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--server", metavar="HOST:PORT", type=_answering, help="default: a fresh daemon"
    )
    named = parser.parse_args().server
    if named:
        yield Server(named)
        return
    with tempfile.TemporaryDirectory(prefix="kestrelpy-") as folder:
        # An empty file has a use: the daemon looks for no other one.
        (Path(folder) / "kestrelpy.toml").write_text(config)
        fresh = Server(("127.0.0.1", 0), Path(folder))
        try:
            fresh.start()
            fresh.began = time.monotonic()
            yield fresh
        finally:
            if fresh.process is not None:
                fresh.process.terminate()
                fresh.process.wait()


def _answering(text: str) -> tuple[str, int]:
    """Parse the address of a server and connect to it. Raises ArgumentTypeError."""
    host, _, port = text.rpartition(":")
    if not host or re.fullmatch("[0-9]{1,5}", port) is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not HOST:PORT")
    address = (host, int(port))
    try:
        socket.create_connection(address, timeout=5).close()
    except (OSError, OverflowError) as error:
        raise argparse.ArgumentTypeError(f"no server at {text}: {error}") from None
    return address


def declare(queue: PooledClient, name: str, settings: str) -> None:
    """Declare the settings of a queue, and make it if there is none. A repetition is fine."""
    if not queue.set(f"{name}/declare", settings):
        raise SystemExit(f"{name} was declared otherwise before, and stays so: delete it first")


def wait_until_empty(queue: PooledClient, *names: str) -> None:
    """Wait until these queues have no item, ready, delayed or leased.

    The queues are checked one after the other. If an item moves to a queue that was checked
    already, that queue has counted one more item at the next check.
    """
    before: list[int] | None = None
    while True:
        looks = [_look(queue, name) for name in names]
        if any(there for there, _ in looks):
            before = None
        elif before == (before := [total for _, total in looks]):
            return
        time.sleep(LOOK_SECONDS)


def _look(queue: PooledClient, name: str) -> tuple[int, int]:
    """Return how many items are there, and how many ever were."""
    stats = queue.stats(name)
    there = sum(
        stats.get(f"queue_{name}_{kind}".encode(), 0)
        for kind in ("items", "delayed", "open_transactions")
    )
    return there, stats.get(f"queue_{name}_total_items".encode(), 0)


def say_dead(server: Server, queue: PooledClient, name: str) -> int:
    """Print the dead letters of a queue with their reasons; return how many there are."""
    facts = queue.stats(f"{name}/dead")
    reasons = {key: word for key, word in facts.items() if key.endswith(b"_reason")}
    for key, word in reasons.items():
        item = key.decode().removeprefix(f"queue_{name}_dead_").removesuffix("_reason")
        attempts = facts[key.replace(b"_reason", b"_attempts")]
        server.say(f"dead in {name}: item {item}, {attempts} attempts, {unquote(word.decode())}")
    return len(reasons)
