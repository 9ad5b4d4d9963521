"""A producer on plain pymemcache: every line of some files becomes an item of a queue.

    python -m kestrelpy.examples.producer QUEUE [--server HOST:PORT[,HOST:PORT]] [FILE...]

Each item is `<number> <line>`. `set` returns True once the item is on disk. If the connection
breaks before that, the item may be stored or not, so the producer sends it again: no line is lost,
and the number shows a line that is stored twice. In a fleet one member serves: the producer asks
one after the other. With `--share 2/4` it stores every fourth line, from the second one on.

The producer prints `resent <number>` for these, and at the end `stored <count>`.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from pymemcache.client.base import Client
from pymemcache.exceptions import MemcacheServerError

PAUSE_SECONDS = 0.1
CONNECTIONS = 4  # one sync on the server makes the items of all of them durable


def standard_library_files() -> list[Path]:
    """Return Python's own sources: a large real text that every machine with Python has."""
    folder = Path(os.__file__).parent
    return sorted(each for each in folder.rglob("*.py") if "site-packages" not in each.parts)


def numbered_lines(files: list[Path], lines_max: int | None) -> Iterator[tuple[int, bytes]]:
    """Yield every line with its number, over all files."""
    number = 0
    for file in files:
        with file.open("rb") as lines:
            for line in lines:
                if number == lines_max:
                    return
                yield number, line.rstrip(b"\r\n")
                number += 1


class Producer:
    """Several connections that share one stream of lines."""

    def __init__(
        self, servers: list[tuple[str, int]], queue: str, lines: Iterator[tuple[int, bytes]]
    ) -> None:
        self.servers, self.queue, self.lines = servers, queue, lines
        self.stored = 0
        self.lock = threading.Lock()

    def run(self) -> int:
        """Store all lines; return how many there were."""
        threads = [threading.Thread(target=self.store_lines) for _ in range(CONNECTIONS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return self.stored

    def store_lines(self) -> None:
        """Take the next line and store it, until there is none."""
        # Without default_noreply=False pymemcache would not wait for STORED.
        clients = itertools.cycle(
            [
                Client(server, connect_timeout=5, timeout=30, default_noreply=False)
                for server in self.servers
            ]
        )
        client = next(clients)
        while True:
            with self.lock:
                number, line = next(self.lines, (-1, b""))
            if number < 0:
                return
            client = self.store(client, clients, number, b"%d %b" % (number, line))
            with self.lock:
                self.stored += 1

    def store(self, client: Client, others: Iterator[Client], number: int, body: bytes) -> Client:
        """Send an item until a server says that it is on disk; return the client of that one."""
        was_reported = False
        while True:
            try:
                if client.set(self.queue, body):
                    return client
            except (OSError, MemcacheServerError):
                # No answer: the item may be stored. A client connects again by itself.
                if not was_reported:
                    self.resent(number)
                    was_reported = True
                client.close()
                client = next(others)
            time.sleep(PAUSE_SECONDS)  # the server is away, or the queue is full

    def resent(self, number: int) -> None:
        """Say that a line is sent again."""
        # In one write: `print` makes two, and lines of other threads come in between.
        sys.stdout.write(f"resent {number}\n")
        sys.stdout.flush()


def main() -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(description="Put every line of some files into a queue.")
    parser.add_argument("queue")
    parser.add_argument("files", nargs="*", type=Path, help="default: Python's own sources")
    parser.add_argument("--server", default="127.0.0.1:22133", metavar="HOST:PORT[,HOST:PORT]")
    parser.add_argument("--lines", type=int, help="stop after this many lines")
    parser.add_argument("--share", default="1/1", metavar="NTH/OF", help="default: all lines")
    options = parser.parse_args()
    servers = [each.rpartition(":") for each in options.server.split(",")]
    addresses = [(host, int(port)) for host, _, port in servers]
    nth, of = map(int, options.share.split("/"))
    lines = numbered_lines(options.files or standard_library_files(), options.lines)
    lines = itertools.islice(lines, nth - 1, None, of)
    stored = Producer(addresses, options.queue, lines).run()
    print(f"stored {stored}", flush=True)


if __name__ == "__main__":
    main()
