"""Producers and workers for three daemons, with failures: for `pipeline`.

    producer ──set──▶ daemon ──close/open──▶ worker ── handled, and recorded
     (each daemon)                            (each queue of each daemon)
                                              ├─ abort, the first time        comes again
                                              ├─ hang-up, the first time      comes again
                                              ├─ handled, then hang-up        handled twice
                                              ├─ handled, and handed off to `done`, if there is one
                                              └─ abort or hang-up every time  dies

The number of a message decides whether and how it fails, so that a run can be checked. Besides, a
daemon is killed: each worker and producer that waits for an answer then records that.

One rule: a message is recorded before it is confirmed, so no worker loses one.
"""

from __future__ import annotations

import threading
import zlib
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from enum import Enum
from threading import Event
from typing import Final

from pymemcache.exceptions import MemcacheError

from kestrelpy.examples.messages import QUEUES, Message, number_and_checksum
from kestrelpy.examples.trio import DAEMONS, Daemon

_WAIT_MS: Final = 500
_PAUSE_SECONDS: Final = 0.05
_LOST: Final = (OSError, MemcacheError)  # the connection, or the server with it


class Fate(Enum):
    """The way a message is handled or fails."""

    HANDLED = "handled"
    ABORTED = "given back once"
    HUNG_UP = "hung up once"
    DOUBLED = "handled, and hung up before the confirm"
    HOPELESS = "fails every time"


# How many of a thousand messages; the others are handled.
_OF_A_THOUSAND: Final = (
    (Fate.HOPELESS, 2), (Fate.ABORTED, 10), (Fate.HUNG_UP, 5), (Fate.DOUBLED, 3),
)  # fmt: skip


def fate_of(number: int) -> Fate:
    """Return the fate of a message, by its number alone."""
    drawn = zlib.crc32(b"no. %d" % number) % 1000
    for fate, count in _OF_A_THOUSAND:
        if drawn < count:
            return fate
        drawn -= count
    return Fate.HANDLED


class Books:
    """The records of the crew: numbers of messages, each as often as it happened."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.stored = 0
        self.handled: Counter[int] = Counter()
        self.checksums: dict[int, set[int]] = {}
        self.failed: Counter[int] = Counter()  # deliveries that a worker ended without a confirm
        self.unsure: Counter[int] = Counter()  # leased when the daemon was killed
        self.resent: Counter[int] = Counter()  # STORED was lost when the daemon was killed

    def write(self, book: Counter[int], number: int) -> None:
        """Count a message once more."""
        with self.lock:
            book[number] += 1

    def store(self) -> None:
        """Count a message that is on disk."""
        with self.lock:
            self.stored += 1

    def handle(self, number: int, checksum: int) -> None:
        """Do the work on a message: count it."""
        with self.lock:
            self.handled[number] += 1
            self.checksums.setdefault(number, set()).add(checksum)


class Crew:
    """The threads of a run: a producer for each daemon, a worker for each queue of each."""

    def __init__(
        self, daemons: Sequence[Daemon], messages: Sequence[Message], books: Books | None = None,
        *, done: str | None = None, mended: bool = False,
    ) -> None:  # fmt: skip
        """`done`: the queue that handled messages are handed off to. `mended`: none fails."""
        self.books = books if books is not None else Books()
        self._done, self._mended = done, mended
        self._stopping = threading.Event()
        self._daemons = daemons
        self._pool = ThreadPoolExecutor(len(daemons) * (1 + len(QUEUES)))
        self._workers: list[Future[None]] = []
        self._producers = [
            self._pool.submit(
                _Producer(daemon, messages[number::DAEMONS], self.books, self._stopping).run
            )
            for number, daemon in enumerate(daemons)
        ]

    def start_work(self) -> None:
        """Start the workers."""
        self._workers = [
            self._pool.submit(
                _Worker(daemon, queue, self.books, self._stopping, self._done, self._mended).run
            )
            for daemon in self._daemons
            for queue in QUEUES.values()
        ]

    @property
    def has_stored_all(self) -> bool:
        """True if every producer has ended. Raises the error of any worker or producer."""
        for each in (*self._workers, *self._producers):
            if each.done():
                each.result()
        return all(each.done() for each in self._producers)

    def stop(self) -> None:
        """Let each end after its present message. Raises the error of any of them."""
        self._stopping.set()
        self._pool.shutdown()
        for each in (*self._workers, *self._producers):
            each.result()


class _Producer:
    """Stores its share, each message until the daemon says that it is on disk."""

    def __init__(
        self, daemon: Daemon, messages: Sequence[Message], books: Books, stopping: Event
    ) -> None:
        self._daemon, self._messages, self._books = daemon, messages, books
        self._stopping = stopping

    def run(self) -> None:
        client = self._daemon.client()
        for message in self._messages:
            while not self._stopping.is_set():
                try:
                    if client.set(message.queue, message.body()):
                        self._books.store()
                        break
                except ConnectionRefusedError:
                    pass  # the daemon does not listen yet
                except _LOST:
                    # No answer: it may be stored or not. So it is sent again.
                    self._books.write(self._books.resent, message.number)
                self._stopping.wait(_PAUSE_SECONDS)
        client.close()


class _Worker:
    """Handles one queue of one daemon; pymemcache connects again by itself."""

    def __init__(
        self, daemon: Daemon, queue: str, books: Books, stopping: Event, done: str | None,
        mended: bool,
    ) -> None:  # fmt: skip
        self._client = daemon.client()
        self._queue, self._books, self._stopping = queue, books, stopping
        self._done, self._mended = done, mended
        self._leased: int | None = None
        self._failed: set[int] = set()

    def run(self) -> None:
        while self._leased is not None or not self._stopping.is_set():
            # `close` only for a message of this very connection: after a break there is none.
            closing = ["close"] if self._leased is not None else []
            opening = ["open", f"t={_WAIT_MS}"] if not self._stopping.is_set() else []
            body = self._ask(*closing, *opening)
            self._leased = None
            if body is not None:
                self._meet(body)
        self._client.close()

    def _ask(self, *options: str) -> bytes | None:
        """Return the answer; None: there is no item, or no daemon."""
        try:
            found: bytes | None = self._client.get("/".join([self._queue, *options]))
        except _LOST:
            if self._leased is not None:
                self._books.write(self._books.unsure, self._leased)
            self._stopping.wait(_PAUSE_SECONDS)
            return None
        return found

    def _meet(self, body: bytes) -> None:
        number, checksum = number_and_checksum(body)
        fate = Fate.HANDLED if self._mended else fate_of(number)
        if fate is Fate.HANDLED or (fate is not Fate.HOPELESS and number in self._failed):
            self._books.handle(number, checksum)
            self._leased = number
            if self._done is not None:
                self._hand_off(body)
            return
        self._failed.add(number)
        self._books.write(self._books.failed, number)
        if fate is Fate.DOUBLED:
            self._books.handle(number, checksum)
        if fate is Fate.ABORTED or (fate is Fate.HOPELESS and number % 2):
            self._leased = number  # if the daemon is killed now, it goes back by itself
            self._ask("abort")
            self._leased = None
        else:
            self._client.close()

    def _hand_off(self, body: bytes) -> None:
        """Store the message in the next queue and confirm it here, both or neither."""
        try:
            self._client.set(f"{self._done}/confirm", body)
        except _LOST:
            assert self._leased is not None
            self._books.write(self._books.unsure, self._leased)
            self._stopping.wait(_PAUSE_SECONDS)
        self._leased = None
