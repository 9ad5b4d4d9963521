"""The audit of the data that real daemons left when they were killed under load: the rules hold,
and it reports the acts that the clients saw.

Each crash is a kill test of `tests/process/kill` or similar, over real sockets. The audit reads the
data that the test left in this run, or the test runs here with fewer rounds. All are audited
together, because a run of Spark costs more than a journal.

Promise: audit.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pymemcache.client.base import Client

from kestrelpy.spark.jobs.audit.findings import JournalFindings, outcome
from kestrelpy.spark.jobs.common.job import HOLDS
from tests.process.kill import (
    test_kill,
    test_kill_handoff,
    test_kill_moves,
    test_kill_once,
    test_kill_readers,
    test_kill_tokens,
)
from tests.process.wire.test_once_race import race
from tests.support.daemon import DaemonProcess
from tests.support.kills import kill_under, new_seed, rounds
from tests.support.left import left
from tests.support.raw import Raw
from tests.unit.spark.jobs.audits import audited

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

pytestmark = pytest.mark.slow

ROUNDS = 3
RACERS = 30
TOKENS_ITEMS = 800
AT_ONCE = 3  # crashes that go on at a time
# Segments and snapshots come and go, and items die, expire and are dropped.
ARCHIVED = """
[queues."jobs"]
archive_to = "archive"
"""
MOVING = """
[queues.jobs]
max_attempts = 3
retry_delay = "5ms"
dead_letter_to = "failed"
expire_to = "late"
"""


@dataclass
class Crash:
    """The answers that clients had, and by queue the findings of the audit and the puts."""

    told: Any
    found: dict[str, JournalFindings] = field(default_factory=dict)
    puts: dict[str, list[Row]] = field(default_factory=lambda: defaultdict(list))

    def holds(self) -> bool:
        """True if all rules hold; the test's output shows the verdict."""
        verdict = outcome(list(self.found.values()), None)
        print(verdict.text)
        return verdict.code == HOLDS

    def sum_of(self, end: str) -> int:
        """Items that ended so, in all queues."""
        return sum(each.books.ended[end] for each in self.found.values())


Run = Callable[[Path], Any]
RUNS: dict[str, Run] = {}


def crash(run: Run) -> Run:
    """Register a function that kills daemons; tests ask for its data by the function's name."""
    RUNS[run.__name__] = run
    return run


@pytest.fixture(scope="module")
def crashes(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Crash]:
    """All of them, by name."""
    folder = tmp_path_factory.mktemp("crashes")
    with ThreadPoolExecutor(AT_ONCE) as pool:
        runs = {name: pool.submit(_left_or_run, name, folder / name) for name in RUNS}
    crashed = {name: each.result() for name, each in runs.items()}
    made = {name: Crash(told) for name, (_, told) in crashed.items()}
    names = {where / "data": name for name, (where, _) in crashed.items()}
    archives = [where / "archive" for where, _ in crashed.values()]
    datas = [*names, *(each for each in archives if each.is_dir() and any(each.iterdir()))]
    for found in audited(spark, *datas):
        made[names[Path(found.folder).parent]].found[found.queue] = found
    crash_of = {(f.server, f.queue): each for each in made.values() for f in each.found.values()}
    events = spark.read.format("kestrel").option("mode", "events").schema(
        "server string, queue string, op string, reader string, item bigint, id string, "
        "key string, version bigint, origin string, value binary"
    ).load([*map(str, datas)])  # fmt: skip
    for row in events.where("op = 'put'").orderBy("server", "queue", "item").collect():
        crash_of[row.server, row.queue].puts[row.queue].append(row)
    return made


def _left_or_run(name: str, folder: Path) -> tuple[Path, Any]:
    found = left(name)
    if found is not None:
        return found
    folder.mkdir()
    return folder, RUNS[name](folder)


# -- moves, and all else at once ------------------------------------------------------------------


class Anybody(test_kill_moves.Somebody):
    """A client with keys, delays, leases by token and moves; its answers do not matter here."""

    def _one(self, client: Client) -> None:
        choice, key = self.random.random(), self.random.choice("ABCD")
        if choice < 0.25:
            client.set(f"jobs/key={key},{self.random.choice('XY')}", self.books.next())
        elif choice < 0.4:
            client.set(f"jobs/delay={self.random.randrange(1, 60)}ms", self.books.next())
        elif choice < 0.55:
            client.set("jobs", self.books.next(), expire=self.random.choice((0, 0, 1)))
        elif choice < 0.7:
            if client.get("jobs/open") is not None:
                client.get(self.random.choice(("jobs/abort", "jobs/defer/delay=10ms")))
        elif choice < 0.95:
            _, token = client.gets(f"jobs/open/lease={self.random.choice((20, 5000))}ms")
            if token is not None:
                client.delete(f"jobs/token={int(token)}")
        else:
            client.raw_command(f"redrive failed all{self.random.choice(('', ' jobs'))}")
            client.raw_command("move jobs later 3")


