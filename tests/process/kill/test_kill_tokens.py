"""`kill -9` while leases by token are alive: they go on, and only their own tokens are good.

The real process is killed. Every item is set once. A worker keeps its tokens over the kills; a
request without an answer is in doubt.

Promise: token.
"""

from __future__ import annotations

import random
import shutil
import threading
from pathlib import Path

import pytest

from tests.support.daemon import DaemonProcess
from tests.support.kills import kill_under, leave_nothing, new_seed, rounds
from tests.support.left import leave

ROUNDS = 8
WORKERS = 3
ITEMS = 3000
CONFIG = '[queue_defaults]\nmax_attempts = "none"\narchive_to = "archive"\n'
HELD_MAX = 50  # by one worker


class Books:
    """The answers that the workers had, over all lives of the server."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.held: dict[bytes, int] = {}  # the holder of each item that is known to be leased
        self.tokens: set[int] = set()
        self.confirmed: set[bytes] = set()
        self.in_doubt: set[bytes] = set()
        self.drained: set[bytes] = set()  # at the end
        self.still_leased = 0
        self.wrong: list[str] = []

    def leased(self, body: bytes, token: int, who: int) -> None:
        with self.lock:
            if body in self.confirmed:
                self.wrong.append(f"{body!r} came back though its confirm was answered")
            if body in self.held and body not in self.in_doubt:
                self.wrong.append(f"{body!r} is lent to {who} and to {self.held[body]}")
            if token in self.tokens:
                self.wrong.append(f"token {token} was issued twice")
            self.in_doubt.discard(body)
            self.tokens.add(token)
            self.held[body] = who


class Worker:
    """Opens by token and ends what it holds, by random words, until the server is gone."""

    def __init__(self, number: int, daemon: DaemonProcess, books: Books, seed: int) -> None:
        self.number = number
        self.daemon = daemon
        self.books = books
        self.random = random.Random(seed)
        self.tokens: list[tuple[bytes, int]] = []
        self.after_a_kill = 0

    def run(self) -> None:
        client = self.daemon.client()
        for body, token in self.tokens:  # a lease that was answered goes on
            if not client.touch(f"jobs/token={token}", 600):
                self.books.wrong.append(f"{body!r}: token {token} is not good after a kill")
            self.after_a_kill += 1
        while True:
            self._one(client)

    def _one(self, client: object) -> None:
        assert hasattr(client, "gets")
        if len(self.tokens) < HELD_MAX and self.random.random() < 0.6:
            body, token = client.gets("jobs/open/lease=600s")
            if body is not None:
                self.books.leased(body, int(token), self.number)
                self.tokens.append((body, int(token)))
            return
        if not self.tokens:
            return
        body, token = self.tokens.pop(self.random.randrange(len(self.tokens)))
        how = self.random.choice(("close", "delete", "abort", "defer"))
        with self.books.lock:
            self.books.in_doubt.add(body)
            if how in ("abort", "defer"):
                self.books.held.pop(body)  # another may have it before we hear the answer
        if how == "delete":
            assert client.delete(f"jobs/token={token}"), f"{body!r}: {token} refused"
        else:
            client.get(f"jobs/{how}/token={token}")
        with self.books.lock:
            if how in ("close", "delete"):
                self.books.in_doubt.discard(body)
                self.books.confirmed.add(body)
                del self.books.held[body]


def run(folder: Path, wanted: int, items: int) -> Books:
    """Kill `wanted` times, drain the queue, and compare."""
    seed = new_seed()
    chance = random.Random(seed)
    books = Books()
    with DaemonProcess(folder / "data", config=CONFIG) as daemon:
        client = daemon.client()
        sent = {b"%d" % number for number in range(items)}
        for body in sorted(sent):
            assert client.set("jobs", body)
        workers = [Worker(n, daemon, books, seed + n) for n in range(WORKERS)]
        # Enough is when leases lived over a kill.
        for _ in rounds(wanted, lambda: sum(each.after_a_kill for each in workers) > wanted):
            kill_under(daemon, [each.run for each in workers], chance.uniform(0.05, 0.25))
            daemon.start()
        client = daemon.client()
        for worker in workers:
            for body, token in worker.tokens:
                if not client.delete(f"jobs/token={token}"):
                    books.wrong.append(f"{body!r}: token {token} is not good at the end")
                books.confirmed.add(body)
        books.still_leased = int(client.stats("jobs")[b"queue_jobs_leased"])
        while (left := client.get("jobs")) is not None:
            books.drained.add(left)

    assert books.wrong == []
    assert books.drained.isdisjoint(books.confirmed), "a confirmed item came back"
    lost = sent - books.drained - books.confirmed - books.in_doubt
    # A lease whose answer was lost goes on, and so may one whose end was not answered.
    assert len(lost) <= books.still_leased <= len(lost) + len(books.in_doubt)
    return books


@pytest.mark.slow
def test_leases_by_token_go_on_after_kill_9_and_no_token_is_good_for_another(
    tmp_path: Path,
) -> None:
    leave("tokens", tmp_path, run(tmp_path, ROUNDS, ITEMS))

    copy = tmp_path / "end" / "data"  # the audit of the original finds leases that are alive
    shutil.copytree(tmp_path / "data", copy)
    with DaemonProcess(copy, config=CONFIG) as daemon:
        leave_nothing(daemon)
