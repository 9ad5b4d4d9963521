"""A real PostgreSQL with a real standby: what it acknowledges is on both, whatever happens."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from journal.engine import Claim, Create, Delete, EngineAway, Fenced, Op, Write
from journal.engine.postgres import PostgresEngine, make_tables
from tests.support.memory_engine import claimed
from tests.support.postgres import PostgresServer, folder_of_servers

SECONDS = 60.0
COMMITTING = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'"


class Pair:
    """A primary, `n1`, and its standby, `n2`."""

    def __init__(self, folder: Path) -> None:
        self.n1, self.n2 = (PostgresServer(folder, name) for name in ("n1", "n2"))

    def start(self) -> None:
        self.n1.make()
        self.n1.start()
        make_tables(self.n1.address)
        self.n2.copy(self.n1)
        self.n2.start()
        self.n1.set("synchronous_standby_names", "n2")

    def stop(self) -> None:
        self.n2.stop()
        self.n1.stop()

    @property
    def address(self) -> str:
        """Both, for who wants the primary."""
        hosts = f"127.0.0.1:{self.n1.port},127.0.0.1:{self.n2.port}"
        return f"postgresql://kestrel@{hosts}/postgres?target_session_attrs=read-write"


@pytest.fixture(scope="module")
def shared() -> Iterator[Pair]:
    """A pair for tests that leave it as it was."""
    with folder_of_servers() as folder:
        made = Pair(folder)
        made.start()
        yield made
        made.stop()


@pytest.fixture
def folder() -> Iterator[Path]:
    with folder_of_servers() as made:
        yield made


@pytest.fixture
def engine(shared: Pair) -> Iterator[PostgresEngine]:
    made = PostgresEngine(shared.address)
    yield made
    made.close()


@pytest.fixture
def at(engine: PostgresEngine) -> Claim:
    return claimed(engine, "a", max(engine.owners(), default=0) + 1)


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


class Committing(threading.Thread):
    """A commit on a thread, and what became of it."""

    def __init__(self, engine: PostgresEngine, at: Claim, ops: list[Op]) -> None:
        super().__init__(daemon=True)
        self.engine, self.at, self.ops = engine, at, ops
        self.error: Exception | None = None
        self.start()

    def run(self) -> None:
        try:
            self.engine.commit(self.at, self.ops)
        except Exception as error:
            self.error = error

    def ended(self) -> Exception | None:
        self.join(SECONDS)
        assert not self.is_alive()
        return self.error


# -- waits for the standby ------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["cancel", "terminate"])
def test_a_wait_that_was_ended_counts_only_when_the_standby_has_the_commit(
    shared: Pair, engine: PostgresEngine, at: Claim, how: str
) -> None:
    ops: list[Op] = [Create(1, "a", 0), Write(1, 0, b"x")]
    shared.n2.signal(signal.SIGSTOP)
    try:
        commit = Committing(engine, at, ops)
        until(lambda: shared.n1.ask(COMMITTING))
        assert commit.is_alive()
        (pid,) = shared.n1.ask(COMMITTING)[0]
        shared.n1.ask(f"SELECT pg_{how}_backend({pid})")
        assert isinstance(commit.ended(), EngineAway)

        again = Committing(engine, at, ops)
        until(lambda: shared.n1.ask(COMMITTING))
        assert again.is_alive(), "its own commit comes first, and waits"
    finally:
        shared.n2.signal(signal.SIGCONT)
    assert again.ended() is None
    assert engine.owners()[at.slice].seq == 1
    assert engine.read(at.after(), 1, 0, 1) == b"x"


def test_a_list_of_standbys_that_is_emptied_acknowledges_nothing(
    shared: Pair, engine: PostgresEngine, at: Claim
) -> None:
    ops: list[Op] = [Create(1, "a", 0), Write(1, 0, b"x")]
    shared.n2.signal(signal.SIGSTOP)
    try:
        commit = Committing(engine, at, ops)
        until(lambda: shared.n1.ask(COMMITTING))
        shared.n1.set("synchronous_standby_names", "")
        error = commit.ended()
        assert isinstance(error, EngineAway)
        assert "synchronous_standby_names is empty" in str(error)
        with pytest.raises(EngineAway, match="name a standby there, or say `single = true`"):
            engine.commit(at, ops)
    finally:
        shared.n1.set("synchronous_standby_names", "n2")
        shared.n2.signal(signal.SIGCONT)
    engine.commit(at, ops)
    assert engine.owners()[at.slice].seq == 1


# -- settings -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("synchronous_standby_names", "", "synchronous_standby_names is empty"),
        ("synchronous_commit", "off", "synchronous_commit is off"),
        ("synchronous_commit", "local", "synchronous_commit is local"),
        ("synchronous_commit", "remote_write", "synchronous_commit is remote_write"),
        ("full_page_writes", "off", "full_page_writes is off: a power cut damages the tables"),
        ("fsync", "off", "fsync is off: a power cut loses what was acknowledged"),
    ],
)
def test_a_server_that_may_lose_what_it_acknowledges_is_refused(
    shared: Pair, name: str, value: str, says: str
) -> None:
    before = shared.n1.ask(f"SHOW {name}")[0][0]
    shared.n1.set(name, value)
    try:
        engine = PostgresEngine(shared.address)
        with pytest.raises(EngineAway, match=says):
            claimed(engine, "a", 10_000)
        engine.close()
    finally:
        shared.n1.set(name, str(before))


def test_one_copy_is_enough_for_who_says_so_but_it_is_on_disk(shared: Pair) -> None:
    shared.n1.set("synchronous_standby_names", "")
    shared.n1.set("synchronous_commit", "off")
    try:
        engine = PostgresEngine(shared.address, is_single=True)
        with pytest.raises(EngineAway, match="synchronous_commit is off"):
            engine.owners()
        shared.n1.set("synchronous_commit", "local")
        assert claimed(engine, "a", 10_001).epoch == 1
        engine.close()
    finally:
        shared.n1.set("synchronous_commit", "on")
        shared.n1.set("synchronous_standby_names", "n2")


# -- what is left of a file -----------------------------------------------------------------------


def test_a_deleted_file_leaves_no_row(shared: Pair, engine: PostgresEngine, at: Claim) -> None:
    engine.commit(at, [Create(1, "a", 0), Write(1, 0, b"x" * 100_000)])
    engine.commit(at.after(), [Delete(1)])

    for table in ("file", "extent"):
        query = f"SELECT count(*) FROM kestrelpy.{table} WHERE slice = {at.slice}"
        assert shared.n1.ask(query) == [(0,)]


def test_a_standby_of_the_engine_changes_nothing(shared: Pair, at: Claim) -> None:
    engine = PostgresEngine(shared.n2.address)
    with pytest.raises(EngineAway):
        engine.commit(at, [Create(1, "a", 0)])
    engine.close()


# -- failover -----------------------------------------------------------------------------------


def test_what_was_acknowledged_outlives_the_primary_and_its_failover(
    folder: Path,
) -> None:
    pair = Pair(folder)
    pair.start()
    engine = PostgresEngine(pair.address)
    at = claimed(engine, "a", 1)
    engine.commit(at, [Create(1, "a", 0), Write(1, 0, b"0" * 9)])
    at = at.after()

    # Killed and started again, with a commit in flight each time.
    for turn in range(4):
        ops: list[Op] = [Write(1, turn, b"1")]
        commit = Committing(engine, at, ops)
        if turn % 2:
            commit.join(0.002 * turn)
        pair.n1.kill()
        if commit.ended() is not None:
            assert isinstance(commit.error, EngineAway)
            pair.n1.start()
            engine.commit(at, ops)
        else:
            pair.n1.start()
        at = at.after()
        assert engine.read(at, 1, 0, 9) == b"1" * (turn + 1) + b"0" * (8 - turn)

    # Another server takes its place; the one before is the standby of nobody.
    pair.n1.kill()
    with pytest.raises(EngineAway):
        engine.commit(at, [Write(1, 8, b"2")])
    pair.n2.ask("SELECT pg_promote()")
    until(lambda: pair.n2.ask("SELECT pg_is_in_recovery()") == [(False,)])
    pair.n2.set("synchronous_standby_names", "")
    single = PostgresEngine(pair.address, is_single=True)
    single._is_unsure = True
    single.commit(at, [Write(1, 8, b"2")])

    assert single.read(at.after(), 1, 0, 9) == b"111100002"
    new = claimed(single, "b", 1)
    assert new == (1, 2, at.seq + 1)
    with pytest.raises(Fenced):
        single.commit(at.after(), [])
    for each in (engine, single):
        each.close()
    pair.n2.stop()
