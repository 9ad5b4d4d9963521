"""Several connections that put and confirm all the time, and record the replies."""

from __future__ import annotations

import itertools
import threading
from types import TracebackType
from typing import Self

from pymemcache.exceptions import MemcacheError

from tests.support.daemon import DaemonProcess

PRODUCERS = 3
CONSUMERS = 2


class Load:
    """Runs from `with` to its end. Sets only grow; read them from outside as they are."""

    def __init__(self, daemon: DaemonProcess, body_bytes: int = 600) -> None:
        self.daemon = daemon
        self.sent: set[bytes] = set()
        self.stored: set[bytes] = set()
        self.confirming: set[bytes] = set()  # a confirm was sent, or will be
        self._padding = b"x" * body_bytes
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._guarded, args=(n,)) for n in range(PRODUCERS + CONSUMERS)
        ]
        self.failures: list[BaseException] = []

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(30)
        assert not self.failures, self.failures

    def _guarded(self, number: int) -> None:
        try:
            if number < PRODUCERS:
                self._produce(number)
            else:
                self._consume()
        except (OSError, MemcacheError) as error:
            self.failures.append(error)

    def _produce(self, number: int) -> None:
        client = self.daemon.client()
        for count in itertools.count():
            if self._stop.is_set():
                return
            body = b"%d:%d:" % (number, count) + self._padding
            self.sent.add(body)
            if client.set("jobs", body):
                self.stored.add(body)

    def _consume(self) -> None:
        client = self.daemon.client()
        for count in itertools.count():
            if self._stop.is_set():
                return
            body = client.get("jobs/open/t=20")
            if body is not None and count % 5 == 4:
                client.get("jobs/abort")
            elif body is not None:
                self.confirming.add(body)
                client.get("jobs/close")


def drained(daemon: DaemonProcess, queue: str = "jobs") -> list[bytes]:
    """Fetch and confirm every item of a queue; return the bodies in order."""
    client = daemon.client()
    found = []
    while (body := client.get(f"{queue}/close/open")) is not None:
        found.append(body)
    client.close()
    return found


def number_of(body: bytes) -> tuple[int, int]:
    """Return the connection and the number of an item."""
    producer, count, _ = body.split(b":", 2)
    return int(producer), int(count)
