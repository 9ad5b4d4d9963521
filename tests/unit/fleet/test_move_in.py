"""A data directory is moved into an engine, and the mover is killed on either side of each step."""

from __future__ import annotations

import os

import pytest

from journal.engine import Member
from journal.errors import JournalError
from kestrelpy.fleet import SliceNotEmpty, SliceOwned, claim_unowned, move_in
from kestrelpy.fleet.member import OwnerSeen, may_claim
from kestrelpy.fleet.move_in import inventory
from tests.support.memory_engine import MemoryEngine, claimed
from tests.unit.fleet.movers import FOLDER, Calls, Killed, bring_in, contents, half_of, made

TAKEOVER_S = 3.0


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(move_in, "PIECE_BYTES", 1024)


def is_open_to_daemons(engine: MemoryEngine) -> bool:
    return may_claim(OwnerSeen(engine.owners().get(1), 0.0), TAKEOVER_S, 100.0)


def test_every_file_that_a_start_would_read_is_moved_and_the_slice_is_free() -> None:
    engine, disk = MemoryEngine(), made()
    moved = bring_in(engine, disk)

    assert engine.contents(1) == contents(disk)
    assert (moved.queues, moved.files) == (2, len(contents(disk)))
    assert engine.owners()[1].has_released and is_open_to_daemons(engine)
    assert not {"lock", "jobs.9~removed/x", "tokens.new", "cache-1/7"} & set(engine.contents(1))


@pytest.mark.parametrize("is_done", [False, True], ids=["before", "after"])
def test_a_mover_that_is_killed_at_any_step_is_gone_on_with(is_done: bool) -> None:
    disk, steps = made(), 0
    for left in range(1, 10_000):
        engine = MemoryEngine()
        try:
            bring_in(engine, disk, Calls(left, is_done))
            break
        except Killed:
            steps += 1
        owner = engine.owners().get(1)
        if owner is not None and engine.contents(1) and not owner.has_released:
            assert not is_open_to_daemons(engine), left
        try:
            bring_in(engine, disk)
        except SliceNotEmpty:  # the last step was done
            assert engine.owners()[1].has_released
        assert engine.contents(1) == contents(disk), left
        assert is_open_to_daemons(engine)
    assert steps > 20


def test_a_second_run_writes_only_what_is_missing() -> None:
    engine, disk = MemoryEngine(), made()
    with pytest.raises(Killed):
        bring_in(engine, disk, half_of(lambda calls: bring_in(MemoryEngine(), disk, calls)))
    before = len(engine.commits)
    whole = MemoryEngine()
    bring_in(whole, disk)
    bring_in(engine, disk)

    assert len(engine.commits) - before < len(whole.commits)


def test_another_folder_takes_the_place_of_a_half_one() -> None:
    engine, other = MemoryEngine(), made(seed=7)
    half = half_of(lambda calls: bring_in(MemoryEngine(), other, calls))
    with pytest.raises(Killed):
        bring_in(engine, made(), half)
    bring_in(engine, other)

    assert engine.contents(1) == contents(other)


def test_a_slice_with_queues_is_left_alone() -> None:
    engine = MemoryEngine()
    bring_in(engine, made())
    before = engine.contents(1)
    with pytest.raises(SliceNotEmpty):
        bring_in(engine, made(seed=7))

    assert engine.contents(1) == before
    assert not engine.owners()[1].is_importing


def test_a_slice_with_an_owner_is_left_alone() -> None:
    engine = MemoryEngine()
    claimed(engine, "host-a")

    with pytest.raises(SliceOwned, match="host-a owns the slice; stop it"):
        bring_in(engine, made(), is_living=True)
    assert engine.owners()[1].member.name == "host-a"


def test_an_owner_that_is_dead_is_waited_for_and_replaced() -> None:
    engine = MemoryEngine()
    claimed(engine, "host-a")
    bring_in(engine, made(), takeover_s=0.05)

    assert engine.owners()[1].has_released


def test_a_damaged_folder_is_refused_before_anything_is_moved() -> None:
    engine, disk = MemoryEngine(), made()
    path = next(each.path for each in inventory(disk, FOLDER) if each.path.endswith(".segment"))
    handle = disk.open(os.path.join(FOLDER, path))
    handle.write(700, b"\xff" * 64)
    handle.sync()

    with pytest.raises(JournalError, match="`kestrelpy journal repair` sets that aside"):
        bring_in(engine, disk)
    assert engine.contents(1) == {}


def test_a_file_that_changes_meanwhile_is_noticed() -> None:
    engine, disk = MemoryEngine(), made()
    calls = Calls(10_000, False)

    def change() -> None:
        handle = disk.open(f"{FOLDER}/server-id")
        handle.write(0, b"other")
        handle.sync()

    with pytest.raises(JournalError, match="server-id: what the engine has of it differs"):
        bring_in(engine, disk, calls, before_compare=change)
    assert not is_open_to_daemons(engine)


@pytest.mark.parametrize(("own_s", "of_owner_s"), [(1.0, 5.0), (5.0, 1.0)])
def test_a_mover_waits_for_the_longer_takeover_of_its_own_and_the_owners(
    own_s: float, of_owner_s: float
) -> None:
    engine, seconds = MemoryEngine(), [0.0]
    claimed(engine, "a")
    engine.note(Member("a"), of_owner_s)

    def pause(pause_s: float) -> None:
        seconds[0] += pause_s

    claim_unowned(engine, Member("mover"), own_s, clock=lambda: seconds[0], pause=pause)

    assert seconds[0] == pytest.approx(5.0, abs=0.2)
