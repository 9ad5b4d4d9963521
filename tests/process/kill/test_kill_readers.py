"""`kill -9` while consumers, fan-out children and observers read one log: each has each item, once.

The real process is killed. Every item is set once. Each reader of a queue confirms it once, however
the others go on; an observer sees each retained item once, in the order of markers, over all lives
of the server. A request without an answer is in doubt.

Promise each-reader-once: the real daemon under consumers, children, one of them named late, and
    observers.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter, defaultdict
from functools import partial
from pathlib import Path

import pytest

from tests.support.daemon import DaemonProcess
from tests.support.kills import kill_under, new_seed, rounds, see_nothing_left
from tests.support.left import leave
from tests.support.raw import Raw, wait_until

ROUNDS = 8
QUEUES = ("orders", "news")  # all that is done in the first is kept, of the second a little
CHILDREN = ("orders+audit", "orders+slow", "news+audit")
LATE = "orders+late"  # is named when others have read already, and begins with all of it
RETAINED_KIB = 64  # of the second
CONFIG = f"""
[journal]
segment_min = "16KiB"
segment_max = "16KiB"
[queue_defaults]
max_attempts = "none"
[queues.orders]
retain = "forever"
[queues.news]
retain = "{RETAINED_KIB}KiB"
"""


class Books:
    """The answers that clients had, over all lives of the server, by queue or by reader."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.number = 0
        self.sent: defaultdict[str, set[bytes]] = defaultdict(set)
        self.stored: defaultdict[str, set[bytes]] = defaultdict(set)
        self.confirmed: defaultdict[str, set[bytes]] = defaultdict(set)
        self.in_doubt: defaultdict[str, set[bytes]] = defaultdict(set)
        self.drained: defaultdict[str, Counter[bytes]] = defaultdict(Counter)
        self.failed: Counter[str] = Counter()  # deliveries that came to nothing
        self.perhaps_failed: Counter[str] = Counter()
        self.seen: defaultdict[str, list[tuple[int, bytes]]] = defaultdict(list)  # by observers
        self.has_late = False
        self.wrong: list[str] = []

    def are_enough(self) -> bool:
        """Did each reader confirm something, and does more go than what is retained?"""
        readers = (*QUEUES, *CHILDREN, LATE)
        has_gone = sum(map(len, self.stored["news"])) > 4 * RETAINED_KIB << 10
        return has_gone and all(len(self.confirmed[line]) > 10 for line in readers)


class Crowd:
    """Producers, a consumer for each line, an observer for each queue."""

    def __init__(self, daemon: DaemonProcess, books: Books, seed: int) -> None:
        self.daemon = daemon
        self.books = books
        self.seed = seed

    def run_until_killed(self, seconds: float) -> None:
        works = [lambda chance, q=queue: self._produce(q, chance) for queue in QUEUES]
        works += [lambda chance, q=queue: self._observe(q) for queue in QUEUES]
        lines = [*QUEUES, *CHILDREN, *([LATE] if self.books.has_late else [])]
        works += [lambda chance, line=line: self._consume(line, chance) for line in lines]
        chances = [random.Random(self.seed + n) for n in range(len(works))]
        self.seed += len(works)
        kill_under(self.daemon, [*map(partial, works, chances)], seconds)

    def _produce(self, queue: str, chance: random.Random) -> None:
        client, books = self.daemon.client(), self.books
        while True:
            with books.lock:
                books.number += 1
                # More of the second goes than is retained, on a slow machine too.
            most = 300 if queue == "orders" else 1200
            body = b"%d " % books.number + b"x" * chance.randrange(most)
            books.sent[queue].add(body)
            option = chance.choice(("", "", "/delay=20ms", f"/key={chance.choice('AB')}"))
            assert client.set(queue + option, body)
            books.stored[queue].add(body)

    def _consume(self, line: str, chance: random.Random) -> None:
        client, books = self.daemon.client(), self.books
        while True:
            body = client.get(f"{line}/open/t=20")
            if body is None:
                continue
            if body in books.confirmed[line]:
                books.wrong.append(f"{line}: {body!r} came back though its confirm was answered")
            if chance.random() < (0.4 if "slow" in line else 0.1):
                books.perhaps_failed[line] += 1
                client.get(f"{line}/{chance.choice(('abort', 'defer/delay=5ms'))}")
                books.failed[line] += 1
            else:
                books.in_doubt[line].add(body)
                client.get(f"{line}/close")
                books.in_doubt[line].discard(body)
                books.confirmed[line].add(body)

    def _observe(self, queue: str) -> None:
        with Raw(("127.0.0.1", self.daemon.port)) as raw:
            while True:
                if not self.look(raw, queue):
                    time.sleep(0.01)

    def look(self, raw: Raw, queue: str) -> int:
        """Read the items after the last marker; return their number."""
        seen = self.books.seen[queue]
        last = seen[-1][0] if seen else 0
        found = raw.values(b"%b/peek/after=%d/n=100" % (queue.encode(), last))
        for marker, body in found:
            if marker <= last:
                self.books.wrong.append(f"{queue}: marker {marker} came after {last}")
            last = marker
            seen.append((marker, body))
        return len(found)


