"""A lock: one item in a queue, and its lease is the lock.

    python -m kestrelpy.examples.lock [--server HOST:PORT]

    add ──▶ the one item ──open──▶ leased: locked ──defer──▶ back: free
                                       └─ its lease ends ──▶ back: free

Waiters are served first come, first served. A holder that dies or stalls loses the lock when its
lease ends. A stalled holder may wake up and believe that it still has the lock, so the protected
resource must refuse it. It can, by the token: each lease of the item has a higher one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from pymemcache.client.base import PooledClient
from pymemcache.exceptions import MemcacheClientError

from kestrelpy.examples import fresh

LOCK = "lock.counter"
LEASE_SECONDS = 2
ROUNDS = 20


class Counter:
    """The protected resource. A read and a write are two steps, so it needs a lock."""

    def __init__(self) -> None:
        self.value = self.newest_token = 0

    def write(self, value: int, token: int) -> bool:
        """Store the value; return False if there was a later holder of the lock."""
        if token < self.newest_token:
            return False
        self.value, self.newest_token = value, token
        return True


def make_lock(queue: PooledClient) -> None:
    """Make the one item; every process may call this at its start."""
    # The death of a holder counts as a failed attempt, and a lock must survive any number of them.
    fresh.declare(queue, LOCK, 'max_attempts = "none"\n')
    queue.add(LOCK, "lock")  # stores only if the queue has no item, ready or leased


@contextmanager
def locked(queue: PooledClient) -> Iterator[int]:
    """Hold the lock; give its token."""
    token = None
    while token is None:
        _, token = queue.gets(f"{LOCK}/open/lease={LEASE_SECONDS}s/t=30s")
    try:
        yield int(token)
    finally:
        with suppress(MemcacheClientError):  # "token ... is not valid": it went back by itself
            queue.get(f"{LOCK}/defer/token={int(token)}")


def main() -> None:
    """Run three threads that count; one of them falls asleep while it holds the lock."""
    with fresh.server(__doc__) as server:
        queue, counter = server.client(), Counter()
        make_lock(queue)
        refused: list[str] = []

        def count(name: str, sleeps_in_round: int) -> None:
            for number in range(ROUNDS):
                with locked(queue) as token:
                    value = counter.value
                    if number == sleeps_in_round:
                        server.say(f"{name} falls asleep with the lock, token {token}")
                        time.sleep(2 * LEASE_SECONDS)
                    if not counter.write(value + 1, token):
                        server.say(f"{name} wakes up and writes: refused, {token} is too old")
                        refused.append(name)

        threads = [
            threading.Thread(target=count, args=each)
            for each in (("ben", 0), ("ann", -1), ("cem", -1))  # ben has it before they are there
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        server.say(f"{3 * ROUNDS} rounds, {len(refused)} refused, counted to {counter.value}")
        assert counter.value == 3 * ROUNDS - len(refused)


if __name__ == "__main__":
    main()
