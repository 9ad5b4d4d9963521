"""Items that move between slices, as real processes: each is once, whichever slice is killed.

    a ──dead letters──▶ c ──move──▶ g ──hand-off──▶ b        a and b are in one slice

Promise move: kill of source and target under load.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from kestrelpy.placement import Placement
from tests.process.router.test_slices import GONE, eventually, said, slices_of
from tests.support.daemon import DaemonProcess

SLICES = 3
QUEUES = ("a", "c", "g", "b")
PLACES = Placement(SLICES)
CONFIG = f"""[fleet]
slices = {SLICES}
[queues.a]
max_attempts = 1
dead_letter_to = "c"
"""
MARK = b"|"


@pytest.fixture
def router(tmp_path: Path) -> Iterator[DaemonProcess]:
    with DaemonProcess(tmp_path / "data", config=CONFIG) as running:
        yield running


class Load:
    """Clients that make items go from queue to queue."""

    def __init__(self, router: DaemonProcess) -> None:
        self.router = router
        self.sent: set[bytes] = set()
        self.acknowledged: set[bytes] = set()
        self.handed: set[bytes] = set()  # STORED in the last queue
        self.is_over = False
        self.threads = [
            threading.Thread(target=each)
            for each in (self.produce, self.fail, self.move, self.hand)
        ]

    def produce(self) -> None:
        client, number = self.router.client(30.0), 0
        while not self.is_over:
            number += 1
            body = b"%d" % number
            self.sent.add(body)
            try:
                if client.set("a", body):
                    self.acknowledged.add(body)
            except GONE:
                client.close()

    def fail(self) -> None:
        client = self.router.client(30.0)
        while not self.is_over:
            try:
                if client.get("a/t=50/open") is not None:
                    client.get("a/abort")
            except GONE:
                client.close()

    def move(self) -> None:
        while not self.is_over:
            try:
                said(self.router, b"move c g 50\r\n", b"\r\n")
            except OSError:
                continue

    def hand(self) -> None:
        client = self.router.client(30.0)
        while not self.is_over:
            try:
                body = client.get("g/t=50/open")
                if body is not None and client.set("b/confirm", body + MARK):
                    self.handed.add(body)
            except GONE:
                client.close()

    def left(self) -> list[bytes]:
        """Take everything that is there."""
        client, found = self.router.client(30.0), list[bytes]()
        for name in (*QUEUES, "a/dead"):
            found += iter(lambda name=name: client.get(name), None)
        return found


def test_the_queues_of_these_tests_are_in_three_slices() -> None:
    places = [PLACES.slice_of(name.encode()) for name in QUEUES]
    assert len({*places[:3]}) == SLICES
    assert places[3] == places[0]


def test_each_item_is_once_when_slices_are_killed_while_items_move(router: DaemonProcess) -> None:
    load, chance = Load(router), random.Random(3)
    for thread in load.threads:
        thread.start()
    try:
        for _ in range(4):
            before = len(load.handed)
            eventually(lambda before=before: len(load.handed) >= before + 30)
            os.kill(chance.choice(list(slices_of(router).values())), signal.SIGKILL)
            eventually(lambda: len(slices_of(router)) == SLICES)
    finally:
        load.is_over = True
        for thread in load.threads:
            thread.join()
    found, deadline = load.left(), time.monotonic() + 30
    while load.acknowledged - {unmarked(body) for body in found} and time.monotonic() < deadline:
        time.sleep(0.1)  # what was in doubt comes back
        found += load.left()
    count = Counter(map(unmarked, found))
    lost = load.acknowledged - count.keys()
    assert not lost, f"lost: {len(lost)}, {sorted(lost, key=int)[:20]}"
    assert not count.keys() - load.sent
    assert [body for body, times in count.items() if times > 1] == []
    assert {body + MARK for body in load.handed} <= {*found}


def unmarked(body: bytes) -> bytes:
    return body.removesuffix(MARK)
