"""A worker on plain pymemcache: reliable fetch, the result written down before the confirm.

    python -m kestrelpy.examples.worker QUEUE RESULTS [--server HOST:PORT]

`get QUEUE/open` lends the item to this connection, `get QUEUE/close/open` confirms it and lends
the next in one trip, and `t=` waits for one. If this worker dies, or its connection does, the item
it has in hand goes back to the queue: it may be handled twice, it is never lost.

The work here: a line `done <number> <checksum>` in the file RESULTS, and `unsure <number>` when
the connection broke before the confirm was answered. SIGTERM ends it after the item in hand.
"""

from __future__ import annotations

import argparse
import os
import signal
import time
import zlib

from pymemcache.client.base import Client
from pymemcache.exceptions import MemcacheServerError

WAIT_MS = 1000
PAUSE_SECONDS = 0.1


class Worker:
    """One connection, one item at a time."""

    def __init__(self, server: tuple[str, int], queue: str, results: str) -> None:
        self.queue = queue
        # The answer may take as long as the wait; be more patient than that.
        self.client = Client(server, connect_timeout=5, timeout=WAIT_MS / 1000 + 30)
        # Unbuffered, each line in one write: what is written survives a kill -9 of this process.
        self.results = os.open(results, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self.stopping = False

    def run(self) -> None:
        """Handle items until told to stop."""
        in_hand: bytes | None = None
        while in_hand is not None or not self.stopping:
            # `close` only for an item of this very connection: after a break there is none.
            closing = ["close"] if in_hand is not None else []
            opening = ["open", f"t={WAIT_MS}"] if not self.stopping else []
            try:
                body = self.client.get("/".join([self.queue, *closing, *opening]))
            except (OSError, MemcacheServerError):
                body = None
                if in_hand is not None:
                    self.write(b"unsure %b" % number_of(in_hand))
                time.sleep(PAUSE_SECONDS)  # pymemcache connects again by itself
            if body is not None:
                self.handle(body)
            in_hand = body
        self.client.close()

    def handle(self, body: bytes) -> None:
        """The work itself; done when this returns, and only then confirmed."""
        line = body.partition(b" ")[2]
        self.write(b"done %b %08x" % (number_of(body), zlib.crc32(line)))

    def write(self, line: bytes) -> None:
        """One line into the file of results."""
        os.write(self.results, line + b"\n")

    def stop(self, *_: object) -> None:
        """End after the item in hand."""
        self.stopping = True


def number_of(body: bytes) -> bytes:
    """An item is `<number> <line>`."""
    return body.partition(b" ")[0]


def main() -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(description="Handle the items of a queue.")
    parser.add_argument("queue")
    parser.add_argument("results", help="file to write down what was done")
    parser.add_argument("--server", default="127.0.0.1:22133", metavar="HOST:PORT")
    options = parser.parse_args()
    host, _, port = options.server.rpartition(":")
    worker = Worker((host, int(port)), options.queue, options.results)
    signal.signal(signal.SIGTERM, worker.stop)
    worker.run()


if __name__ == "__main__":
    main()
