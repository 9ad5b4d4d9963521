"""A load on the members of a fleet, which writes down what it was told, and by whom.

Each client asks one member after the other until one serves. Every item is set once: a set whose
answer was lost may or may not be there, and so may an item whose confirm was not answered.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from typing import NamedTuple

from pymemcache.client.base import Client
from pymemcache.exceptions import MemcacheError

PRODUCERS = 3
CONSUMERS = 3
PAUSE_SECONDS = 0.02
JOIN_SECONDS = 60.0
_NUMBERS = itertools.count(1)


class Answer(NamedTuple):
    """The answer of a member to one request, with the times."""

    began: float
    ended: float
    member: str
    trouble: str  # "": it did what it was asked


class FleetLoad:
    """A context: inside it producers and consumers run."""

    def __init__(self, members: Mapping[str, Callable[[], Client]]) -> None:
        """`members` make a client each."""
        self.members = members
        self.queue = f"jobs-{next(_NUMBERS)}"  # each load has one of its own
        self.acknowledged: set[bytes] = set()
        self.sent: set[bytes] = set()
        self.confirmed: set[bytes] = set()
        self.in_doubt: set[bytes] = set()  # a confirm was sent and its answer lost
        self.returned: list[bytes] = []
        self.answers: list[Answer] = []
        self._failures: list[BaseException] = []
        self._ending = threading.Event()
        self._lock = threading.Lock()
        self._threads = [
            threading.Thread(target=self._guarded, args=(work, number), daemon=True)
            for work, count in ((self._produce, PRODUCERS), (self._consume, CONSUMERS))
            for number in range(count)
        ]

    def __enter__(self) -> FleetLoad:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        for thread in self._threads:
            thread.join(JOIN_SECONDS)
            assert not thread.is_alive(), "a client waits for ever"
        if self._failures:
            raise self._failures[0]

    def served_by(self, member: str, since: float = 0.0) -> list[Answer]:
        """Return the requests that began since then and that this member did."""
        with self._lock:
            return [
                each for each in self.answers
                if each.member == member and each.began >= since and not each.trouble
            ]  # fmt: skip

    def refused_by(self, member: str, since: float = 0.0) -> list[Answer]:
        """Return the requests that began since then and that this member did not do."""
        with self._lock:
            return [
                each for each in self.answers
                if each.member == member and each.began >= since and each.trouble
            ]  # fmt: skip

    def longest_pause(self) -> float:
        """Return the longest time in which no client was served."""
        with self._lock:
            ends = sorted(each.ended for each in self.answers if not each.trouble)
        return max((b - a for a, b in itertools.pairwise(ends)), default=0.0)

    def troubles(self) -> Counter[str]:
        """Return what clients saw that was no service, and how often."""
        with self._lock:
            return Counter(each.trouble for each in self.answers if each.trouble)

    def check(self, owner: Callable[[], Client]) -> str:
        """Fetch the remaining items from this member; check that no item is lost and no confirmed
        one came back. Return the counts."""
        left: list[bytes] = []
        with closing(owner()) as client:
            while (body := client.get(self.queue)) is not None:
                left.append(body)
        assert self.returned == [], "a confirmed item was delivered again"
        assert self.confirmed.isdisjoint(left), "a confirmed item came back"
        assert set(left) <= self.sent, "an item appeared that no client stored"
        assert len(set(left)) == len(left), "an item is there twice"
        gone = self.acknowledged - self.confirmed - set(left) - self.in_doubt
        assert gone == set(), f"an acknowledged item is lost: {sorted(gone)[:5]}"
        for number in range(PRODUCERS):
            order = [int(b.split(b":")[1]) for b in left if b.startswith(b"%d:" % number)]
            assert order == sorted(order), f"producer {number}'s items are out of order"
        unanswered = self.sent - self.acknowledged
        there = unanswered & (self.confirmed | self.in_doubt | set(left))
        return (
            f"{len(self.acknowledged)} stored, {len(self.confirmed)} confirmed, "
            f"{len(unanswered)} sets unanswered, of which {len(there)} are there, "
            f"{len(self.in_doubt)} confirms unanswered, longest pause {self.longest_pause():.1f} s"
        )

    # -- on the threads -----------------------------------------------------------------------

    def _guarded(self, work: Callable[[int], None], number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            self._failures.append(error)

    def _produce(self, number: int) -> None:
        turns = self._turns(number)
        name, client = next(turns)
        for place in itertools.count():
            if self._ending.is_set():
                break
            body = b"%d:%d" % (number, place)
            self.sent.add(body)
            if self._ask(name, lambda c=client, b=body: c.set(self.queue, b)) is True:
                with self._lock:
                    self.acknowledged.add(body)
            else:
                client.close()
                name, client = next(turns)
                time.sleep(PAUSE_SECONDS)
        client.close()

    def _consume(self, number: int) -> None:
        turns = self._turns(number)
        name, client = next(turns)
        held: bytes | None = None
        while held is not None or not self._ending.is_set():
            asked = [
                self.queue, *(["close"] if held is not None else []),
                *(["open", "t=20"] if not self._ending.is_set() else []),
            ]  # fmt: skip
            if len(asked) == 4 and number % 2:
                asked = asked[:2]  # a trip for each
            key = "/".join(asked)
            before, held = held, None
            body = self._ask(name, lambda c=client, k=key: c.get(k))
            if isinstance(body, OSError | MemcacheError):
                if before is not None:
                    self.in_doubt.add(before)
                client.close()
                name, client = next(turns)
                time.sleep(PAUSE_SECONDS)
                continue
            with self._lock:
                if before is not None:
                    self.confirmed.add(before)
                if isinstance(body, bytes):
                    held = body
                    if body in self.confirmed:
                        self.returned.append(body)
        client.close()

    def _turns(self, number: int) -> Iterator[tuple[str, Client]]:
        """Yield a client of one member after the other."""
        names = sorted(self.members)
        for place in itertools.count(number):
            name = names[place % len(names)]
            yield name, self.members[name]()

    def _ask(self, member: str, request: Callable[[], object]) -> object:
        """Return the answer, or the error that came in its place."""
        began = time.monotonic()
        said: object
        try:
            said = request()
            trouble = ""
        except (OSError, MemcacheError) as error:
            said, trouble = error, f"{type(error).__name__}: {error}"
        with self._lock:
            self.answers.append(Answer(began, time.monotonic(), member, trouble))
        return said


def until(condition: Callable[[], object], what: str, seconds: float = 60.0) -> None:
    """Look again and again until it is so."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not in {seconds:g} s: {what}"
        time.sleep(0.02)


def stored(client: Callable[[], Client], key: str = "probe") -> None:
    """Store an item there, as soon as it is possible."""

    def stores() -> bool:
        with suppress(MemcacheError, OSError), closing(client()) as made:
            return bool(made.set(key, "x"))
        return False

    until(stores, "it stores")