@crash
def moves(folder: Path) -> test_kill_moves.Books:
    seed = new_seed()
    books = test_kill_moves.Books()
    with DaemonProcess(folder / "data", config=MOVING) as daemon:
        clients = [Anybody(daemon, books, seed + n) for n in range(4)]
        for _ in rounds(ROUNDS + 1, lambda: _stored(daemon, "failed") > 0):
            kill_under(daemon, [each.run for each in clients], 0.3)
            daemon.start()
        daemon.kill()
    return books


def _stored(daemon: DaemonProcess, queue: str) -> int:
    """Items that came to it, in all its lives; none where it was not made."""
    return int(daemon.client().stats(queue).get(f"queue_{queue}_total_items".encode(), 0))


def test_the_books_balance_after_kills_with_keys_delays_tokens_and_moves(
    crashes: dict[str, Crash],
) -> None:
    crash = crashes["moves"]
    assert crash.told.wrong == []
    assert crash.holds()
    assert crash.found["jobs"].books.ended["confirmed"] > 0
    assert crash.found["jobs"].books.ended["moved"] > 0
    assert crash.found["failed"].books.stored > 0


# -- load, and an archive -------------------------------------------------------------------------


@crash
def load(folder: Path) -> test_kill.Load:
    chance = random.Random(new_seed())
    daemon = DaemonProcess(folder / "data")
    load = test_kill.Load(daemon)
    with daemon:
        for _ in rounds(ROUNDS, lambda: load.has_enough(ROUNDS)):
            load.run_until_killed(chance.uniform(0.05, 0.3))
            daemon.start()
        client = daemon.client()
        still_there = []
        while (body := client.get("jobs/open")) is not None and len(still_there) < 20:
            still_there.append(body)
            client.get("jobs/abort" if len(still_there) % 2 else "jobs/close")
        daemon.kill()
    return load


@crash
def archived(folder: Path) -> test_kill.Load:
    daemon = DaemonProcess(folder / "data", config=ARCHIVED)
    load = test_kill.Load(daemon)
    with daemon:
        for _ in rounds(ROUNDS, lambda: load.has_enough(ROUNDS)):
            load.run_until_killed(0.2)
            daemon.start()
        client = daemon.client()
        while client.get("jobs") is not None:
            pass
        assert daemon.stop() == 0
    return load


def test_the_books_balance_after_kills_under_load(crashes: dict[str, Crash]) -> None:
    crash = crashes["load"]
    assert crash.holds()
    assert crash.found["jobs"].order.checked > 0
    assert crash.found["jobs"].books.ended["confirmed"] > 0


def test_with_an_archive_the_history_is_whole_and_every_body_is_accounted_for(
    crashes: dict[str, Crash],
) -> None:
    crash = crashes["archived"]
    assert crash.holds()
    found, load = crash.found["jobs"], crash.told
    assert found.extent.first == found.unbroken_lsn == 1
    bodies = [bytes(row.value) for row in crash.puts["jobs"]]
    assert len(bodies) == len(set(bodies)), "an item was stored twice"
    assert load.acknowledged <= set(bodies) <= load.sent
    # All was drained: after an orderly end every answer is known.
    assert found.books.ended["confirmed"] == found.books.stored == len(bodies)


# -- hand-off -------------------------------------------------------------------------------------


@crash
def hand_offs(folder: Path) -> test_kill_handoff.Books:
    return test_kill_handoff.run(folder, ROUNDS)


def test_over_kills_every_hand_off_from_queue_to_queue_was_done_once(
    crashes: dict[str, Crash],
) -> None:
    crash = crashes["hand_offs"]
    assert crash.holds()
    books, puts = crash.told, [row for rows in crash.puts.values() for row in rows]
    steps: dict[bytes, list[int]] = defaultdict(list)
    for row in puts:
        number, _, step = bytes(row.value).partition(b" ")
        steps[number].append(int(step))
    # An item is `<number> <hand-offs>`: each was stored once with each number of hand-offs.
    assert all(sorted(each) == [*range(len(each))] for each in steps.values())
    assert all(books.steps[number] < len(steps[number]) for number in books.steps)
    made = [row for row in puts if row.origin is not None]
    assert len(made) == len({row.origin for row in made}) == crash.sum_of("moved")
    # Items that were not handed on were confirmed, at the end of the chain or when it was drained.
    ended, sure = crash.sum_of("confirmed"), len(books.done) + len(books.drained)
    assert sure <= ended == len(steps) <= sure + len(books.perhaps)
    assert sum(each.books.there + each.books.dead for each in crash.found.values()) == 0


