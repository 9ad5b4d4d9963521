"""`kill -9` while items are handed off along a chain of three queues, one of them with delays.

Every item is set once. However often the server dies, each is in one queue, once; and what somebody
confirmed at the end of the chain never comes back. What a client asked and was not answered is in
doubt, but for a hand-off: there it is in one queue or in the other.

Promise: hand-off.
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
from tests.support.left import leave
from tests.support.soak import Soak

ROUNDS = 8
CHAIN = ("first", "second", "third")
CONFIG = "[queue_defaults]\nlease = '2s'\nmax_attempts = 'none'\narchive_to = 'archive'\n"


class Books:
    """The answers that clients had, over all lives of the server."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.number = 0
        self.stored: set[bytes] = set()
        self.perhaps: set[bytes] = set()
        self.done: set[bytes] = set()
        self.steps: Counter[bytes] = Counter()  # of each item, hand-offs that were answered
        self.drained: Counter[bytes] = Counter()  # at the end, from all queues
        self.wrong: list[str] = []

    @property
    def handed(self) -> int:
        """Hand-offs that were answered."""
        return sum(self.steps.values())

    def next(self) -> bytes:
        with self.lock:
            self.number += 1
            body = b"%d" % self.number
            self.perhaps.add(body)
            return body

    def note(self, body: bytes, to: set[bytes]) -> None:
        with self.lock:
            if to is self.stored and body not in self.perhaps:
                return  # somebody has it at the end of the chain already
            self.stored.discard(body)
            self.perhaps.discard(body)
            to.add(body)

    def seen(self, item: bytes) -> bytes:
        """Return the number of an item; its body is `<number> <hand-offs>`."""
        body, _, steps = item.partition(b" ")
        with self.lock:
            if body in self.done:
                self.wrong.append(f"{body!r} came back though its confirm was answered")
            if int(steps or 0) < self.steps[body]:
                self.wrong.append(f"{item!r} came back though {self.steps[body]} were answered")
        return body


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
        if choice < 0.3:
            body = books.next()
            if client.set("first", body + b" 0"):
                books.note(body, books.stored)
        elif choice < 0.9:
            source = self.random.randrange(3)
            to = self.random.choice(("first", "second", "third", *CHAIN[source + 1 :] * 5))
            self._hand_off(client, CHAIN[source], to)
        else:
            item = client.get("third/open")
            if item is not None:
                body = books.seen(item)
                books.note(body, books.perhaps)
                client.get("third/close")
                books.note(body, books.done)

    def _hand_off(self, client: Client, source: str, to: str) -> None:
        item, token = client.gets(f"{source}/open" + self.random.choice(("", "/lease=2s")))
        if item is None:
            return
        body = self.books.seen(item)
        steps = int(item.partition(b" ")[2]) + 1
        later = self.random.choice(("", "", "/delay=20ms"))
        named = f"{to}/confirm={source}:{token.decode()}{later}"
        assert client.set(named, b"%b %d" % (body, steps))
        with self.books.lock:
            self.books.steps[body] = max(self.books.steps[body], steps)


def run(folder: Path, wanted: int) -> Books:
    """Kill `wanted` times, drain the chain, and compare: each item is in one queue, once."""
    seed = new_seed()
    chance = random.Random(seed)
    books = Books()
    with DaemonProcess(folder / "data", config=CONFIG) as daemon:
        clients = [Somebody(daemon, books, seed + n) for n in range(4)]
        for _ in rounds(wanted, lambda: books.handed > 10 * wanted and len(books.done) > wanted):
            kill_under(daemon, [each.run for each in clients], chance.uniform(0.1, 0.4))
            daemon.start()
        time.sleep(2.5)  # leases by token have ended, and delayed items are due
        client = daemon.client()
        for queue in CHAIN:
            while (item := client.get(queue)) is not None:
                books.drained[books.seen(item)] += 1
        client.close()
        see_nothing_left(daemon)
    found = books.drained
    assert books.wrong == []
    assert {body: count for body, count in found.items() if count > 1} == {}
    assert books.stored <= found.keys(), f"lost: {sorted(books.stored - found.keys())[:9]}"
    assert found.keys() <= books.stored | books.perhaps
    print(f"{books.number} items, {books.handed} hand-offs, {len(found)} left at the end")
    return books


@pytest.mark.slow
def test_over_kill_9_every_item_that_moves_on_is_in_one_queue_and_none_goes_back(
    tmp_path: Path,
) -> None:
    leave("hand_offs", tmp_path, run(tmp_path, ROUNDS))


@pytest.mark.soak
def test_over_many_kills_every_item_that_moves_on_is_in_one_queue(
    tmp_path: Path, soak: Soak
) -> None:
    for number in soak.seeds():
        run(tmp_path / str(number), ROUNDS)
