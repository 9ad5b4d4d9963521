"""A long job: its lease is renewed at half time, and it is put off before the shift ends.

    python -m kestrelpy.examples.renewing [--server HOST:PORT]

    open ──▶ in hand ── renew, renew, renew ──▶ all parts done ──▶ confirm
                                        └─ the shift ends ──▶ defer ──▶ the next one goes on

A lease is short, so that the job of a worker that died is soon somebody else's; it is renewed, so
that a job may take as long as it needs. It is held by its token and not by a connection: a pool may
renew it, and a daemon that is killed and started again still knows it.

`kestrelpy.client.Worker` does the same for you. This is how it is done by hand.
"""

from __future__ import annotations

import threading
import time

from pymemcache.client.base import PooledClient
from pymemcache.exceptions import (
    MemcacheError,
    MemcacheServerError,
    MemcacheUnexpectedCloseError,
)

from kestrelpy.examples import fresh

QUEUE = "renewing.films"
LEASE_SECONDS = 4
SHIFT_SECONDS = 5.0
PARTS = 14
PART_SECONDS = 0.5
KILLED_AFTER_PART = 1


class Lease:
    """An item in hand, renewed by a thread until it is confirmed, put off or lost."""

    def __init__(self, server: fresh.Server, queue: PooledClient, name: str, token: int) -> None:
        self.server, self.queue, self.name = server, queue, name
        self.token = token
        self.is_lost = False
        self.over = threading.Event()
        self.ends = time.monotonic() + LEASE_SECONDS
        self.thread = threading.Thread(target=self.renew)
        self.thread.start()

    def renew(self) -> None:
        """At half time; when nobody answers, again and again until the lease is over."""
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
        """`close` confirms, `defer` puts it off; False: the lease was over before."""
        self.over.set()
        self.thread.join()
        while not self.is_lost and time.monotonic() < self.ends:
            try:
                self.queue.get(f"{QUEUE}/{word}/token={self.token}")
                return True
            except (OSError, MemcacheUnexpectedCloseError):
                continue  # the line broke; it may be said again on another
            except MemcacheServerError:
                break  # "lease expired": somebody else may have done the job, too
        return False


def work(server: fresh.Server, queue: PooledClient, name: str, done: set[int]) -> bool:
    """One shift on the film; True: it is finished."""
    body, token = queue.gets(f"{QUEUE}/open/lease={LEASE_SECONDS}s/t=30s")
    shift_ends = time.monotonic() + SHIFT_SECONDS
    lease = Lease(server, queue, name, int(token))
    server.say(f"{name} takes {body.decode()}, {len(done)} of {PARTS} parts are done")
    for part in range(1, PARTS + 1):
        if part in done:
            continue
        if lease.is_lost:
            return False  # it is somebody else's by now: hands off
        if time.monotonic() + PART_SECONDS > shift_ends:
            server.say(f"{name} puts it off: the shift ends")
            lease.end("defer")
            return False
        time.sleep(PART_SECONDS)  # the work; each part is kept, so nobody does it twice
        done.add(part)
        if part == KILLED_AFTER_PART and server.folder is not None:
            server.kill()
            server.start()
            server.say("the daemon was killed (kill -9) and started again")
    server.say(f"{name} is done, and confirms")
    return lease.end("close")


def main() -> None:
    """A film that takes more than one shift."""
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
