"""On the real disk the verbs call the system in the order that their guarantees need."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import journal.files
from journal.files import Disk


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """The calls that were made, in order; `tmp_path` is made before."""
    made: list[str] = []

    def note(owner: Any, name: str, call: str) -> None:
        real = getattr(owner, call)

        def noted(*arguments: Any, **named: Any) -> Any:
            made.append(name)
            return real(*arguments, **named)

        monkeypatch.setattr(owner, call, noted)

    note(journal.files, "sync", "full_sync")
    note(os, "write", "pwrite")
    note(os, "rename", "rename")
    note(os, "unlink", "unlink")
    note(os, "truncate", "ftruncate")
    note(os, "sync folder", "fsync")
    return made


@pytest.mark.parametrize(
    ("data", "size"), [(b"all of it", 9), (b"", 4096), (b"head", 4096), (b"head", (2 << 20) + 1)]
)
def test_a_new_file_has_its_name_when_all_its_bytes_are_on_disk(
    calls: list[str], tmp_path: Path, data: bytes, size: int
) -> None:
    Disk().create(str(tmp_path / "x"), data, size).close()

    assert calls[-3:] == ["sync", "rename", "sync folder"]
    assert calls.count("rename") == 1
    assert (tmp_path / "x").stat().st_size == size


def test_a_new_queue_costs_three_syncs(calls: list[str], tmp_path: Path) -> None:
    disk = Disk()
    disk.make_folder(str(tmp_path / "first"))
    calls.clear()

    disk.make_folder(str(tmp_path / "jobs"))
    disk.create(str(tmp_path / "jobs" / "x"), b"head", 4096).close()

    in_order = ["sync folder", "write", "write", "sync", "rename", "sync folder"]
    assert calls == in_order, "its folder's name, its bytes, its name"


def test_what_a_killed_process_made_is_on_disk_when_it_is_made_again(
    calls: list[str], tmp_path: Path
) -> None:
    folder = tmp_path / "jobs"
    folder.mkdir()
    for _ in range(2):
        calls.clear()
        Disk().make_folder(str(folder))
        assert calls == ["sync folder", "sync folder"], "its own name, and the names in it"


def test_a_removal_and_a_new_name_are_on_disk_on_return(calls: list[str], tmp_path: Path) -> None:
    disk = Disk()
    (tmp_path / "x").touch()

    disk.rename(str(tmp_path / "x"), str(tmp_path / "y"))
    disk.remove(str(tmp_path / "y"))

    assert calls == ["rename", "sync folder", "unlink", "sync folder"]


def test_many_new_names_are_on_disk_by_one_sync(calls: list[str], tmp_path: Path) -> None:
    disk, names = Disk(), [(str(tmp_path / f"{n}"), str(tmp_path / f"{n}~")) for n in range(3)]
    for old, _ in names:
        os.mkdir(old)

    assert disk.rename_all(names) == {}

    assert calls == ["rename", "rename", "rename", "sync folder"]


@pytest.mark.parametrize("before", [b"the older and longer one", b"short"])
def test_a_file_written_over_another_has_its_name_when_its_bytes_and_length_are_on_disk(
    calls: list[str], tmp_path: Path, before: bytes
) -> None:
    disk, old, new = Disk(), str(tmp_path / "old"), str(tmp_path / "new")
    disk.create(old, before, len(before)).close()
    calls.clear()

    disk.create_over(old, new, b"the newer one")

    away = ["rename", "sync folder"]
    assert calls == [*away, "write", "truncate", "sync", *away]
    assert (tmp_path / "new").read_bytes() == b"the newer one"
