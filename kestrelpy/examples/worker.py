"""A worker on plain pymemcache: reliable fetch, the result is recorded before the confirm.

    python -m kestrelpy.examples.worker QUEUE RESULTS [--server HOST:PORT[,HOST:PORT]]

`get QUEUE/open` leases an item to this connection, `get QUEUE/close/open` confirms it and leases
the next in one trip, and `t=` waits for one. If this worker dies or its connection breaks, the
leased item goes back to the queue: it may be handled twice, but it is never lost. In a fleet one
member serves: the worker asks one after the other.

The work here is a line `done <number> <checksum>` in the file RESULTS, or `unsure <number>` if the
connection broke before the answer to the confirm. SIGTERM ends the worker after the present item.
"""

from __future__ import annotations

import argparse
import itertools
import os
import signal
import time
import zlib

from pymemcache.client.base import Client
from pymemcache.exceptions import MemcacheClientError, MemcacheServerError

WAIT_MS = 1000
PAUSE_SECONDS = 0.1


class Worker:
    """One connection, one item at a time."""

    def __init__(self, servers: list[tuple[str, int]], queue: str, results: str) -> None:
        self.queue = queue
        # An answer may take as long as the wait, so the timeout is longer.
        timeout = WAIT_MS / 1000 + 30
        self.clients = itertools.cycle(
            [Client(server, connect_timeout=5, timeout=timeout) for server in servers]
        )
        self.client = next(self.clients)
        # Unbuffered, each line in one write: the lines survive a kill -9 of this process.
        self.results = os.open(results, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self.stopping = False

    def run(self) -> None:
        """Handle items until `stop`."""
        leased: bytes | None = None
        while leased is not None or not self.stopping:
            # `close` only for an item of this very connection: after a break there is none.
            closing = ["close"] if leased is not None else []
            opening = ["open", f"t={WAIT_MS}"] if not self.stopping else []
            try:
                body = self.client.get("/".join([self.queue, *closing, *opening]))
            except (OSError, MemcacheServerError, MemcacheClientError):  # or "lease expired"
                body = None
                if leased is not None:
                    self.write(b"unsure %b" % number_of(leased))
                self.client.close()  # a client connects again by itself
                self.client = next(self.clients)
                time.sleep(PAUSE_SECONDS)
            if body is not None:
                self.handle(body)
            leased = body
        self.client.close()

    def handle(self, body: bytes) -> None:
        """Do the work; the item is confirmed after this returns."""
        line = body.partition(b" ")[2]
        self.write(b"done %b %08x" % (number_of(body), zlib.crc32(line)))

    def write(self, line: bytes) -> None:
        """Write one line to the file of results."""
        os.write(self.results, line + b"\n")

    def stop(self, *_: object) -> None:
        """End after the present item."""
        self.stopping = True


def number_of(body: bytes) -> bytes:
    """Return the number of an item `<number> <line>`."""
    return body.partition(b" ")[0]


def main() -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(description="Handle the items of a queue.")
    parser.add_argument("queue")
    parser.add_argument("results", help="file for the results")
    parser.add_argument("--server", default="127.0.0.1:22133", metavar="HOST:PORT[,HOST:PORT]")
    options = parser.parse_args()
    servers = [each.rpartition(":") for each in options.server.split(",")]
    addresses = [(host, int(port)) for host, _, port in servers]
    worker = Worker(addresses, options.queue, options.results)
    signal.signal(signal.SIGTERM, worker.stop)
    worker.run()


if __name__ == "__main__":
    main()
