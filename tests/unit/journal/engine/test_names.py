"""Names of a slice behave as those of a disk do."""

from __future__ import annotations

import pytest

from journal.engine.names import Names


def names() -> Names[int]:
    made = Names[int]("data")
    made.add_folder("data/jobs.1/inner")
    made.put("data/id", 1)
    made.put("data/jobs.1/a", 2)
    made.put("data/jobs.1/inner/b", 3)
    return made


def test_a_folder_lists_its_own_names_alone() -> None:
    assert names().inside("data") == ["id", "jobs.1"]
    assert names().inside("data/jobs.1") == ["a", "inner"]
    assert names().inside("data/nowhere") == []


def test_what_is_below_a_path_is_found_with_its_path() -> None:
    assert dict(names().below("data/jobs.1")) == {"data/jobs.1/a": 2, "data/jobs.1/inner/b": 3}
    assert dict(names().below("data/id")) == {"data/id": 1}


def test_a_folder_moves_with_all_below_it() -> None:
    made = names()

    moved = made.rename("data/jobs.1", "data/jobs.2")

    assert dict(moved) == {"data/jobs.2/a": 2, "data/jobs.2/inner/b": 3}
    assert made.inside("data") == ["id", "jobs.2"]
    assert made.find("data/jobs.2/inner/b") == 3
    assert made.find("data/jobs.1/a") is None


def test_a_file_that_is_renamed_takes_the_place_of_another() -> None:
    made = names()
    made.put("data/jobs.1/z", 4)

    assert made.rename("data/jobs.1/z", "data/jobs.1/a") == [("data/jobs.1/a", 4)]
    assert made.inside("data/jobs.1") == ["a", "inner"]


def test_a_folder_goes_with_all_below_it() -> None:
    made = names()

    assert sorted(made.pop_folder("data/jobs.1")) == [2, 3]
    assert made.inside("data") == ["id"]
    assert not made.is_folder("data/jobs.1/inner")
    assert made.pop_folder("data/jobs.1") == []


def test_what_is_not_there_is_an_error_or_nothing() -> None:
    made = names()

    assert made.pop("data/nowhere") is None
    assert made.pop("data/nowhere/x") is None
    for verb in (
        lambda: made.file("data/nowhere"),
        lambda: made.put("data/nowhere/x", 9),
        lambda: made.rename("data/nowhere", "data/x"),
    ):
        with pytest.raises(FileNotFoundError):
            verb()
