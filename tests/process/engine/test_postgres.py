"""A real PostgreSQL with a real standby: an acknowledged commit is on both, whatever fails."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from journal.engine import Claim, Create, DeleteFile, EngineAway, Fenced, Op, Write
from journal.engine.postgres import PostgresEngine, watched
from journal.engine.postgres.connecting import connect
from journal.engine.postgres.watched import WatchedConnection
from kestrelpy.examples.fleet.cluster import Cluster
from kestrelpy.examples.fleet.postgres_server import folder_of_servers
from tests.support.memory_engine import claimed

SECONDS = 60.0
HALF = "UPDATE kestrelpy.slice SET seq = seq + 1 WHERE id = $1"
HALF_SENT = (
    "SELECT pid FROM pg_stat_activity WHERE state = 'active' AND wait_event = 'ClientRead' "
    "AND state_change < clock_timestamp() - interval '1 second'"
)
COMMITTING = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'"


@pytest.fixture(scope="module")
def shared() -> Iterator[Cluster]:
    """A pair for tests that leave it as it was."""
    with folder_of_servers() as folder:
        made = Cluster(folder, ("n1", "n2"))
        made.start()
        yield made
        made.stop()


@pytest.fixture
def folder() -> Iterator[Path]:
    with folder_of_servers() as made:
        yield made


@pytest.fixture
def engine(shared: Cluster) -> Iterator[PostgresEngine]:
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


class Doing(threading.Thread):
    """Something on a thread, and what became of it."""

    def __init__(self, act: Callable[[], object]) -> None:
        super().__init__(daemon=True)
        self.act = act
        self.error: Exception | None = None
        self.start()

    def run(self) -> None:
        try:
            self.act()
        except Exception as error:
            self.error = error

    def ended(self, seconds: float = SECONDS) -> Exception | None:
        self.join(seconds)
        assert not self.is_alive()
        return self.error


class Committing(Doing):
    """A commit on a thread."""

    def __init__(self, engine: PostgresEngine, at: Claim, ops: list[Op]) -> None:
        super().__init__(lambda: engine.commit(at, ops))


# -- waits for the standby ------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["cancel", "terminate"])
def test_a_wait_that_was_ended_counts_only_when_the_standby_has_the_commit(
    shared: Cluster, engine: PostgresEngine, at: Claim, how: str
) -> None:
    ops: list[Op] = [Create(1, "a", 0), Write(1, 0, b"x")]
    shared.standby.signal(signal.SIGSTOP)
    try:
        commit = Committing(engine, at, ops)
        until(lambda: shared.primary.ask(COMMITTING))
        assert commit.is_alive()
        (pid,) = shared.primary.ask(COMMITTING)[0]
        shared.primary.ask(f"SELECT pg_{how}_backend({pid})")
        assert isinstance(commit.ended(), EngineAway)

        again = Committing(engine, at, ops)
        until(lambda: shared.primary.ask(COMMITTING))
        assert again.is_alive(), "its own commit comes first, and waits"
    finally:
        shared.standby.signal(signal.SIGCONT)
    assert again.ended() is None
    assert engine.owners()[at.slice].seq == 1
    assert engine.read(at.after(), 1, 0, 1) == b"x"


def test_a_list_of_standbys_that_is_emptied_acknowledges_nothing(
    shared: Cluster, engine: PostgresEngine, at: Claim
) -> None:
    ops: list[Op] = [Create(1, "a", 0), Write(1, 0, b"x")]
    shared.standby.signal(signal.SIGSTOP)
    try:
        commit = Committing(engine, at, ops)
        until(lambda: shared.primary.ask(COMMITTING))
        shared.primary.set("synchronous_standby_names", "")
        error = commit.ended()
        assert isinstance(error, EngineAway)
        assert "synchronous_standby_names is empty" in str(error)
        with pytest.raises(EngineAway, match="name a standby there, or say `single = true`"):
            engine.commit(at, ops)
    finally:
        shared.primary.set("synchronous_standby_names", "n2")
        shared.standby.signal(signal.SIGCONT)
    engine.commit(at, ops)
    assert engine.owners()[at.slice].seq == 1


# -- claims --------------------------------------------------------------------------------------


def test_a_claim_waits_for_no_owner_that_sleeps_in_the_middle_of_a_commit(
    engine: PostgresEngine, shared: Cluster, at: Claim
) -> None:
    half = connect(shared.address)
    server = half.pgconn
    server.enter_pipeline_mode()
    server.send_query_params(HALF.encode(), [str(at.slice).encode()])
    server.send_flush_request()
    server.flush()  # and its end does not come
    until(lambda: shared.primary.ask(HALF_SENT))  # it has the row of the slice, and keeps it
    other = PostgresEngine(shared.address)
    claiming = Doing(lambda: claimed(other, "b", at.slice))
    try:
        assert claiming.ended(SECONDS / 4) is None
        assert not shared.primary.ask(HALF_SENT)
    finally:
        half.close()
    with pytest.raises(Fenced):
        engine.commit(at, [Create(1, "a", 0)])
    other.close()


def test_a_claim_leaves_the_transactions_of_other_programs_alone(
    engine: PostgresEngine, shared: Cluster, at: Claim
) -> None:
    opened = "SELECT pid FROM pg_stat_activity WHERE state = 'idle in transaction' AND " \
        "state_change < clock_timestamp() - interval '1 second'"
    with contextlib.ExitStack() as stack:
        others = [
            stack.enter_context(psycopg.connect(shared.address, application_name=name))
            for name in ("report", "kestrelpy")
        ]
        for each in others:
            each.execute("CREATE TEMP TABLE mine (x int)")
        until(lambda: len(shared.primary.ask(opened)) == len(others))
        claimed(engine, "b", at.slice)
        for each in others:
            each.execute("INSERT INTO mine VALUES (1)")
            each.rollback()


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
    shared: Cluster, name: str, value: str, says: str
) -> None:
    before = shared.primary.ask(f"SHOW {name}")[0][0]
    shared.primary.set(name, value)
    try:
        engine = PostgresEngine(shared.address)
        with pytest.raises(EngineAway, match=says):
            claimed(engine, "a", 10_000)
        engine.close()
    finally:
        shared.primary.set(name, str(before))


def test_one_copy_is_enough_for_who_says_so_but_it_is_on_disk(shared: Cluster) -> None:
    shared.primary.set("synchronous_standby_names", "")
    shared.primary.set("synchronous_commit", "off")
    try:
        engine = PostgresEngine(shared.address, is_single=True)
        with pytest.raises(EngineAway, match="synchronous_commit is off"):
            engine.owners()
        shared.primary.set("synchronous_commit", "local")
        assert claimed(engine, "a", 10_001).epoch == 1
        engine.close()
    finally:
        shared.primary.set("synchronous_commit", "on")
        shared.primary.set("synchronous_standby_names", "n2")


# -- what is left of a file -----------------------------------------------------------------------


def test_a_deleted_file_leaves_no_row(shared: Cluster, engine: PostgresEngine, at: Claim) -> None:
    engine.commit(at, [Create(1, "a", 0), Write(1, 0, b"x" * 100_000)])
    engine.commit(at.after(), [DeleteFile(1)])

    for table in ("file", "extent"):
        query = f"SELECT count(*) FROM kestrelpy.{table} WHERE slice = {at.slice}"
        assert shared.primary.ask(query) == [(0,)]


def test_a_standby_of_the_engine_changes_nothing(shared: Cluster, at: Claim) -> None:
    engine = PostgresEngine(shared.standby.address)
    with pytest.raises(EngineAway):
        engine.commit(at, [Create(1, "a", 0)])
    engine.close()


# -- failover -----------------------------------------------------------------------------------


def test_what_was_acknowledged_outlives_the_primary_and_its_failover(
    folder: Path,
) -> None:
    servers = Cluster(folder)
    servers.start()
    engine = PostgresEngine(servers.address)
    at = claimed(engine, "a", 1)
    engine.commit(at, [Create(1, "a", 0), Write(1, 0, b"0" * 9)])
    at = at.after()

    # Killed with a commit in flight, and started again, or replaced by its standby.
    for turn in range(6):
        primary = servers.primary
        ops: list[Op] = [Write(1, turn, b"1")]
        commit = Committing(engine, at, ops)
        if turn % 2:
            commit.join(0.002 * turn)
        primary.kill()
        if turn < 2:
            primary.start()
        else:
            servers.look()
            assert servers.primary is not primary
        if commit.ended() is not None:
            assert isinstance(commit.error, EngineAway)
            engine.commit(at, ops)
        at = at.after()
        assert engine.read(at, 1, 0, 9) == b"1" * (turn + 1) + b"0" * (8 - turn)

    other = PostgresEngine(servers.address)
    assert claimed(other, "b", 1) == (1, 2, at.seq)
    late = PostgresEngine(servers.address)
    with pytest.raises(Fenced):
        late.commit(at, [])
    for each in (engine, other, late):
        each.close()
    servers.stop()


def test_a_primary_that_sleeps_is_left_when_another_one_was_promoted(folder: Path) -> None:
    servers = Cluster(folder)
    servers.start()
    engine = PostgresEngine(servers.address)
    at = claimed(engine, "a", 1)
    asleep, new, third = servers.servers
    asleep.signal(signal.SIGSTOP)
    try:
        commit = Committing(engine, at, [Create(1, "a", 0)])
        looking = Doing(engine.owners)
        new.set("synchronous_standby_names", third.name)
        new.promote()
        third.follow(new)
        assert "another server is the primary now" in str(commit.ended(SECONDS / 3))
        assert looking.ended(SECONDS / 3) is None
        engine.commit(at, [Create(1, "a", 0)])
        assert engine.owners()[1].seq == at.seq + 1
    finally:
        asleep.signal(signal.SIGCONT)
        servers.stop()
        engine.close()


def test_a_primary_that_waits_for_its_standby_is_not_left(
    shared: Cluster, engine: PostgresEngine, at: Claim, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = threading.Semaphore(0)
    look = WatchedConnection.has_moved

    def counted(connection: WatchedConnection) -> bool:
        found = look(connection)
        looks.release()
        return found

    monkeypatch.setattr(watched, "SILENT_SECONDS", 0.1)
    monkeypatch.setattr(WatchedConnection, "has_moved", counted)
    shared.standby.signal(signal.SIGSTOP)
    try:
        commit = Committing(engine, at, [Create(1, "a", 0)])
        for _ in range(2):
            assert looks.acquire(timeout=SECONDS)
        assert commit.is_alive()
    finally:
        shared.standby.signal(signal.SIGCONT)
    assert commit.ended() is None


def test_a_standby_that_has_died_is_started_again(shared: Cluster, engine: PostgresEngine) -> None:
    shared.standby.kill()
    assert shared.look() == "PostgreSQL n2, a standby, had died and is started again"
    claimed(engine, "a", 20_000)
    assert shared.look() == ""
