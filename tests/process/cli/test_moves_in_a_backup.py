"""Items move between queues at any verb of a backup: each is in one of the restored queues.

Promise: backup.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Final

import pytest

from journal.errors import JournalError
from kestrelpy.cli.journals.backup import back_up
from kestrelpy.cli.journals.restore import put_back
from kestrelpy.core.log.log import JournalLog
from tests.process.cli.command import Command
from tests.process.cli.load import drained
from tests.process.cli.test_changes_in_a_backup import BusyDisk, make
from tests.support.daemon import DaemonProcess
from tests.support.journals import TIME_MS, TINY
from tests.support.kills import new_seed
from tests.support.memory_disk import MemoryDisk
from tests.support.server_harness import ServerHarness
from tests.support.tidying import tidy

QUEUES: Final = ("early", "jobs", "late", "mid")  # copied in this order
EACH: Final = 3  # items of each queue
STEP: Final = 5  # between the verbs that are tried, others for each way


def town(disk: MemoryDisk) -> ServerHarness:
    """A server with items in each queue, and what a test of them needs."""
    stage = ServerHarness(disk, sizes=TINY)
    stage.set_queue("jobs", max_attempts=1, dead_letter_to="early", expire_to="early")
    for queue in QUEUES:
        for number in range(EACH):
            put(stage, queue, b"%s %d" % (queue.encode(), number), 60 if queue == "jobs" else 0)
    stage.say("a", b"gets late+audit")  # a child, which begins here
    put(stage, "late", b"late for both")
    return stage


def put(stage: ServerHarness, queue: str, body: bytes, expiry_s: int = 0) -> None:
    said = stage.say("a", b"set %s 0 %d %d" % (queue.encode(), expiry_s, len(body)), body)
    assert said == b"STORED\r\n"


def move(source: str, target: str, count: int = 1) -> Callable[[ServerHarness], None]:
    line = b"move %s %s %d" % (source.encode(), target.encode(), count)

    def happens(stage: ServerHarness) -> None:
        assert stage.say("b", line) == b"%d\r\n" % count

    return happens


def in_turn(*steps: Callable[[ServerHarness], None]) -> Callable[[ServerHarness], None]:
    def happens(stage: ServerHarness) -> None:
        for step in steps:
            step(stage)

    return happens


def die(stage: ServerHarness) -> None:
    assert stage.say("b", b"get jobs/open").startswith(b"VALUE")
    assert stage.say("b", b"get jobs/abort") == b"END\r\n"


def expire(stage: ServerHarness) -> None:
    stage.now_ms += 61_000
    stage.work()


def hand_off(stage: ServerHarness) -> None:
    """The item goes on under the same name."""
    taken = stage.say("b", b"get jobs/open").split(b"\r\n")[1]
    said = stage.say("b", b"set early/confirm 0 0 %d" % len(taken), taken)
    assert said == b"STORED\r\n"


def tidied(*queues: str) -> Callable[[ServerHarness], None]:
    """Snapshots are taken, and segments are rewritten and removed."""

    def happens(stage: ServerHarness) -> None:
        for queue in queues:
            log = stage.queue(queue).log
            assert isinstance(log, JournalLog)
            tidy(stage, log)
            tidy(stage, log)

    return happens


def fill(queue: str) -> Callable[[ServerHarness], None]:
    """Return a change that fills the segments of a queue, so that its log goes on in others."""

    def happens(stage: ServerHarness) -> None:
        for number in range(20):
            put(stage, queue, b"%d " % number * 60)

    return happens


WAYS: Final[dict[str, Callable[[ServerHarness], None]]] = {
    "to an earlier queue": move("jobs", "early", 2),
    "to a later queue": move("jobs", "mid", 2),
    "on and on": in_turn(
        move("mid", "jobs", 3), move("jobs", "late", 6), move("late", "early", 10)
    ),
    "on and on, the other way": in_turn(
        move("early", "jobs", 3), move("jobs", "late", 6), move("late", "mid", 10)
    ),
    "there and back": in_turn(move("jobs", "early", 3), move("early", "jobs", 6)),
    "round and round": in_turn(*[move("jobs", "early"), move("early", "jobs")] * 5),
    "a dead letter": die,
    "past its expiry": expire,
    "handed off": hand_off,
    "out of a child": move("late+audit", "early"),
    "into a new queue": move("jobs", "also-new"),
    "through a new queue": in_turn(move("jobs", "new"), move("new", "early")),
    "with a deletion behind it": in_turn(
        move("jobs", "early", 3), lambda stage: stage.say("b", b"delete jobs") and None
    ),
    "with new segments": in_turn(move("jobs", "early"), fill("jobs"), fill("early")),
    "with tidied logs": in_turn(move("jobs", "early"), fill("jobs"), tidied("jobs", "early")),
    "with a tidied target": in_turn(move("late", "jobs"), move("jobs", "early"), tidied("jobs")),
}


def found_in(disk: MemoryDisk, backup: str = "/backup") -> Counter[bytes]:
    """Return how often each item is in the restored queues, ready or dead."""
    disk.remove_folder("data")
    put_back(disk, backup, "data", False, TIME_MS, lambda doing: lambda done, total: None)
    stage, found = ServerHarness(disk, sizes=TINY), Counter[bytes]()
    for name in [*stage.broker.queues, b"late+audit"]:
        stage.say("a", b"redrive %s all" % name)
        while (said := stage.say("a", b"get " + name)).startswith(b"VALUE"):
            found[said.split(b"\r\n")[1]] += 1
    return found


def expected() -> set[bytes]:
    every = {b"%s %d" % (queue.encode(), n) for queue in QUEUES for n in range(EACH)}
    return every | {b"late for both"}


def look(way: str, nth: int) -> None:
    """Check a backup with this move at its nth verb: it has each item."""
    disk = BusyDisk()
    stage = town(disk)
    disk.watch(nth, lambda path: WAYS[way](stage))
    make(disk)
    disk.watch(0, lambda path: None)
    found = found_in(disk.kill_clone())
    missing = expected() - found.keys()
    assert not missing, f"{way} at verb {nth}: {sorted(missing)}"


def verbs() -> int:
    disk = BusyDisk()
    town(disk)
    disk.watch(0, lambda path: None)
    make(disk)
    return disk.verbs


VERBS: Final = verbs()


@pytest.mark.parametrize("way", WAYS)
def test_an_item_that_moves_during_a_backup_is_in_it(way: str) -> None:
    for nth in range(1 + [*WAYS].index(way) % STEP, VERBS + 1, STEP):
        look(way, nth)


def test_a_data_directory_without_queues_is_backed_up() -> None:
    disk = MemoryDisk()
    ServerHarness(disk, sizes=TINY)
    assert make(disk) == []
    assert disk.names("/backup") == ["backup.json"]


def test_a_journal_without_a_readable_record_is_backed_up_as_it_is() -> None:
    disk = MemoryDisk()
    town(disk)
    (folder,) = (f"data/{name}" for name in disk.names("data") if name.startswith("jobs"))
    for name in disk.names(folder):
        disk.damage(f"{folder}/{name}", 0, bytes(200))
    made, damages, _ = back_up(disk, "data", "/backup", lambda done, total: None)
    assert len(made) == len(QUEUES)
    assert damages


def test_journals_that_change_too_quickly_are_said_and_nothing_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disk = MemoryDisk()
    town(disk)
    monkeypatch.setattr("journal.tools.backup_all.ATTEMPTS_MAX", 1)  # it takes two at least
    with pytest.raises(JournalError, match="found no moment at which each is in one copy"):
        make(disk)
    assert disk.names("/backup") == []


@pytest.mark.sweep
def test_the_same_at_each_verb() -> None:
    for way in WAYS:
        for nth in range(1, VERBS + 1):
            look(way, nth)


class Load:
    """At verbs of the backup items move, are put and confirmed, and logs are tidied, by chance.

    `sure` are stored items that no client has confirmed.
    """

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.disk = BusyDisk()
        self.stage = town(self.disk)
        self.sure = expected()
        self.count = 0
        self.rate = self.chance.choice([0.003, 0.01, 0.03])

    def watch(self) -> None:
        self.disk.watch(1, self.happens)

    def happens(self, path: str) -> None:
        if self.chance.random() < self.rate:
            self.step()
        self.watch()

    def step(self) -> None:
        chance, stage = self.chance, self.stage
        kinds = ["move"] * 6 + ["put", "put", "confirm", "hand off", "tidy", "delete"]
        kind, (source, target) = chance.choice(kinds), chance.sample([*QUEUES, "new"], 2)
        if kind == "put":
            self.count += 1
            body = b"%d " % self.count * chance.randint(1, 30)
            put(stage, source, body)
            self.sure.add(body)
        elif kind == "tidy":
            if source.encode() in stage.broker.queues:
                tidied(source)(stage)
        elif kind == "delete":
            if b"STAT queue_new_items 0\r\n" in stage.say("b", b"stats"):
                stage.say("b", b"delete new")
        else:
            self.take(kind, source.encode(), target.encode())

    def take(self, kind: str, source: bytes, target: bytes) -> None:
        stage = self.stage
        if kind == "move":
            stage.say("b", b"move %s %s %d" % (source, target, self.chance.randint(1, 5)))
        elif kind == "confirm":
            self.sure.discard(_body(stage.say("b", b"get " + source)))
        elif body := _body(stage.say("b", b"get %s/open" % source)):
            stage.say("b", b"set %s/confirm 0 0 %d" % (target, len(body)), body)


def _body(said: bytes) -> bytes:
    return said.split(b"\r\n")[1] if said.startswith(b"VALUE") else b""


def look_at_load(seed: int) -> None:
    load = Load(seed)
    for _ in range(load.chance.randint(0, 40)):
        load.step()
    for number in range(3):
        before, backup = set(load.sure), f"/backup{number}"
        load.watch()
        make(load.disk, backup)
        load.disk.watch(0, lambda path: None)
        missing = (before & load.sure) - found_in(load.disk.kill_clone(), backup).keys()
        assert not missing, f"seed {seed}, backup {number}: {sorted(missing)}"


@pytest.mark.parametrize("seed", range(10))
def test_an_item_that_nobody_confirms_is_in_each_backup(seed: int) -> None:
    look_at_load(seed)


@pytest.mark.slow
def test_backups_of_a_real_daemon_whose_items_move_have_each_item(
    kestrelpy: Command, tmp_path: Path
) -> None:
    seed, every, moved, stop = new_seed(), set[bytes](), Counter[int](), threading.Event()

    def move_on(mover: int) -> None:
        chance, client = Random(seed + mover), daemon.client()
        while not stop.is_set():
            source, target = chance.sample(QUEUES, 2)
            said = client.raw_command(f"move {source} {target} {chance.randint(1, 9)}")
            moved[mover] += int(said)

    with DaemonProcess(tmp_path / "data") as daemon:
        client = daemon.client()
        for number in range(200):
            every.add(body := b"%d " % number * 40)
            assert client.set(QUEUES[number % 4], body)
        with ThreadPoolExecutor() as threads:
            movers = [threads.submit(move_on, mover) for mover in range(3)]
            try:
                for number in range(3):
                    before = moved.total()
                    made = kestrelpy("backup", f"copy{number}", "--data-dir", "data")
                    assert made.code == 0, made
                    assert moved.total() > before
            finally:
                stop.set()
            for mover in movers:
                mover.result()
    for number in range(3):
        restored = kestrelpy("restore", f"copy{number}", "--data-dir", f"new{number}")
        assert restored.code == 0, restored
        with DaemonProcess(tmp_path / f"new{number}") as again:
            assert {body for queue in QUEUES for body in drained(again, queue)} == every


@pytest.mark.soak
def test_the_same_for_many_seeds() -> None:
    seed = new_seed()
    for number in range(300):
        look_at_load(seed + number)
