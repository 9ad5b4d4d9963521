"""Folders are named after queues, and found in a data directory."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal.errors import JournalError
from journal.files import Disk
from journal.format.folder import folder_name, journal_folders, parse_folder_name
from journal.format.segment import segment_name


def with_segment(folder: Path) -> str:
    folder.mkdir()
    (folder / segment_name(1)).touch()
    return str(folder)


def test_journals_are_found_in_a_data_directory_and_in_their_own(tmp_path: Path) -> None:
    a = with_segment(tmp_path / "a.1")
    b = with_segment(tmp_path / "b.2")
    (tmp_path / "lock").write_text("")
    (tmp_path / "empty.1").mkdir()
    (tmp_path / "a.1" / "set-aside").mkdir()
    with_segment(tmp_path / "deleted.1~removed")
    assert journal_folders(Disk(), str(tmp_path)) == [a, b]
    assert journal_folders(Disk(), a) == [a]
    assert journal_folders(Disk(), str(tmp_path / "empty.1")) == []
    assert journal_folders(Disk(), str(tmp_path / "nowhere")) == []


def test_what_is_no_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(JournalError, match="file: Not a directory"):
        journal_folders(Disk(), str(tmp_path / "file"))


NAMES = st.binary(min_size=1, max_size=128).map(
    lambda name: bytes(33 + b % 94 for b in name).replace(b"/", b"_")
)


@given(NAMES, st.integers(1, 10**9))
def test_a_folder_s_name_is_safe_and_tells_the_queue_s(name: bytes, generation: int) -> None:
    folder = folder_name(name, generation)
    assert len(folder) < 220
    assert "/" not in folder
    assert not folder.startswith(".")
    if "~" not in folder:
        assert parse_folder_name(folder) == (name, generation)
    else:
        assert parse_folder_name(folder)[1] == generation


@given(NAMES, NAMES)
def test_two_queues_have_two_folders_also_where_case_does_not_count(a: bytes, b: bytes) -> None:
    if a != b:
        assert folder_name(a, 1).casefold() != folder_name(b, 1).casefold()


def test_folders_read_well_where_names_are_simple() -> None:
    assert folder_name(b"jobs", 1) == "jobs.1"
    assert folder_name(b"Op+audit", 3) == "%4Fp%2Baudit.3"
    assert folder_name(b"a.b", 1) == "a%2Eb.1"
    assert folder_name(b"..", 1) == "%2E%2E.1"
    assert folder_name(b"A" * 128, 1) != folder_name(b"A" * 127 + b"B", 1)
    assert parse_folder_name("anything") == (b"anything", 0)
