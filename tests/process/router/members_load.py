"""Clients of the members of a fleet, who ask any of them, and the books that they write.

    producers ──set──▶ jobs, keyed, once, in slices of their own;  orders with a child
    workers   ◀─open── one queue, or several in one get, by connection or by token ──confirm──▶

It is the load of a fleet of one slice (`tests.process.fleet.load`), and more: items of one key are
handed out in the order in which they were stored, and each reader of a queue gets every item.

One rule: a key has two holders only while its slice gets another owner, or when a lease is over.
"""

from __future__ import annotations

import json
import threading
import time
from collections import defaultdict
from collections.abc import Collection
from typing import Final, NamedTuple

from tests.process.fleet.load import (
    PAUSE_SECONDS,
    Books,
    Caller,
    Client,
    Hold,
    Load,
    Members,
    NotDone,
    Producer,
    Unanswered,
    Worker,
)

QUEUES: Final = ("jobs", "keyed", "once", "orders")
CHILD: Final = "orders+audit"  # it gets what is stored in orders
SEVERAL: Final = b"get once/peek jobs/open orders/peek\r\n"  # three slices
KEYED_PRODUCERS: Final = ("2", "3")  # those of `Load` whose items have keys
LATE_SECONDS: Final = 1.0  # until the books know of another owner


class Double(NamedTuple):
    """Two holders of a key: since when the first one had it, and when the second one got it."""

    since_s: float
    at_s: float
    first: Hold
    second: Hold


class FleetBooks(Books):
    """The answers about the items of one reader: of the queues, or of the child."""

    def __init__(self, members: Members, child: FleetBooks | None = None) -> None:
        """`child` has the books about the items of the child."""
        super().__init__(members)
        self.child = child
        if child is not None:
            self.stopping = child.stopping  # the readers of the child end with the others
        self.changes_s: list[float] = []  # when a member was hit, or a slice had another owner
        self.doubles: list[Double] = []
        self._since_s: dict[str, float] = {}  # by key: when its holder got it
        # The acknowledged items that nobody was given yet, by key and producer.
        self._unseen: dict[tuple[int, str], set[int]] = defaultdict(set)

    def stored(self, body: bytes) -> None:
        super().stored(body)
        line, number = _place(body)
        if line[1] in KEYED_PRODUCERS and body not in self.seen:
            self._unseen[line].add(number)

    def handed_out(self, body: bytes) -> None:
        """Note that a worker was given this item; no earlier one of its key may be left out."""
        super().handed_out(body)
        line, number = _place(body)
        with self.lock:
            unseen = self._unseen[line]
            unseen.discard(number)
            if earlier := sorted(each for each in unseen if each < number):
                self.wrong.append(f"{body!r} came before {earlier[:3]} of its key and producer")

    def takes_key(self, key: str, hold: Hold) -> None:
        now_s = time.monotonic()
        with self.lock:
            first = self.held.get(key)
            if first is not None and first.until_s > now_s:
                self.doubles.append(Double(self._since_s[key], now_s, first, hold))
            self.held[key], self._since_s[key] = hold, now_s

    def unexplained(self) -> list[Double]:
        """Return the keys that had two holders though no slice had another owner meanwhile."""
        return [
            each for each in self.doubles
            if not any(
                each.since_s - LATE_SECONDS <= at_s <= each.at_s + LATE_SECONDS
                for at_s in self.changes_s
            )
        ]  # fmt: skip


def _place(body: bytes) -> tuple[tuple[int, str], int]:
    """Return the key of an item with its producer, and its number."""
    item = json.loads(body)
    producer, _, number = item["n"].partition(":")
    return (item["k"], producer), int(number)


class ParentProducer(Producer):
    """Stores items that the child gets as well."""

    def __init__(self, books: FleetBooks, number: int, seed: int) -> None:
        super().__init__(books, number, seed, "orders")
        assert books.child is not None
        self._child = books.child

    def sends(self, body: bytes) -> None:
        super().sends(body)
        with self._child.lock:
            self._child.sent.add(body)

    def stored(self, body: bytes) -> None:
        super().stored(body)
        with self._child.lock:
            self._child.stored(body)


class SeveralCaller(Caller):
    """A client whose answers have any number of items."""

    def __init__(self, books: Books, patience_s: float) -> None:
        super().__init__(books, patience_s)
        self.values: list[tuple[bytes, bytes]] = []  # of the last answer: keys and bodies

    def _answer(self) -> tuple[bytes, bytes]:
        self.values = []
        while (line := self._line()).startswith(b"VALUE"):
            _, key, _, size, *_ = line.split()
            while len(self._in) < int(size) + 2:
                self._more()
            self.values.append((key, self._in[: int(size)]))
            self._in = self._in[int(size) + 2 :]
        return line, b""


class SeveralWorker(Client):
    """Looks at two slices and fetches from a third one in one request, and confirms."""

    caller: SeveralCaller

    def __init__(self, books: Books, number: int, seed: int) -> None:
        super().__init__(books, number, seed)
        self.caller = SeveralCaller(books, self.caller.patience_s)

    def step(self) -> None:
        try:
            line, _ = self.caller.ask(SEVERAL)
        except (NotDone, Unanswered):
            return
        if line != b"END":
            self.books.wrong.append(f"a get of several queues was answered {line!r}")
        self.count += len(self.caller.values) > 1
        bodies = [body for key, body in self.caller.values if key == b"jobs/open"]
        if not bodies:
            time.sleep(PAUSE_SECONDS)
        for body in bodies:
            self.books.handed_out(body)
            try:
                line, _ = self.caller.ask(b"get jobs/close\r\n")
            except (NotDone, Unanswered):
                with self.books.lock:
                    self.books.in_doubt.add(body)
                return
            with self.books.lock:
                if line == b"END":
                    self.books.confirmed.add(body)
                else:
                    self.books.wrong.append(f"a confirm was answered {line!r}")


class FleetLoad(Load):
    """All clients of a campaign."""

    def __init__(self, books: FleetBooks, seed: int) -> None:
        super().__init__(books, seed)
        assert books.child is not None
        first = len(self.clients)
        self.several = SeveralWorker(books, first, seed)
        more: Collection[Client] = (
            self.several,
            ParentProducer(books, first + 1, seed),
            Worker(books, first + 2, seed, "orders", "one trip"),
            Worker(books.child, first + 3, seed, CHILD, "connection"),
            Worker(books.child, first + 4, seed, CHILD, "token"),
        )
        self.clients += more
        self._threads += [threading.Thread(target=each.run, daemon=True) for each in more]

    def go_on(self, counts: dict[int, int]) -> bool:
        """True if every producer has stored something since `counts`, or need not."""
        return all(
            each.count > counts[each.number] + 1 or each.is_ahead
            for each in self.clients if isinstance(each, Producer)
        )  # fmt: skip

    @property
    def counts(self) -> dict[int, int]:
        """How much each client has begun."""
        return {each.number: each.count for each in self.clients}
