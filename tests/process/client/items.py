"""Putting, taking and counting items in the tests of the client."""

from __future__ import annotations

from typing import Any

from kestrelpy.client import Worker, WorkerItem
from tests.support.daemon import DaemonProcess


def put(daemon: DaemonProcess, queue: str, *bodies: bytes) -> None:
    client = daemon.client()
    for body in bodies:
        assert client.set(queue, body)
    client.close()


def worker_of(daemon: DaemonProcess, queue: str, **settings: Any) -> Worker:
    return Worker(queue, ("127.0.0.1", daemon.port), **{"wait": "10s", **settings})


def take(worker: Worker) -> WorkerItem:
    item = worker.fetch()
    assert item is not None
    return item


def left(daemon: DaemonProcess, queue: str) -> list[bytes]:
    """Every body that is still there, open ones excepted."""
    client = daemon.client()
    return list(iter(lambda: client.get(queue), None))


def attempts(daemon: DaemonProcess, queue: str) -> int:
    """Return the attempts of the leased item."""
    facts = daemon.client().stats(f"{queue}/open")
    return next(n for key, n in facts.items() if key.endswith(b"_attempts"))
