"""A folder has one owning process, and that notices another folder in its place.

Promise: directory-lost.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from journal.errors import DirectoryLocked
from journal.files import Disk, FolderChanged, Lock


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory with the folder of one queue."""
    (tmp_path / "data" / "jobs.1").mkdir(parents=True)
    (tmp_path / "data" / "jobs.1" / "1.segment").write_bytes(b"old")
    return tmp_path / "data"


def locked(data: Path) -> tuple[Disk, Lock]:
    disk = Disk()
    return disk, disk.lock(str(data / "lock"))


def test_without_the_lock_file_the_folder_is_owned_still(data: Path) -> None:
    _, lock = locked(data)
    (data / "lock").unlink()
    with pytest.raises(DirectoryLocked, match="another kestrelpy"):
        Disk().lock(str(data / "lock"))
    assert Disk().is_owned(str(data / "lock"))
    lock.close()
    assert not Disk().is_owned(str(data / "lock"))
    Disk().lock(str(data / "lock")).close()


def test_a_tool_that_knows_the_lock_file_alone_keeps_others_out(data: Path) -> None:
    with open(data / "lock", "wb") as old:
        fcntl.flock(old, fcntl.LOCK_EX)
        with pytest.raises(DirectoryLocked):
            Disk().lock(str(data / "lock"))
        assert Disk().is_owned(str(data / "lock"))
    Disk().lock(str(data / "lock")).close()


def test_the_question_who_owns_it_makes_no_file(data: Path) -> None:
    assert not Disk().is_owned(str(data / "lock"))
    assert not (data / "lock").exists()


def test_a_folder_under_another_name_is_the_same_folder(data: Path) -> None:
    _, lock = locked(data)
    os.symlink(data, data.with_name("alias"))
    with pytest.raises(DirectoryLocked):
        Disk().lock(str(data.with_name("alias") / "lock"))
    lock.close()


def test_a_lock_file_that_is_gone_is_made_and_locked_again(data: Path) -> None:
    _, lock = locked(data)
    assert lock.check() == ""
    (data / "lock").unlink()
    assert "is there again" in lock.check()
    assert lock.check() == ""
    with open(data / "lock", "rb") as again, pytest.raises(BlockingIOError):
        fcntl.flock(again, fcntl.LOCK_EX | fcntl.LOCK_NB)
    lock.close()


def test_a_lock_file_that_somebody_else_made_and_locked_is_a_lost_folder(data: Path) -> None:
    _, lock = locked(data)
    (data / "lock").unlink()
    with open(data / "lock", "wb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(FolderChanged, match="another kestrelpy has locked it"):
            lock.check()


def moved(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))


def replaced(path: Path) -> None:
    moved(path)
    shutil.copytree(path.with_name("elsewhere"), path)


CHANGES = (moved, replaced, shutil.rmtree)


