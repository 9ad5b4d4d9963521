"""Many threads race for leases by token on real sockets: they confirm, renew, give back, let leases
run out and hang up, and every one of them tells what it was told, and when.

Tokens rise with every lease, so afterwards their order is that of the leases; between two leases of
one item the first must have been ended by its holder, or be over by every clock.

Promise: token.
"""

from __future__ import annotations

import random
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path

import pytest
from pymemcache.client.base import Client
from pymemcache.exceptions import MemcacheClientError

from tests.support.daemon import DaemonProcess
from tests.support.kills import leave_nothing, new_seed

THREADS = 10
ITEMS = 250
SECONDS = 60.0
LEASES_MS = (40, 80, 500, 1000)
EARLY = 0.002  # the server counts in milliseconds: its 40 ms may be this much shorter


@dataclass
class Held:
    """One lease, as its holder knows it. The holder surely has the item from `told` to `until`."""

    item: int
    token: int
    asked: float
    told: float
    until: float
    ended: float = float("inf")  # when its holder said that it is done with it
    confirmed: float = 0.0  # when it said so of a confirm that was accepted; 0: none was


class Racer:
    """One thread with two connections; it uses one or the other at random."""

    def __init__(self, daemon: DaemonProcess, books: Books, seed: int) -> None:
        self.daemon = daemon
        self.books = books
        self.random = random.Random(seed)
        self.clients = [daemon.client(), daemon.client()]

    def run(self) -> None:
        while len(self.books.confirmed) < ITEMS and time.monotonic() < self.books.deadline:
            self._one()

    @property
    def client(self) -> Client:
        """Return one of the two at random; now and then it is hung up first, and so a new one."""
        at = self.random.randrange(2)
        if self.random.random() < 0.05:
            self.clients[at].close()
        return self.clients[at]

    def _one(self) -> None:
        lease_ms = self.random.choice(LEASES_MS)
        asked = time.monotonic()
        body, token = self.client.gets(f"jobs/open/lease={lease_ms}ms/t=20ms")
        if body is None:
            return
        held = Held(
            int(body), int(token), asked, time.monotonic(), asked + lease_ms / 1000 - EARLY
        )
        self.books.held.append(held)
        self._end(held, lease_ms)

    def _end(self, held: Held, lease_ms: int) -> None:
        how = self.random.random()
        if how < 0.2:  # renewed from another connection, perhaps too late
            asked = time.monotonic()
            if self.client.touch(f"jobs/token={held.token}", 1):
                held.until = asked + 1 - EARLY
        if how < 0.3 and lease_ms < 100:
            time.sleep(self.random.uniform(0.5, 1.5) * lease_ms / 1000)  # works for about as long
        if how > 0.95:
            return  # forgets it: the deadline ends it
        held.ended = time.monotonic()
        if how > 0.85:
            self._give_back(held)
        elif self._confirm(held):
            held.confirmed = held.ended
            self.books.confirmed.add(held.item)

    def _give_back(self, held: Held) -> None:
        try:
            self.client.get(f"jobs/{self.random.choice(('abort', 'defer'))}/token={held.token}")
        except MemcacheClientError as error:
            if "is not valid" not in str(error):
                raise

    def _confirm(self, held: Held) -> bool:
        if self.random.random() < 0.5:
            return bool(self.client.delete(f"jobs/token={held.token}"))
        try:
            self.client.get(f"jobs/close/token={held.token}")
        except MemcacheClientError as error:
            if "is not valid" not in str(error):
                raise
            return False
        return True


class Books:
    """The answers that all racers had."""

    def __init__(self) -> None:
        self.held: list[Held] = []
        self.confirmed: set[int] = set()
        self.deadline = time.monotonic() + SECONDS

    def judge(self, most: int | None) -> list[str]:
        """Return the broken promises, if any."""
        wrong = []
        tokens = [held.token for held in self.held]
        if len(set(tokens)) != len(tokens):
            wrong.append("a token was issued twice")
        lines: dict[int, list[Held]] = defaultdict(list)
        for held in sorted(self.held, key=lambda each: each.token):
            lines[held.item].append(held)
        for line in lines.values():
            for before, after in pairwise(line):
                if after.told < min(before.until, before.ended):
                    wrong.append(f"two holders: {before}, {after}")
                if before.confirmed > after.told:
                    wrong.append(f"a stale token confirmed: {before}, {after}")
        for item in range(ITEMS):
            count = sum(held.item == item and held.confirmed > 0 for held in self.held)
            if count != 1:
                wrong.append(f"item {item} was confirmed {count} times")
        if most is not None and self.held_at_once > most:
            wrong.append(f"{self.held_at_once} items were lent at once, and {most} may be")
        return wrong

    @property
    def held_at_once(self) -> int:
        """Return the largest number of leases that surely existed at one moment."""
        sure = [(each.told, min(each.until, each.ended)) for each in self.held]
        changes = [(began, 1) for began, end in sure if began < end]
        changes += [(end, -1) for began, end in sure if began < end]
        return max(accumulate(change for _, change in sorted(changes)))


@pytest.mark.slow
@pytest.mark.parametrize("most", [None, 1, 3])
def test_no_item_has_two_holders_and_each_is_confirmed_once(
    tmp_path: Path, most: int | None
) -> None:
    seed = new_seed()
    config = '[queue_defaults]\nmax_attempts = "none"\n'
    config += f"max_leased = {most}\n" if most else ""
    books = Books()
    with DaemonProcess(tmp_path / "data", config=config) as daemon:
        client = daemon.client()
        for number in range(ITEMS):
            assert client.set("jobs", b"%d" % number)
        racers = [Racer(daemon, books, seed + number) for number in range(THREADS)]
        with ThreadPoolExecutor(THREADS) as threads:
            for running in [threads.submit(racer.run) for racer in racers]:
                running.result()
        left = client.get("jobs")
        for each in (client, *(client for racer in racers for client in racer.clients)):
            each.close()
        leave_nothing(daemon)

    assert books.judge(most) == []
    assert left is None
    assert books.held_at_once > 1 or most == 1, "no two clients raced"
    assert len(books.held) > ITEMS, "no lease was ended without a confirm"
