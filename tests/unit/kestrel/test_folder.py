"""Which files in a directory are Kestrel's, and in which order they are replayed."""

from __future__ import annotations

import pytest

from kestrelpy.kestrel import arrange, is_database


def files(*names: str) -> list[tuple[str, bool]]:
    return [(name, True) for name in names]


def test_rotated_files_come_by_number_and_the_current_one_last() -> None:
    (journal,) = arrange(files("q", "q.3000", "q.100", "q.50")).journals

    assert journal.files == ["q.50", "q.100", "q.3000", "q"]
    assert not journal.has_pack


def test_a_queue_may_have_rotated_files_alone() -> None:
    (journal,) = arrange(files("q.7")).journals

    assert (journal.queue, journal.files) == ("q", ["q.7"])


def test_a_pack_stands_for_the_files_up_to_its_number() -> None:
    found = arrange(files("q", "q.50", "q.100", "q.100.pack", "q.90.pack", "q.200"))
    (journal,) = found.journals

    assert journal.files == ["q.100.pack", "q.200", "q"]
    assert journal.has_pack
    assert [each.name for each in found.ignored] == ["q.50", "q.90.pack", "q.100"]


def test_a_child_is_a_queue_by_its_whole_name() -> None:
    assert [each.queue for each in arrange(files("q+c.5", "q", "q+c")).journals] == ["q", "q+c"]


@pytest.mark.parametrize("name", ["q~~77", ".DS_Store", ".5", "q.bak", "q.pack", "q.5.pack.old"])
def test_what_is_no_journal_is_named(name: str) -> None:
    found = arrange(files(name))

    assert not found.journals
    assert [each.name for each in found.ignored] == [name]


def test_a_folder_is_no_journal() -> None:
    assert not arrange([("q", False)]).journals


def test_a_database_is_known_by_its_files() -> None:
    assert is_database(["CURRENT", "MANIFEST-000004", "LOG"])
    assert not is_database(["CURRENT", "q"])
