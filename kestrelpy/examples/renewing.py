"""A long job: its lease is renewed at half time, and it is deferred before the shift ends.

    python -m kestrelpy.examples.renewing [--server HOST:PORT]

    open ──▶ leased ── renew, renew, renew ──▶ all parts done ──▶ confirm
                                       └─ the shift ends ──▶ defer ──▶ the next worker goes on

A lease is short, so that another worker soon gets the job of a dead one; it is renewed, so that a
job may take any time. The lease belongs to a token, not to a connection: any connection of a pool
can renew it, and it survives a kill of the daemon.

`kestrelpy.client.Worker` does the same for you. Here it is done by hand.
"""

from __future__ import annotations

import threading
import time

from pymemcache.client.base import PooledClient
from pymemcache.exceptions import (
    MemcacheClientError,
    MemcacheError,
    MemcacheUnexpectedCloseError,
)

from kestrelpy.examples import fresh

QUEUE = "renewing.films"
LEASE_SECONDS = 10
SHIFT_SECONDS = 8.0
PARTS = 24
PART_SECONDS = 0.5
KILLED_AFTER_PART = 1


class Lease:
    """A leased item; a thread renews its lease until the item is confirmed, deferred or lost."""

    def __init__(self, server: fresh.Server, queue: PooledClient, name: str, token: int) -> None:
        self.server, self.queue, self.name = server, queue, name
        self.token = token
        self.is_lost = False
        self.over = threading.Event()
        self.ends = time.monotonic() + LEASE_SECONDS
        self.thread = threading.Thread(target=self.renew)
        self.thread.start()

    def renew(self) -> None:
        """Renew at half time; without an answer, try again until the lease is over."""
        pause = LEASE_SECONDS / 2
        while not self.over.wait(pause):
            asked = time.monotonic()
            try:
                touched = self.queue.touch(f"{QUEUE}/token={self.token}", LEASE_SECONDS)
                self.is_lost = not touched
            except (OSError, MemcacheError):
                self.is_lost = asked > self.ends
                pause = LEASE_SECONDS / 10
            else:
                self.ends = asked + LEASE_SECONDS
                pause = LEASE_SECONDS / 2
                if not self.is_lost:
                    self.server.say(f"{self.name} renews the lease")
            if self.is_lost:
                return

    def end(self, word: str) -> bool:
        """End with `close` (confirm) or `defer`; False: the lease was over before."""
        self.over.set()
        self.thread.join()
        while not self.is_lost and time.monotonic() < self.ends:
            try:
                self.queue.get(f"{QUEUE}/{word}/token={self.token}")
                return True
            except (OSError, MemcacheUnexpectedCloseError):
                continue  # the connection broke; the request may be sent again on another
            except MemcacheClientError:
                break  # "token ... is not valid": another worker may have the job
        return False


def work(server: fresh.Server, queue: PooledClient, name: str, done: set[int]) -> bool:
    """Work for one shift on the film; return True if it is finished."""
    body, token = queue.gets(f"{QUEUE}/open/lease={LEASE_SECONDS}s/t=30s")
    shift_ends = time.monotonic() + SHIFT_SECONDS
    lease = Lease(server, queue, name, int(token))
    server.say(f"{name} takes {body.decode()}, {len(done)} of {PARTS} parts are done")
    for part in range(1, PARTS + 1):
        if part in done:
            continue
        if lease.is_lost:
            return False  # another worker has it now: stop
        if time.monotonic() + PART_SECONDS > shift_ends:
            server.say(f"{name} puts it off: the shift ends")
            lease.end("defer")
            return False
        time.sleep(PART_SECONDS)  # the work; finished parts are recorded, so none is done twice
        done.add(part)
        if part == KILLED_AFTER_PART and server.folder is not None:
            server.kill()
            server.start()
            server.say("the daemon was killed (kill -9) and started again")
    server.say(f"{name} is done, and confirms")
    return lease.end("close")


def main() -> None:
    """Make a film that takes more than one shift."""
    with fresh.server(__doc__) as server:
        queue, done = server.client(), set[int]()
        queue.set(QUEUE, "film-1")

        shifts = 1
        while not work(server, queue, ("ann", "ben")[shifts % 2], done):
            shifts += 1

        stats = queue.stats(QUEUE)
        assert stats[f"queue_{QUEUE}_lease_expired".encode()] == 0
        assert len(done) == PARTS
        server.say(f"{PARTS} parts in {shifts} shifts, and the lease was never lost")


if __name__ == "__main__":
    main()
