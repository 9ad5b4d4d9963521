"""`kill -9` under load: acknowledged items are there, confirmed ones stay gone, the order holds.

The real process is killed. Every item is set once; a set whose answer was lost may or may not be
there.

Promise stored: kill of the real process under load; power cut at any step on a memory disk; the
    whole server with random crashes and faults.
Promise confirmed: kill under load; replies held back by hand.
Promise: order.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from tests.support.daemon import DaemonProcess
from tests.support.kills import kill_under, new_seed, rounds, see_nothing_left

ROUNDS = 20
PRODUCERS = 4
CONSUMERS = 3


class Load:
    """Producers and consumers that write down what they were told."""

    def __init__(self, daemon: DaemonProcess) -> None:
        self.daemon = daemon
        self.acknowledged: set[bytes] = set()
        self.sent: set[bytes] = set()
        self.confirmed: set[bytes] = set()
        self.in_doubt: set[bytes] = set()  # a confirm was sent and its answer lost
        self.seen: Counter[bytes] = Counter()
        self.returned: list[bytes] = []
        self._next = [0] * PRODUCERS
        self._lock = threading.Lock()

    def has_enough(self, least: int) -> bool:
        """True if it stored and confirmed more than `least` items."""
        return min(len(self.acknowledged), len(self.confirmed)) > least

    def run_until_killed(self, seconds: float) -> None:
        """Run one round: load from all sides, then `kill -9`."""
        works = [partial(self._produce, n) for n in range(PRODUCERS)]
        works += [partial(self._consume, n) for n in range(CONSUMERS)]
        kill_under(self.daemon, works, seconds)

    def _produce(self, number: int) -> None:
        client = self.daemon.client()
        while True:
            body = b"%d:%d" % (number, self._next[number])
            self._next[number] += 1
            self.sent.add(body)
            if client.set("jobs", body):
                self.acknowledged.add(body)

    def _consume(self, number: int) -> None:
        client = self.daemon.client()
        one_trip = number % 2 == 0
        held: bytes | None = None
        try:
            while True:
                if one_trip and held is not None:
                    body, before = client.get("jobs/close/open"), held
                    held = None
                    self._note_confirmed(before)
                else:
                    body = client.get("jobs/open/t=20")
                if body is None:
                    continue
                held = body
                self._note_seen(body)
                if not one_trip:
                    client.get("jobs/close")
                    held = None
                    self._note_confirmed(body)
        finally:
            if held is not None:
                self.in_doubt.add(held)

    def _note_seen(self, body: bytes) -> None:
        with self._lock:
            if body in self.confirmed:
                self.returned.append(body)
            self.seen[body] += 1

    def _note_confirmed(self, body: bytes) -> None:
        with self._lock:
            self.confirmed.add(body)


@pytest.mark.slow
def test_kill_9_under_load_loses_nothing_and_brings_nothing_back(tmp_path: Path) -> None:
    chance = random.Random(new_seed())
    daemon = DaemonProcess(tmp_path / "data")
    load = Load(daemon)
    with daemon:
        for _ in rounds(ROUNDS, lambda: load.has_enough(ROUNDS)):
            load.run_until_killed(chance.uniform(0.05, 0.3))
            daemon.start()
        client = daemon.client()
        drained: list[bytes] = []
        while (body := client.get("jobs")) is not None:
            drained.append(body)
        client.close()
        see_nothing_left(daemon, restarts=True)

    assert load.returned == [], "a confirmed item was delivered again"
    assert load.confirmed.isdisjoint(drained), "a confirmed item came back after a kill"
    assert set(drained) <= load.sent, "an item appeared that no client stored"
    assert len(set(drained)) == len(drained), "an item is there twice"
    gone = load.acknowledged - load.confirmed - set(drained) - load.in_doubt
    assert gone == set(), "an acknowledged item is lost"
    for number in range(PRODUCERS):
        order = [int(b.split(b":")[1]) for b in drained if b.startswith(b"%d:" % number)]
        assert order == sorted(order), f"producer {number}'s items are out of order"