def run(folder: Path, wanted: int) -> Books:
    """Kill `wanted` times, drain every line, and compare."""
    seed = new_seed()
    chance = random.Random(seed)
    books = Books()
    with DaemonProcess(folder / "data", config=CONFIG) as daemon:
        for child in CHILDREN:
            daemon.client().get(child)
        crowd = Crowd(daemon, books, seed)
        for number in rounds(wanted, books.are_enough):
            crowd.run_until_killed(chance.uniform(0.15, 0.4))
            daemon.start()
            if number == wanted // 2:
                daemon.client().get(f"{LATE}/from=0/peek")
                books.has_late = True
        for line in (*QUEUES, *CHILDREN, LATE):
            drain(daemon, line, books.drained[line])
        with Raw(("127.0.0.1", daemon.port)) as raw:
            for queue in QUEUES:
                while crowd.look(raw, queue):
                    pass
            earliest = "queue_news_marker_earliest"
            wait_until(lambda: int(raw.stats(b"stats markers")[earliest]) > 1, "some of it went")
        see_nothing_left(daemon)
    check(books)
    return books


def drain(daemon: DaemonProcess, line: str, drained: Counter[bytes]) -> None:
    """Take all that is there, and what is delayed when it is due."""
    client = daemon.client()

    def is_empty() -> bool:
        while (body := client.get(line)) is not None:
            drained[body] += 1
        facts = client.stats(line)
        return not any(int(facts[f"queue_{line}_{k}".encode()]) for k in ("items", "delayed"))

    wait_until(is_empty, f"{line} is empty")


def check(books: Books) -> None:
    assert books.wrong == []
    for line in (*QUEUES, *CHILDREN, LATE):
        queue = line.partition("+")[0]
        confirmed, drained = books.confirmed[line], books.drained[line]
        assert max(drained.values(), default=1) == 1, f"{line}: an item was there twice"
        assert confirmed.isdisjoint(drained), f"{line}: a confirmed item came back"
        assert confirmed | drained.keys() <= books.sent[queue]
        lost = books.stored[queue] - confirmed - drained.keys() - books.in_doubt[line]
        assert lost == set(), f"{line}: an acknowledged item is lost"
    for queue in QUEUES:
        bodies = Counter(body for _, body in books.seen[queue])
        assert max(bodies.values()) == 1, f"{queue}: an observer saw an item twice"
        assert bodies.keys() <= books.sent[queue]
    assert books.stored["orders"] <= {body for _, body in books.seen["orders"]}


@pytest.mark.slow
def test_over_kill_9_each_reader_has_each_item_once_and_observers_see_it_once(
    tmp_path: Path,
) -> None:
    leave("readers", tmp_path, run(tmp_path, ROUNDS))
