"""`kill -9` under idempotent producers that repeat whatever was not answered: each id once.

The real process is killed. A producer sends each number under its own id
until it is told STORED, and then often once more; a writer counts with cas, and after a kill asks
which version there is.

Promises: id, version.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.daemon import DaemonProcess
from tests.support.kills import kill_under, new_seed, rounds, see_nothing_left
from tests.support.left import leave
from tests.support.raw import Raw

ROUNDS = 12
PRODUCERS = 3
CONFIG = "[queue_defaults]\narchive_to = 'archive'\n"


class Producer:
    """Sends numbers in order; a number is over when it was answered."""

    def __init__(self, daemon: DaemonProcess, name: int) -> None:
        self.daemon = daemon
        self.name = name
        self.number = 0
        self.repeats = 0

    def work(self) -> None:
        client = self.daemon.client()
        while True:
            body = b"%d:%d" % (self.name, self.number)
            scope = f"/scope=w{self.name}/epoch=1" if self.name else ""
            assert client.set(f"jobs/id={self.name}-{self.number}{scope}", body)
            if self.number % 3 == 0:
                assert client.set(f"jobs/id={self.name}-{self.number}{scope}", body)
                self.repeats += 1
            self.number += 1


class Counting:
    """Writes the next version, each body the version it makes."""

    def __init__(self, daemon: DaemonProcess) -> None:
        self.daemon = daemon
        self.version = 0
        self.lost = 0

    def work(self) -> None:
        with Raw(("127.0.0.1", self.daemon.port)) as raw:
            while True:
                body = b"%d" % (self.version + 1)
                raw.send(b"cas acc/key=A 0 0 %d %d\r\n%b\r\n" % (len(body), self.version, body))
                answer = raw.line().rstrip()
                if answer == b"EXISTS":  # the one that was not answered
                    self.lost += 1
                else:
                    assert answer == b"STORED", answer
                self.version += 1


def _is_enough(producers: list[Producer], least: int) -> bool:
    return sum(p.number for p in producers) > least and any(p.repeats for p in producers)


@dataclass
class Outcome:
    """The answers that the producers had, and the items that were there at the end."""

    producers: list[Producer]
    counting: Counting
    bodies: Counter[bytes]
    versions: list[int]


def run(folder: Path, wanted: int) -> Outcome:
    """Kill `wanted` times, drain both queues, and compare."""
    chance = random.Random(new_seed())
    daemon = DaemonProcess(folder / "data", config=CONFIG)
    producers = [Producer(daemon, name) for name in range(PRODUCERS)]
    counting = Counting(daemon)
    works = [each.work for each in (*producers, counting)]
    with daemon:
        for _ in rounds(wanted, lambda: _is_enough(producers, wanted)):
            kill_under(daemon, works, chance.uniform(0.05, 0.3))
            daemon.start()
        client = daemon.client()
        bodies: Counter[bytes] = Counter()
        while (body := client.get("jobs")) is not None:
            bodies[body] += 1
        versions = []
        while (body := client.get("acc")) is not None:
            versions.append(int(body))
        client.close()
        see_nothing_left(daemon)

    assert max(bodies.values()) == 1, "an id was stored twice"
    for producer in producers:
        sent = {b"%d:%d" % (producer.name, n) for n in range(producer.number)}
        assert sent <= bodies.keys(), "an acknowledged item is lost"
    assert versions == list(range(1, len(versions) + 1)), "versions have gaps or doubles"
    assert len(versions) - counting.version in (0, 1)
    return Outcome(producers, counting, bodies, versions)


@pytest.mark.slow
def test_each_id_is_stored_once_and_each_version_made_once(tmp_path: Path) -> None:
    leave("once", tmp_path, run(tmp_path, ROUNDS))
