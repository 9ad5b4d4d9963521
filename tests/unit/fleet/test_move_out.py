"""An engine's data is moved into a folder, and the mover is killed on either side of each step."""

from __future__ import annotations

import pytest

from kestrelpy.fleet import SliceOwned, move_out
from tests.support.memory_disk import MemoryDisk
from tests.support.memory_engine import MemoryEngine, claimed
from tests.unit.fleet.movers import (
    FOLDER,
    Calls,
    Killed,
    bring_in,
    bring_out,
    contents,
    half_of,
    made,
)


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(move_out, "PIECE_BYTES", 1024)


def full(seed: int = 1) -> tuple[MemoryEngine, dict[str, bytes]]:
    """An engine with data, and its bytes."""
    engine, disk = MemoryEngine(), made(seed)
    bring_in(engine, disk)
    return engine, contents(disk)


def test_the_folder_has_every_file_and_the_slice_is_free_again() -> None:
    engine, expected = full()
    disk = MemoryDisk()
    moved = bring_out(engine, disk)

    assert contents(disk) == expected
    assert disk.names(FOLDER) == sorted({path.split("/")[0] for path in expected})
    assert (moved.queues, moved.files) == (2, len(expected))
    assert engine.owners()[1].has_released
    assert engine.contents(1) == expected


@pytest.mark.parametrize("is_done", [False, True], ids=["before", "after"])
def test_a_mover_that_is_killed_at_any_step_is_gone_on_with(is_done: bool) -> None:
    engine, expected = full()
    steps = 0
    for left in range(1, 10_000):
        disk = MemoryDisk()
        try:
            bring_out(engine, disk, Calls(left, is_done))
            break
        except Killed:
            steps += 1
        if disk.names(FOLDER):
            assert contents(disk) == expected, left  # it has its name: it is whole
            continue
        bring_out(engine, disk)
        assert contents(disk) == expected, left
        assert disk.names(FOLDER + move_out.STAGED) == []
    assert steps > 20


def test_a_second_run_copies_only_what_is_missing() -> None:
    engine, _ = full()
    disk = MemoryDisk()
    with pytest.raises(Killed):
        bring_out(engine, disk, half_of(lambda calls: bring_out(full()[0], MemoryDisk(), calls)))
    engine.reads.clear()
    bring_out(engine, disk)
    second = len(engine.reads)
    engine.reads.clear()
    bring_out(engine, MemoryDisk())

    assert second < len(engine.reads)


def test_what_an_earlier_run_copied_is_not_believed_when_somebody_had_the_slice() -> None:
    engine, _ = full()
    disk = MemoryDisk()
    with pytest.raises(Killed):
        bring_out(engine, disk, half_of(lambda calls: bring_out(full()[0], MemoryDisk(), calls)))
    claim = claimed(engine, "host-a")  # it may have changed every byte
    for each in engine._slices[1].files.values():
        each.data[-1:] = b"?"
    engine.release(claim)
    engine._slices[1].files = full(7)[0]._slices[1].files
    bring_out(engine, disk)

    assert contents(disk) == full(7)[1]


def test_a_slice_with_an_owner_or_with_a_half_import_is_left_alone() -> None:
    engine = MemoryEngine()
    with pytest.raises(Killed):
        bring_in(engine, made(), half_of(lambda calls: bring_in(MemoryEngine(), made(), calls)))

    with pytest.raises(SliceOwned, match="is being moved in by mover"):
        bring_out(engine, MemoryDisk())
