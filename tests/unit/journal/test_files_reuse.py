"""A file written in the room of another one, and reads of the real disk that come in parts."""

from __future__ import annotations

import errno
import io
from pathlib import Path

import pytest

import journal.files
from journal.files import Disk, Files
from tests.support.memory_disk import MemoryDisk


@pytest.fixture(params=["disk", "memory"])
def files(request: pytest.FixtureRequest) -> Files:
    return Disk() if request.param == "disk" else MemoryDisk()


@pytest.fixture
def folder(files: Files, tmp_path: Path) -> str:
    path = str(tmp_path / "jobs")
    files.make_folder(path)
    return path


@pytest.mark.parametrize("size", [1, 4095, 4096])
def test_a_file_may_fill_the_last_block_of_the_one_whose_room_it_takes(
    files: Files, folder: str, size: int
) -> None:
    files.create(f"{folder}/old", b"o" * size, size).close()

    files.create_over(f"{folder}/old", f"{folder}/new", b"n" * 4096)

    assert files.names(folder) == ["new"]
    assert files.read(f"{folder}/new") == b"n" * 4096


def test_a_file_shorter_than_the_one_whose_room_it_takes_has_nothing_of_that(
    files: Files, folder: str
) -> None:
    files.create(f"{folder}/old", b"o" * 9000, 9000).close()

    files.create_over(f"{folder}/old", f"{folder}/new", b"n" * 5000)

    assert files.read(f"{folder}/new") == b"n" * 5000


def test_a_file_takes_no_room_that_is_too_small(files: Files, folder: str) -> None:
    files.create(f"{folder}/old", b"o" * 4096, 4096).close()

    with pytest.raises(OSError, match="No space left") as raised:
        files.create_over(f"{folder}/old", f"{folder}/new", b"n" * 4097)

    assert raised.value.errno == errno.ENOSPC
    assert files.names(folder) == ["old"]
    assert files.read(f"{folder}/old") == b"o" * 4096


def test_a_short_read_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(io.FileIO):
        def read(self, size: int | None = -1) -> bytes:
            return super().read(min(size or 0, 3))

    (tmp_path / "x").write_bytes(b"0123456789")
    monkeypatch.setattr(journal.files, "open", lambda path, *_, **__: Slow(path), raising=False)

    assert Disk().read(str(tmp_path / "x"), 1, 7) == b"1234567"
    assert Disk().read(str(tmp_path / "x"), 1, 99) == b"123456789"
