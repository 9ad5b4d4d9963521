"""`kill -9` while items move: dead letters, expired ones, and such as are moved on request.

Every item is set once. Whatever moves, it is in one queue, and what was confirmed in any of them
never comes back. What a client asked and was not answered is in doubt.

Promise: move.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from pymemcache.client.base import Client

from tests.support.daemon import DaemonProcess
from tests.support.kills import kill_under, new_seed, rounds, see_nothing_left

ROUNDS = 8
ENOUGH = 50  # moved on request, and confirmed
CONFIG = """
[queues.jobs]
max_attempts = 1
dead_letter_to = "failed"
expire_to = "late"
[queues.failed]
max_attempts = 1
dead_letter_to = "old"
expire_to = "late"
[queues.later]
expire_to = "late"
[queues.old]
sync = "never"
expire_to = "late"
"""
QUEUES = ("jobs", "failed", "old", "later", "late")  # what expires goes to the last


class Books:
    """The answers that clients had, over all lives of the server."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.number = 0
        self.stored: set[bytes] = set()
        self.perhaps: set[bytes] = set()
        self.done: set[bytes] = set()
        self.taken: set[bytes] = set()
        self.moved = 0
        self.wrong: list[str] = []

    def next(self) -> bytes:
        with self.lock:
            self.number += 1
            body = b"%d" % self.number
            self.perhaps.add(body)
            return body

    def note(self, body: bytes, to: set[bytes]) -> None:
        with self.lock:
            for each in (self.stored, self.perhaps, self.done):
                each.discard(body)
            to.add(body)

    def note_stored(self, body: bytes) -> None:
        """Note that the item was stored, unless another client has taken it since."""
        with self.lock:
            if body not in self.taken:
                self.perhaps.discard(body)
                self.stored.add(body)

    def seen(self, body: bytes) -> None:
        with self.lock:
            if body in self.done:
                self.wrong.append(f"{body!r} came back though its confirm was answered")


class Somebody:
    """Does random things until the server is gone."""

    def __init__(self, daemon: DaemonProcess, books: Books, seed: int) -> None:
        self.daemon = daemon
        self.books = books
        self.random = random.Random(seed)

    def run(self) -> None:
        client = self.daemon.client()
        while True:
            self._one(client)

    def _one(self, client: Client) -> None:
        books, choice = self.books, self.random.random()
        if choice < 0.35:
            body = books.next()
            expire = self.random.choice((0, 0, 0, 1))
            if client.set("jobs", body, expire=expire):
                books.note_stored(body)
        elif choice < 0.65:
            queue = self.random.choice(("jobs", "jobs", "failed"))
            body = client.get(f"{queue}/open")
            if body is not None:
                books.seen(body)
                client.get(f"{queue}/abort")
        elif choice < 0.8:
            queue = self.random.choice(QUEUES)
            body = client.get(f"{queue}/open")
            if body is not None:
                books.seen(body)
                books.taken.add(body)
                books.note(body, books.perhaps)
                client.get(f"{queue}/close")
                books.note(body, books.done)
        elif choice < 0.9:
            source = self.random.choice(("jobs", "old", "late"))
            arrived = client.raw_command(f"move {source} later {self.random.randrange(1, 20)}")
            if arrived != b"NOT_FOUND":
                books.moved += int(arrived)
        else:
            client.get("later/peek")


def count(client: Client, queue: str) -> int:
    """Return how many items are there: ready, leased or dead."""
    facts = client.stats(queue)
    states = ("items", "leased", "dead")
    return sum(int(facts.get(f"queue_{queue}_{each}".encode(), 0)) for each in states)


@pytest.mark.slow
def test_over_kill_9_every_item_is_in_one_queue_and_no_confirmed_one_comes_back(
    tmp_path: Path,
) -> None:
    seed = new_seed()
    chance = random.Random(seed)
    books = Books()
    with DaemonProcess(tmp_path / "data", config=CONFIG) as daemon:
        clients = [Somebody(daemon, books, seed + n) for n in range(4)]
        for _ in rounds(ROUNDS, lambda: min(books.moved, len(books.done)) > ENOUGH):
            kill_under(daemon, [each.run for each in clients], chance.uniform(0.1, 0.4))
            daemon.start()
        time.sleep(1.2)  # what expires has expired
        client = daemon.client()
        found: Counter[bytes] = Counter()
        while any(count(client, queue) for queue in QUEUES):  # what expires goes on meanwhile
            for queue in (*QUEUES, *(f"{queue}/dead" for queue in QUEUES)):
                while (body := client.get(queue)) is not None:
                    found[body] += 1
        client.close()
        see_nothing_left(daemon, restarts=True)

    assert books.wrong == []
    assert {body: count for body, count in found.items() if count > 1} == {}
    assert books.done.isdisjoint(found), "a confirmed item came back"
    assert books.stored <= found.keys(), f"lost: {sorted(books.stored - found.keys())[:9]}"
    assert found.keys() <= books.stored | books.perhaps
    print(f"{books.number} items, {books.moved} moved on request, {len(found)} left at the end")
