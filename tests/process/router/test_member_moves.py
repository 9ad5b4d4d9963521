"""Items that move between slices of different members, as real processes: each is once, whichever
member is killed, and while one is asleep.

    a ──dead letters──▶ b ──move──▶ g ──hand-off──▶ l       c ──expired──▶ b       h ──redrive──▶ l

Clients ask the first member, which goes on; the slices of the others change hands.

Promise move: kill of the members of source and target under load, and a member that sleeps.
"""

from __future__ import annotations

import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from journal.engine.postgres import make_tables
from kestrelpy.examples.fleet.postgres_server import PostgresServer
from kestrelpy.placement import Placement
from tests.process.router.members import SLICES, Fleet
from tests.process.router.test_slices import GONE, said
from tests.support.daemon import DaemonProcess

QUEUES = ("a", "b", "c", "g", "h", "l")
PLACES = Placement(SLICES)
CONFIG = """
[queues.a]
max_attempts = 1
dead_letter_to = "b"
[queues.c]
max_age = "50ms"
expire_to = "b"
[queues.h]
max_attempts = 1
"""
MARK = b"|"
SECONDS = 240.0  # on a machine that does much else; each wait ends as soon as it can
PAUSE_SECONDS = 0.01  # between two items of a producer
HITS = ("kill b", "kill c", "sleep b", "kill c", "sleep c", "kill b")


class Load:
    """Clients of one member who make items go from queue to queue."""

    def __init__(self, member: DaemonProcess) -> None:
        self.member = member
        self.sent: set[bytes] = set()
        self.acknowledged: set[bytes] = set()
        self.handed: set[bytes] = set()  # STORED in the last queue
        self.is_over = threading.Event()
        works: list[Callable[[], None]] = [self.move, self.redrive, self.hand]
        works += [self.fails("a"), self.fails("h"), *map(self.produces, "ach")]
        self.threads = [threading.Thread(target=each) for each in works]

    def produces(self, name: str) -> Callable[[], None]:
        def produce() -> None:
            client, number = self.member.client(SECONDS), 0
            while not self.is_over.wait(PAUSE_SECONDS):
                number += 1
                body = f"{name}{number}".encode()
                self.sent.add(body)
                try:
                    if client.set(name, body):
                        self.acknowledged.add(body)
                except GONE:
                    client.close()

        return produce

    def fails(self, name: str) -> Callable[[], None]:
        def fail() -> None:
            client = self.member.client(SECONDS)
            while not self.is_over.is_set():
                try:
                    if client.get(f"{name}/t=50/open") is not None:
                        client.get(f"{name}/abort")
                except GONE:
                    client.close()

        return fail

    def move(self) -> None:
        while not self.is_over.wait(PAUSE_SECONDS):
            with suppress(OSError):
                said(self.member, b"move b g 50\r\n", b"\r\n")

    def redrive(self) -> None:
        while not self.is_over.wait(PAUSE_SECONDS):
            with suppress(OSError):
                said(self.member, b"redrive h all l\r\n", b"\r\n")

    def hand(self) -> None:
        client = self.member.client(SECONDS)
        while not self.is_over.is_set():
            try:
                body = client.get("g/t=50/open")
                if body is not None and client.set("l/confirm", body + MARK):
                    self.handed.add(body)
            except GONE:
                client.close()

    def left(self) -> list[bytes]:
        """Take everything that is there."""
        client, found = self.member.client(SECONDS), list[bytes]()
        for name in (*QUEUES, "a/dead", "h/dead"):
            try:
                while (body := client.get(name)) is not None:
                    found.append(body)
            except GONE:
                client.close()
        return found


def until(is_so: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + SECONDS
    while not is_so():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def test_the_queues_of_these_tests_are_in_four_slices() -> None:
    by_name = {name: PLACES.slice_of(name.encode()) for name in QUEUES}
    moves = ("ab", "bg", "gl", "cb", "hl")
    assert all(by_name[source] != by_name[target] for source, target in moves)
    assert len({*by_name.values()}) == SLICES


def test_each_item_is_once_when_members_are_killed_or_asleep_while_items_move(
    tmp_path: Path, server: PostgresServer
) -> None:
    server.ask("DROP SCHEMA IF EXISTS kestrelpy CASCADE")
    make_tables(server.address)
    fleet = Fleet(tmp_path, server, CONFIG)
    try:
        check(fleet)
    finally:
        fleet.close()


def check(fleet: Fleet) -> None:
    for name in "abc":
        fleet.member(name).start()
    until(fleet.is_even, "even shares")
    load = Load(fleet.members["a"])
    for thread in load.threads:
        thread.start()
    try:
        for hit in HITS:
            hit_one(fleet, load, *hit.split())
    finally:
        load.is_over.set()
        for thread in load.threads:
            thread.join()
    compare(load)


def hit_one(fleet: Fleet, load: Load, how: str, name: str) -> None:
    """Kill a member or let it sleep, at any moment; items go on to move while it is away."""
    chance = random.Random(f"{how} {name}")
    goes_on(load, f"before {how} {name}")
    time.sleep(chance.random() / 5)
    member = fleet.members[name]
    fleet.send(member, signal.SIGKILL if how == "kill" else signal.SIGSTOP)
    until(lambda: name not in fleet.owners().values(), f"a takeover after {how} {name}")
    goes_on(load, f"while {name} is away after {how}")
    if how == "kill":
        member.kill()
        member.start()
    else:
        fleet.send(member, signal.SIGCONT)
    until(lambda: name in fleet.owners().values(), f"slices for {name}")


def goes_on(load: Load, when: str) -> None:
    """Wait until items have gone the whole way."""
    before = len(load.handed)
    until(lambda: len(load.handed) >= before + 10, f"no item comes to the last queue {when}")


def compare(load: Load) -> None:
    """See each item once, when those in doubt have come back."""
    found, deadline = load.left(), time.monotonic() + SECONDS
    while load.acknowledged - {unmarked(body) for body in found} and time.monotonic() < deadline:
        time.sleep(0.1)
        found += load.left()
    count = Counter(map(unmarked, found))
    lost = load.acknowledged - count.keys()
    assert not lost, f"lost: {len(lost)}, {sorted(lost)[:20]}"
    assert not count.keys() - load.sent
    assert [body for body, times in count.items() if times > 1] == []
    assert {body + MARK for body in load.handed} <= {*found}


def unmarked(body: bytes) -> bytes:
    return body.removesuffix(MARK)
