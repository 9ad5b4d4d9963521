"""A sliced queue over two members, as real processes: one is killed under producers and workers.

Promise stored: kill of a member under the keys of a sliced queue.
Promise takeover: kill of a member that owns slices of a sliced queue.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from journal.engine.postgres import make_tables
from kestrelpy.examples.fleet.postgres_server import PostgresServer, folder_of_servers
from tests.process.router.members import Fleet
from tests.process.router.test_slices import GONE, eventually
from tests.support.daemon import DaemonProcess

ITEMS = 30  # of each key
LEASE_S = 20
KEYS = "abcdef"


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with folder_of_servers() as folder:
        server = PostgresServer(folder)
        server.make()
        server.start()
        make_tables(server.address)
        made = Fleet(tmp_path, server, "[queues.jobs]\nsliced = true\n")
        yield made
        made.close()
        server.stop()


class Books:
    """What the clients know."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.acked, self.handled = set[str](), list[str]()
        self.held: dict[str, float] = {}  # since when a worker has had an item of this key
        self.doubles: list[str] = []
        self.is_over = threading.Event()

    def until_done(self, members: list[DaemonProcess], act: Callable[[Any], object]) -> None:
        """Do it, at each of the members in turn, over broken connections."""
        number = 0
        while not self.is_over.is_set():
            try:
                if act(members[number % len(members)].client(30.0)):
                    return
            except GONE:
                number += 1
                time.sleep(0.02)

    def produce(self, members: list[DaemonProcess], key: str) -> None:
        for number in range(ITEMS):
            body = f"{key} {number}"
            put = partial(_put, f"jobs/key={key}/id={key}-{number}", body)
            self.until_done(members, put)
            with self.lock:
                self.acked.add(body)

    def work(self, members: list[DaemonProcess]) -> None:
        number = 0
        while not self.is_over.is_set():
            try:
                client = members[number % len(members)].client(30.0)
                while not self.is_over.is_set():
                    began_s = time.monotonic()
                    body, token = client.gets(f"jobs/open/lease={LEASE_S}s/t=200ms")
                    if body is not None:
                        self.handle(members, body.decode(), int(token), began_s)
            except GONE:
                number += 1
                time.sleep(0.02)

    def handle(self, members: list[DaemonProcess], body: str, token: int, began_s: float) -> None:
        key = body[0]
        with self.lock:
            before_s = self.held.get(key)
            if before_s is not None and time.monotonic() - before_s < LEASE_S:
                self.doubles.append(body)
            self.held[key] = began_s
            self.handled.append(body)
        time.sleep(0.005)
        with self.lock:
            self.held.pop(key, None)
        self.until_done(members, lambda client: client.delete(f"jobs/token={token}") is not None)


def _put(line: str, body: str, client: Any) -> object:
    return client.set(line, body)


def test_a_killed_member_loses_no_item_and_each_key_has_one_holder(fleet: Fleet) -> None:
    a, b = fleet.start("a", "b")
    books = Books()
    threads = [
        threading.Thread(target=books.produce, args=([a, b] if each in "abc" else [b, a], each))
        for each in KEYS
    ]
    workers = [
        threading.Thread(target=books.work, args=(each,)) for each in ([a, b], [b, a], [a, b])
    ]
    for each in (*threads, *workers):
        each.start()
    eventually(lambda: len(books.handled) > len(KEYS) * 5)
    b.kill()
    for each in threads:
        each.join(120)
    eventually(lambda: books.acked <= {*books.handled})
    books.is_over.set()
    for each in workers:
        each.join(60)
    assert set(fleet.owners().values()) == {"a"}
    assert len(books.acked) == len(KEYS) * ITEMS
    assert {*books.handled} == books.acked
    assert books.doubles == []
    for key in KEYS:
        firsts = list(dict.fromkeys(each for each in books.handled if each[0] == key))
        assert firsts == [f"{key} {number}" for number in range(ITEMS)]