# -- ids and versions -----------------------------------------------------------------------------


@crash
def once(folder: Path) -> test_kill_once.Outcome:
    return test_kill_once.run(folder, ROUNDS)


@crash
def races(folder: Path) -> None:
    """For one key, one id, one version: of each race one is told that it won; then a kill."""
    each = (b"add acc/key=%d 0 0 1", b"add jobs/id=%d 0 0 1", b"cas acc/key=A 0 0 1 %d")
    with DaemonProcess(folder / "data") as daemon, ExitStack() as stack:
        racers = [stack.enter_context(Raw(("127.0.0.1", daemon.port))) for _ in range(RACERS)]
        for turn in range(3):
            for words in each:
                answers = race(racers, [words % turn + b"\r\nx\r\n"] * RACERS)
                assert answers[b"STORED"] == 1
            race(racers, [b"set sets/id=%d 0 0 1\r\nx\r\n" % turn] * RACERS)
        daemon.kill()


def test_over_kills_no_id_was_stored_twice_and_versions_have_no_gap(
    crashes: dict[str, Crash],
) -> None:
    crash, told = crashes["once"], crashes["once"].told
    assert crash.holds()
    ids = [row.id for row in crash.puts["jobs"]]
    assert len(ids) == len(set(ids)) == crash.found["jobs"].books.stored == len(told.bodies)
    versions = [row.version for row in crash.puts["acc"]]
    assert versions == told.versions == [*range(1, crash.found["acc"].books.stored + 1)]
    assert not any(each.said.again for each in crash.found.values())


def test_of_the_clients_in_a_race_one_is_in_the_journal(crashes: dict[str, Crash]) -> None:
    crash = crashes["races"]
    assert crash.holds()
    stored = {queue: found.books.stored for queue, found in crash.found.items()}
    assert stored == {"acc": 6, "jobs": 3, "sets": 3}
    assert sorted((row.key, row.version) for row in crash.puts["acc"]) == [
        ('"0"', 1), ('"1"', 1), ('"2"', 1), ("A", 1), ("A", 2), ("A", 3),
    ]  # fmt: skip


# -- leases by token ------------------------------------------------------------------------------


@crash
def tokens(folder: Path) -> test_kill_tokens.Books:
    return test_kill_tokens.run(folder, ROUNDS, TOKENS_ITEMS)


def test_leases_by_token_that_went_on_over_kills_ended_once(crashes: dict[str, Crash]) -> None:
    crash, books = crashes["tokens"], crashes["tokens"].told
    assert crash.holds()
    sums = crash.found["jobs"].books
    ended, sure = sums.ended["confirmed"], len(books.confirmed | books.drained)
    assert sums.stored == ended + sums.there == len(crash.puts["jobs"])
    assert sure <= ended <= sure + len(books.in_doubt)
    assert sums.there == books.still_leased


# -- children, observers, retained items ----------------------------------------------------------


@crash
def readers(folder: Path) -> test_kill_readers.Books:
    return test_kill_readers.run(folder, ROUNDS + 1)


def test_over_kills_each_child_had_each_item(crashes: dict[str, Crash]) -> None:
    crash, books = crashes["readers"], crashes["readers"].told
    assert crash.holds()
    lines = (*test_kill_readers.QUEUES, *test_kill_readers.CHILDREN, test_kill_readers.LATE)
    assert sorted(crash.found) == sorted(lines)
    for line in lines:
        sums, sure = crash.found[line].books, books.confirmed[line] | books.drained[line].keys()
        assert (sums.there, sums.dead) == (0, 0)
        if line.startswith("orders"):  # whose log is whole
            assert sums.stored == sums.ended["confirmed"]
            assert len(sure) <= sums.stored <= len(sure | books.in_doubt[line])
            # Each attempt that came to nothing is a delivery more.
            assert books.failed[line] <= sums.repeated <= books.perhaps_failed[line]
            assert sums.unrecorded == 0


def test_retained_items_are_those_that_observers_saw(crashes: dict[str, Crash]) -> None:
    crash, books = crashes["readers"], crashes["readers"].told
    orders, news = crash.found["orders"], crash.found["news"]
    assert orders.unbroken_lsn == 1
    bodies = {bytes(row.value) for row in crash.puts["orders"]}
    assert bodies == {body for _, body in books.seen["orders"]}
    assert orders.books.stored == len(bodies) == crash.found["orders+audit"].books.stored
    assert news.unbroken_lsn > 1, "nothing of what was over went"
    assert news.books.opening is not None
