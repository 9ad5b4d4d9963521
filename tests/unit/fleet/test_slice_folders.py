"""A data directory with another number of slices is refused, and its queues are not hidden."""

from __future__ import annotations

from pathlib import Path

import pytest

from journal.files import Disk
from kestrelpy.fleet.slice_folders import make_slice_folders, why_other_slices
from kestrelpy.placement import Placement


def test_the_folders_are_made_once(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    folders = make_slice_folders(Disk(), data_dir, 3)
    assert folders == make_slice_folders(Disk(), data_dir, 3)
    assert folders == [data_dir / "slices-3" / str(number) for number in (1, 2, 3)]
    assert (data_dir / "slices-3").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("there", "slices", "why"),
    [
        ([], 1, ""),
        ([], 4, ""),
        (["jobs.1763712000", "lock"], 1, ""),
        (["lock", "server-id"], 4, ""),
        (["slices-4"], 4, ""),
        (["jobs.1763712000"], 4, "its queues are in no slice"),
        (["slices-4"], 1, "its queues are in 4 slices: write slices = 4"),
        (["slices-4"], 8, "its queues are in 4 slices: write slices = 4"),
        (["slices-4", "slices-8"], 8, "its queues are in 4 slices"),
    ],
)
def test_what_is_there_decides(tmp_path: Path, there: list[str], slices: int, why: str) -> None:
    for name in there:
        (tmp_path / name).mkdir()
    found = why_other_slices(tmp_path, Placement(slices))
    assert found.startswith(why)
    assert bool(found) is bool(why)


def test_a_folder_that_cannot_be_listed_is_the_matter_of_another_check(tmp_path: Path) -> None:
    assert why_other_slices(tmp_path / "none", Placement(4)) == ""


def test_queues_that_other_groups_would_hide_are_named(tmp_path: Path) -> None:
    made, other = Placement(3), Placement(3, ["shop.*"])
    for folder in make_slice_folders(Disk(), tmp_path, 3):
        folder.mkdir()
        (folder / "lock").touch()
    for name in ("shop.1", "shop.2", "orders"):
        (tmp_path / "slices-3" / str(made.slice_of(name.encode())) / f"{name}.1763712000").mkdir()
    assert why_other_slices(tmp_path, made) == ""
    moved = [each for each in (b"shop.1", b"shop.2") if made.slice_of(each) != other.slice_of(each)]
    assert moved == [b"shop.1"]
    assert why_other_slices(tmp_path, other).startswith(
        "queue shop.1 is in slice 3, and by groups in [fleet] its place is slice 1: "
    )
