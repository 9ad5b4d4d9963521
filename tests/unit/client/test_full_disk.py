"""On a full disk a worker leases by connection, and by token again as soon as there is room."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from pymemcache.exceptions import MemcacheServerError

from kestrelpy.client.connection import BlockingConnection
from kestrelpy.client.worker import Worker
from kestrelpy.wire.answers import ReceivedItem

FULL = "disk full: there is no room for this now"


class Server(BlockingConnection):
    """Answers a worker; while it `is_full` it refuses leases by token."""

    def __init__(self, items: int) -> None:
        self.is_full = False
        self.items = items
        self.asked: list[str] = []  # how each item that was handed out is leased

    def connect(self) -> None:
        pass

    def close(self) -> None:
        pass

    def open(self, key: str) -> ReceivedItem | None:
        by_token = "/lease=" in key
        if self.is_full and by_token:
            raise MemcacheServerError(FULL.encode())
        if not self.items:
            return None
        self.items -= 1
        self.asked.append("token" if by_token else "connection")
        return ReceivedItem(b"x", 0, len(self.asked) if by_token else 0)

    def get(self, key: str) -> Any:
        return None


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Worker:
    made = Worker("jobs")
    monkeypatch.setattr(made, "_connection", Server(9))
    monkeypatch.setattr(made._renewal, "watch", lambda *_: None)
    return made


def test_a_worker_leaves_leases_by_connection_when_there_is_room(worker: Worker) -> None:
    server = cast(Server, worker._connection)
    worker.fetch()
    worker.fetch()
    server.is_full = True
    worker.fetch()
    worker.fetch()
    assert server.asked == ["token", "token", "connection", "connection"]

    server.is_full = False
    worker.fetch()
    assert server.asked.pop() == "connection", "what was begun goes on until there is nothing"
    server.items = 0
    assert worker.fetch() is None
    server.items = 3
    for _ in range(3):
        worker.fetch()

    assert server.asked[4:] == ["token"] * 3
    server.is_full = True
    worker.fetch()
    server.items = 2
    worker.fetch()
    worker.fetch()
    assert server.asked[7:] == ["connection"] * 2


def test_a_pause_ends_with_its_time_and_with_a_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    naps = list[float]()
    clock = SimpleNamespace(sleep=naps.append, monotonic=lambda: sum(naps))
    monkeypatch.setattr("kestrelpy.client.worker.time", clock)
    worker = Worker("jobs")
    worker._sleep(1.0)
    assert sum(naps) == pytest.approx(1.0)
    naps.clear()
    worker.stop()
    worker._sleep(1.0)
    assert naps == []