@pytest.mark.parametrize("path", ["data", "./data", "new", "a/new", "."])
def test_an_owned_folder_may_be_named_from_where_the_process_is(
    data: Path, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(data.parent)
    Disk().make_folder(path)
    disk = Disk()
    lock = disk.lock(os.path.join(path, "lock"))
    disk.make_folder(path)
    disk.make_folder(os.path.join(path, "made.1", "deeper"))
    disk.create(os.path.join(path, "made.1", "1.segment"), b"bytes", 5).close()
    disk.rename(os.path.join(path, "made.1"), os.path.join(path, "made.2"))
    assert disk.names(os.path.join(path, "made.2")) == ["1.segment", "deeper"]
    lock.close()


@pytest.mark.parametrize("change", CHANGES)
def test_no_file_is_made_in_or_for_a_folder_that_was_taken_away(
    data: Path, change: Callable[[Path], None]
) -> None:
    disk, lock = locked(data)
    change(data)
    before = sorted(data.parent.rglob("*"))
    with pytest.raises(FolderChanged, match="removed, renamed, replaced or unmounted"):
        lock.check()
    new = str(data / "mail.2")
    for act in (
        lambda: disk.make_folder(new),
        lambda: disk.create(f"{new}/1.segment", b"new", 3),
        lambda: disk.create(str(data / "jobs.1" / "2.segment"), b"new", 3),
        lambda: disk.open(str(data / "jobs.1" / "1.segment")),
        lambda: disk.rename(str(data / "jobs.1"), str(data / "jobs.3")),
        lambda: disk.rename_all([(str(data / "jobs.1"), str(data / "jobs.3"))]),
    ):
        with pytest.raises(FolderChanged):
            act()
    assert sorted(data.parent.rglob("*")) == before


@pytest.mark.parametrize("change", CHANGES)
def test_no_file_is_made_in_a_queues_folder_that_was_taken_away(
    data: Path, change: Callable[[Path], None]
) -> None:
    disk, lock = locked(data)
    handle = disk.open(str(data / "jobs.1" / "1.segment"))
    assert handle.is_in_place
    change(data / "jobs.1")
    assert not handle.is_in_place
    before = sorted(data.parent.rglob("*"))
    for act in (
        lambda: disk.create(str(data / "jobs.1" / "2.segment"), b"new", 3),
        lambda: disk.open(str(data / "jobs.1" / "1.segment")),
        lambda: disk.make_folder(str(data / "jobs.1")),
    ):
        with pytest.raises(FolderChanged):
            act()
    assert sorted(data.parent.rglob("*")) == before
    lock.close()


@pytest.mark.parametrize("is_made", [False, True], ids=["opened", "made"])
@pytest.mark.parametrize("size", [0, 50, 99])
def test_a_file_that_is_shorter_than_it_was_is_not_in_its_place(
    data: Path, is_made: bool, size: int
) -> None:
    disk, lock = locked(data)
    path = str(data / "jobs.1" / "2.segment")
    handle = disk.create(path, b"header", 80)
    if not is_made:
        handle.close()
        handle = disk.open(path)
    handle.write(60, bytes(40))
    assert handle.is_in_place
    os.truncate(path, size)
    assert not handle.is_in_place
    handle.write(10, b"another record")
    assert not handle.is_in_place, "a hole is no file of before"
    handle.close()
    lock.close()


def test_a_folder_that_its_owner_renames_and_makes_anew_is_another_one(data: Path) -> None:
    disk, lock = locked(data)
    jobs = str(data / "jobs.1")
    disk.create(f"{jobs}/2.segment", b"", 1).close()
    disk.rename(jobs, f"{jobs}~removed")
    disk.make_folder(jobs)
    disk.create(f"{jobs}/1.segment", b"new", 3).close()
    disk.remove_folder(jobs)
    disk.make_folder(jobs)
    assert disk.names(jobs) == []
    assert disk.names(f"{jobs}~removed") == ["1.segment", "2.segment"]
    lock.close()


def test_of_many_new_names_that_of_a_folder_that_was_replaced_is_refused(data: Path) -> None:
    disk, lock = locked(data)
    for name in ("jobs.1", "next.1"):
        disk.make_folder(str(data / name))
        disk.create(str(data / name / "2.segment"), b"", 1).close()
    (data / "jobs.1").rename(data / "taken")
    (data / "jobs.1").mkdir()

    names = [(str(data / name), str(data / f"{name}~removed")) for name in ("jobs.1", "next.1")]
    errors = disk.rename_all(names)

    assert [*errors] == [str(data / "jobs.1")]
    assert isinstance(errors[str(data / "jobs.1")], FolderChanged)
    assert (data / "jobs.1").is_dir()
    assert (data / "next.1~removed").is_dir()
    lock.close()


def test_a_path_that_may_not_be_walked_for_the_moment_says_nothing(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, lock = locked(data)

    def refused(path: str, **_: object) -> os.stat_result:
        raise PermissionError(errno.EACCES, "Permission denied", path)

    with monkeypatch.context() as patched:
        patched.setattr("os.stat", refused)
        assert lock.check() == ""
    lock.close()


def test_a_file_system_that_cannot_lock_a_folder_locks_the_file_alone(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = fcntl.flock

    def only_files(descriptor: int, what: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EBADF, "Bad file descriptor")
        real(descriptor, what)

    monkeypatch.setattr("fcntl.flock", only_files)
    _, lock = locked(data)
    with pytest.raises(DirectoryLocked):
        Disk().lock(str(data / "lock"))
    (data / "lock").unlink()
    with pytest.raises(FolderChanged, match="its file lock was removed"):
        lock.check()


def test_errors_name_whole_paths(data: Path) -> None:
    disk, lock = locked(data)
    path = str(data / "jobs.1" / "none")
    for act in (lambda: disk.open(path), lambda: disk.read(path), lambda: disk.size(path)):
        with pytest.raises(FileNotFoundError) as caught:
            act()
        assert caught.value.filename == path
    lock.close()


def test_a_folder_in_place_of_a_file_is_named_and_costs_no_descriptor(data: Path) -> None:
    disk, lock = locked(data)
    for folder in (data.parent, data / "jobs.1"):  # outside and inside
        before = set(os.listdir("/dev/fd"))
        with pytest.raises(OSError, match="it is no file") as caught:
            disk.read(str(folder))
        assert caught.value.filename == str(folder)
        # Fewer, if the collector closes files that an earlier test left.
        assert set(os.listdir("/dev/fd")) <= before
    lock.close()
