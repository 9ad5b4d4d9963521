"""The promises of every engine: the one in memory, a real PostgreSQL, and a real object store.

Promise claim: eight processes that claim at once; clocks that are a day wrong.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator

import pytest

from journal.engine import (
    Claim,
    Create,
    DeleteFile,
    Engine,
    Fenced,
    FileFacts,
    Layout,
    Member,
    Piece,
    Rename,
    Takeover,
    Write,
    engine_tools,
)
from journal.engine.engine import PIECE_BYTES
from journal.engine.object_store import ObjectStoreEngine
from journal.engine.postgres import PostgresEngine, drain, make_tables
from kestrelpy.examples.fleet.postgres_server import PostgresServer, folder_of_servers
from tests.support.memory_engine import MemoryEngine, claimed
from tests.support.object_store import object_store

RACES = 50
_CONNECTIONS = """
SELECT pid, backend_start FROM pg_stat_activity WHERE application_name = 'kestrelpy' ORDER BY pid"""


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with folder_of_servers() as folder:
        made = PostgresServer(folder)
        made.make()
        made.start()
        make_tables(made.address)
        make_tables(made.address)  # it may be run again
        yield made
        made.stop()


@pytest.fixture(scope="module")
def store() -> Iterator[str]:
    """The address of a fleet on an object store."""
    opening = pytest.importorskip(
        "journal.engine.object_store.opening", reason="needs the extra object-store"
    )
    with object_store() as made:
        address = made.address("fleets/one")
        assert opening.make(address) == (True, [], [])
        assert opening.make(address) == (False, [], [])  # it may be run again
        yield address


@pytest.fixture(params=["memory", "postgres", "object store"])
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    if request.param == "memory":
        yield MemoryEngine()
        return
    if request.param == "object store":
        on_objects = engine_tools(request.getfixturevalue("store")).open_engine(
            request.getfixturevalue("store")
        )
        yield on_objects
        on_objects.close()
        return
    address = request.getfixturevalue("server").address
    made = PostgresEngine(address, is_single=True)
    yield made
    made.close()


@pytest.fixture
def number(engine: Engine) -> int:
    """The number of a slice that no member has claimed."""
    return max(engine.owners(), default=0) + 1


def claim_of(engine: Engine, number: int, name: str = "a") -> Claim:
    return claimed(engine, name, number)


# -- claims -------------------------------------------------------------------------------------


def test_a_claim_is_seen_with_its_owner(engine: Engine, number: int) -> None:
    assert number not in engine.owners()

    at = engine.claim(number, Member("a", "10.0.0.1"), 0)
    owner = engine.owners()[number]

    assert at == (number, 1, 0)
    assert owner[:3] == (Member("a", "10.0.0.1"), 1, 0)
    assert owner.age_s >= 0
    assert not owner.has_released


def test_an_owner_is_seen_with_its_own_takeover(engine: Engine, number: int) -> None:
    claim_of(engine, number, name=f"owner of {number}")
    assert engine.owners()[number].takeover_s == 0

    for takeover_s in (3.5, 0.5):  # the second one after a restart with another setting
        engine.note(Member(f"owner of {number}"), takeover_s)
        engine.note(Member("another"), 60.0)
        assert engine.owners()[number].takeover_s == takeover_s


def test_members_are_seen_until_they_are_drained_and_the_first_says_how_many_slices(
    engine: Engine,
) -> None:
    engine.note(Member("b", "there:1"), 3.5)
    engine.note(Member("a", "there:2"), 2.0)

    seats = [each for each in engine.members() if each.member.address.startswith("there:")]
    assert [each[:2] for each in seats] == [(("a", "there:2"), 2.0), (("b", "there:1"), 3.5)]
    assert all(0 <= each.age_s < 60 and not each.is_drained for each in seats)
    for waits, now in (([3, 1], (3, 1)), (None, (3, 1)), ([], ())):
        engine.note(Member("a", "there:2"), 2.0, waits)
        (seat,) = (each for each in engine.members() if each.member.address == "there:2")
        assert seat.waits == now
    first = Layout(16, "shop.*")
    assert {engine.agree(each) for each in (first, Layout(4, "shop.*"), Layout(16))} == {first}


def test_a_drained_member_is_one_after_days_and_at_another_address(server: PostgresServer) -> None:
    engine = PostgresEngine(server.address, is_single=True)
    for name in "xy":
        engine.note(Member(name, "days:1"), 2.0)
    drain(server.address, "x", True)
    server.ask("UPDATE kestrelpy.member SET beat = beat - interval '2 days'")

    engine.note(Member("x", "days:2"), 2.0)
    engine.note(Member("y", "days:2"), 2.0)

    seats = [each for each in engine.members() if each.member.address.startswith("days:")]
    assert [(*each.member, each.is_drained) for each in seats] == [
        ("x", "days:1", True), ("x", "days:2", True), ("y", "days:2", False),
    ]  # fmt: skip
    drain(server.address, "x", False)
    engine.note(Member("x", "days:3"), 2.0)
    assert not any(each.is_drained for each in engine.members() if each.member.name == "x")
    engine.close()


def test_takeovers_are_kept_the_newest_first(engine: Engine, number: int) -> None:
    noted = [
        Takeover(number, epoch, Member("b", "there"), "a", "silent", 3.5, 0.25)
        for epoch in (1, 30)
    ]
    for each in noted:
        engine.note_takeover(each)

    found = [each for each in engine.takeovers() if each.slice == number]
    assert found[0][:7] == noted[1][:7]
    assert 0 <= found[0].age_s < 60


def test_a_claim_needs_the_epoch_that_is_there(engine: Engine, number: int) -> None:
    engine.claim(number, Member("a"), 0)
    for seen in (0, 2):
        with pytest.raises(Fenced):
            engine.claim(number, Member("b"), seen)

    assert engine.claim(number, Member("b"), 1).epoch == 2
    assert engine.owners()[number].member == Member("b")


def test_a_claim_may_ask_that_the_owner_has_not_committed_since(
    engine: Engine, number: int
) -> None:
    at = claim_of(engine, number)
    engine.commit(at, [])
    with pytest.raises(Fenced):
        engine.claim(number, Member("b"), at.epoch, at.seq)

    assert engine.claim(number, Member("b"), at.epoch, at.seq + 1).epoch == at.epoch + 1


def test_a_slice_that_was_released_says_so_until_it_is_claimed(
    engine: Engine, number: int
) -> None:
    engine.release(claim_of(engine, number))
    assert engine.owners()[number].has_released

    at = claim_of(engine, number, "b")
    assert not engine.owners()[number].has_released
    with pytest.raises(Fenced):
        engine.release(at._replace(epoch=1))


# -- commits ------------------------------------------------------------------------------------


def test_the_files_of_a_slice_are_as_the_last_commit_left_them(
    engine: Engine, number: int
) -> None:
    at = claim_of(engine, number)
    engine.commit(at, [Create(1, "a.new", 10), Write(1, 0, b"head"), Rename(1, "a")])
    at = at.after()
    engine.commit(at, [Create(2, "b", 0), Create(3, "c", 7), Write(2, 5, b"far")])
    at = at.after()
    engine.commit(at, [Write(1, 2, b"AD12"), Write(1, 5, b"!"), DeleteFile(3), Rename(2, "d/b")])
    at = at.after()

    assert sorted(engine.files(at)) == [FileFacts(1, "a", 10, 6), FileFacts(2, "d/b", 8, 8)]
    assert engine.read(at, 1, 0, 10) == b"heAD1!\0\0\0\0"
    assert engine.read(at, 1, 3, 2) == b"D1"
    assert engine.read(at, 2, 0, 8) == b"\0\0\0\0\0far"
    assert engine.owners()[number].seq == at.seq == 3


def test_large_writes_are_read_in_any_piece(engine: Engine, number: int) -> None:
    at = claim_of(engine, number)
    data = bytes(range(251)) * 1000
    engine.commit(at, [Create(1, "a", 0), Write(1, 0, data), Write(1, 100_000, b"x" * 20_000)])
    at = at.after()
    whole = data[:100_000] + b"x" * 20_000 + data[120_000:]

    assert engine.files(at) == [FileFacts(1, "a", len(data), len(data))]
    for offset, size in ((0, len(data)), (7999, 2), (99_999, 2), (119_990, 8020), (16_000, 8000)):
        assert engine.read(at, 1, offset, size) == whole[offset : offset + size]


EDGE = 100


@pytest.mark.parametrize(("made", "ops"), [
    (0, []),
    (50, [Write(1, 0, b"x" * 50)]),
    (2 * EDGE, [Write(1, 0, b"x" * 200)]),
    (2 * EDGE - 1, [Write(1, 0, b"x" * 199)]),
    (30_000, []),
    (30_000, [Write(1, 0, bytes(range(250)) * 120)]),
    (30_000, [Write(1, 0, b"x" * 99), Write(1, 98, b"yy"), Write(1, 29_899, b"zz")]),
    (30_000, [Write(1, 29_950, b"later"), Write(1, 29_940, b"over what was written" * 2)]),
    (30_000, [Write(1, 22_000, b"x" * 7900), Write(1, 22_001, b"y" * 7900)]),
    (1_300, [Write(1, 0, b"x" * 300), Write(1, 300, b"y" * 1_000)]),  # long, soon after the front
    (10, [Write(1, 0, b"x" * 30_000)]),  # more than it was made for
], ids=str)  # fmt: skip
def test_the_edges_of_a_file_are_what_a_read_of_them_gives(
    engine: Engine, number: int, made: int, ops: list[Write]
) -> None:
    at = claim_of(engine, number)
    engine.commit(at, [Create(1, "a", made), Create(2, "b", 10), Write(2, 0, b"beside it")])
    for op in ops:
        at = at.after()
        engine.commit(at, [op])
    at = at.after()

    found = [each for each in engine.edges(at, EDGE, EDGE) if each.file == 1]
    for file, offset, data in found:
        assert data == engine.read(at, file, offset, len(data))
    if made and ops:
        assert (found[0].offset, len(found[0].data)) == (0, min(made, EDGE))
    if made >= 2 * EDGE and ops:
        assert [(each.offset, len(each.data)) for each in found[1:]] == [(made - EDGE, EDGE)]
    assert Piece(2, 0, b"beside it\0") in engine.edges(at, EDGE, EDGE)


def test_a_claim_that_was_lost_gets_no_edges(engine: Engine, number: int) -> None:
    at = claim_of(engine, number)
    claim_of(engine, number, "b")

    with pytest.raises(Fenced):
        engine.edges(at, EDGE, EDGE)


@pytest.mark.parametrize("offset", [0, 1, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1])
def test_a_read_over_several_chunks_is_what_was_written_last(
    engine: Engine, number: int, offset: int
) -> None:
    size = 2 * PIECE_BYTES + 17
    wanted = bytearray(os.urandom(size))
    at = claim_of(engine, number)
    engine.commit(at, [Create(1, "a", size), Write(1, 0, bytes(wanted))])
    over = b"later" * 5000
    wanted[PIECE_BYTES - 9 : PIECE_BYTES - 9 + len(over)] = over
    engine.commit(at.after(), [Write(1, PIECE_BYTES - 9, over)])

    at = at.after().after()
    assert engine.read(at, 1, offset, size - offset) == wanted[offset:]
    assert engine.read(at, 1, offset, 0) == b""


def test_a_write_that_reaches_further_than_a_later_one_counts_for_the_size(
    engine: Engine, number: int
) -> None:
    at = claim_of(engine, number)
    engine.commit(at, [Create(1, "a", 0), Write(1, 100, b"x" * 7000)])
    engine.commit(at.after(), [Write(1, 200, b"y")])

    assert engine.files(at.after().after()) == [FileFacts(1, "a", 7100, 7100)]


def test_a_commit_that_is_asked_for_again_is_done_once(engine: Engine, number: int) -> None:
    """The same claim asks for the same operations again, as after a lost connection."""
    at = claim_of(engine, number)
    ops = [Create(1, "a", 0), Write(1, 0, b"x")]
    engine.commit(at, ops)
    if isinstance(engine, PostgresEngine):
        engine._is_unsure = True
    engine.commit(at, ops)
    engine.commit(at.after(), [Write(1, 1, b"y")])

    assert engine.read(at.after(), 1, 0, 2) == b"xy"
    assert engine.owners()[number].seq == 2


def test_a_beat_is_a_commit_without_operations(engine: Engine, number: int) -> None:
    at = claim_of(engine, number)
    engine.commit(at, [])
    engine.commit(at.after(), [])

    assert engine.owners()[number].seq == 2


# -- the fence ----------------------------------------------------------------------------------


@pytest.mark.parametrize("is_unsure", [False, True])
def test_a_former_owner_changes_nothing_and_reads_nothing(
    engine: Engine, number: int, is_unsure: bool
) -> None:
    at = claim_of(engine, number)
    engine.commit(at, [Create(1, "a", 0), Write(1, 0, b"x")])
    at = at.after()
    claim_of(engine, number, "b")

    if isinstance(engine, PostgresEngine):
        engine._is_unsure = is_unsure
    for verb in (
        lambda: engine.commit(at, [Write(1, 0, b"y")]),
        lambda: engine.commit(at, [DeleteFile(1)]),
        lambda: engine.commit(at, []),
        lambda: engine.read(at, 1, 0, 1),
        lambda: engine.files(at),
    ):
        with pytest.raises(Fenced):
            verb()

    now = Claim(number, 2, 1)
    assert engine.read(now, 1, 0, 1) == b"x"
    assert engine.owners()[number].seq == 1


def test_a_new_owner_goes_on_where_the_former_one_was(engine: Engine, number: int) -> None:
    at = claim_of(engine, number)
    engine.commit(at, [Create(1, "a", 0)])

    again = claim_of(engine, number, "b")

    assert again == (number, 2, 1)
    engine.commit(again, [Write(1, 0, b"x")])
    assert engine.read(again.after(), 1, 0, 1) == b"x"


def test_slices_know_nothing_of_each_other(engine: Engine, number: int) -> None:
    one, two = claim_of(engine, number), claim_of(engine, number + 1, "b")
    engine.commit(one, [Create(1, "a", 0), Write(1, 0, b"1")])
    engine.commit(two, [Create(1, "a", 0), Write(1, 0, b"2")])
    engine.commit(two.after(), [DeleteFile(1)])

    assert engine.files(two.after().after()) == []
    assert engine.read(one.after(), 1, 0, 1) == b"1"


def test_a_commit_that_was_done_on_a_lost_connection_meanwhile_is_done(
    engine: Engine, number: int
) -> None:
    at = claim_of(engine, number)
    late = engine
    if isinstance(engine, PostgresEngine):
        late = PostgresEngine(engine._conninfo, is_single=True)
    if isinstance(engine, ObjectStoreEngine):
        late = ObjectStoreEngine(engine.bucket)
    ops = [Create(1, "a", 0), Write(1, 0, b"1")]
    late.commit(at, ops)

    engine.commit(at, ops)
    engine.commit(at.after(), [Write(1, 1, b"2")])

    assert engine.read(at.after().after(), 1, 0, 2) == b"12"
    if late is not engine:
        late.close()


def test_a_standby_that_has_said_that_it_is_there_connects_no_more_at_its_claim(
    server: PostgresServer,
) -> None:
    number = 1_000_000
    standby = PostgresEngine(server.address, is_single=True)
    with contextlib.closing(standby):
        standby.note(Member("standby"), 1.0)
        before = server.ask(_CONNECTIONS)
        at = standby.claim(number, Member("standby"), 0)
        standby.commit(at, [])
        assert server.ask(_CONNECTIONS) == before
        standby.release(at._replace(seq=1))


def test_of_two_claimers_one_wins_each_time(engine: Engine, number: int) -> None:
    rivals, races = [engine, engine], RACES
    if isinstance(engine, PostgresEngine):
        rivals[1] = PostgresEngine(engine._name, is_single=True)
    if isinstance(engine, ObjectStoreEngine):
        rivals[1], races = ObjectStoreEngine(engine.bucket), 5  # the store takes a second for each
    won = [list[int](), list[int]()]
    start = threading.Barrier(2)

    def race(at: int) -> None:
        for seen in range(races):
            start.wait(30)
            try:
                won[at].append(rivals[at].claim(number, Member(str(at)), seen).epoch)
            except Fenced:
                continue

    threads = [threading.Thread(target=race, args=(at,)) for at in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)

    assert sorted(won[0] + won[1]) == list(range(1, races + 1))
    if rivals[1] is not engine:
        rivals[1].close()


@pytest.mark.soak
def test_of_eight_claimers_one_wins_each_of_a_thousand_races(server: PostgresServer) -> None:
    """Each winner commits at once, and so does the one before it, which is an owner no more."""
    number = 77_000
    rivals = [PostgresEngine(server.address, is_single=True) for _ in range(8)]
    start = threading.Barrier(len(rivals))
    won: list[list[Claim]] = [[] for _ in rivals]
    wrong: list[object] = []

    def race(at: int) -> None:
        mine: Claim | None = None
        for seen in range(1000):
            start.wait(60)
            former, mine = mine, None
            with contextlib.suppress(Fenced):
                mine = rivals[at].claim(number, Member(str(at)), seen)
            start.wait(60)
            if mine is not None:
                won[at].append(mine)
                rivals[at].commit(mine, [Create(mine.epoch, str(mine.epoch), 0)])
                mine = mine.after()
            if former is not None:
                try:
                    rivals[at].commit(former, [Create(-seen, "late", 0)])
                    wrong.append(former)
                except Fenced:
                    pass

    def guarded(at: int) -> None:
        try:
            race(at)
        except BaseException as error:
            wrong.append(error)
            start.abort()

    threads = [threading.Thread(target=guarded, args=(at,)) for at in range(len(rivals))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(600)
    assert wrong == []
    claims = sorted(claim for each in won for claim in each)
    assert [claim.epoch for claim in claims] == list(range(1, 1001))
    files = rivals[0].files(claims[-1].after())
    assert sorted(each.file for each in files) == list(range(1, 1001))
    print([len(each) for each in won])
    for each in rivals:
        each.close()
