"""A data directory, a backup and a restore are for their owner alone, for any umask.

Promise owner-only: three umasks; files and folders that others may open.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from journal.files import Disk
from journal.write.segment_file import Sizes
from kestrelpy.cli.journals.backup import back_up
from kestrelpy.cli.journals.restore import put_back
from kestrelpy.server.directory.data_directory import DataDirectory
from kestrelpy.server.directory.owner_only import open_to_others
from tests.support.running import running


@pytest.fixture(params=[0o000, 0o022, 0o377], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def modes(folder: Path) -> dict[str, str]:
    """Return what other users may do, and what the owner may not do."""
    wrong = {}
    for path in (folder, *folder.rglob("*")):
        mode = path.lstat().st_mode
        wanted = 0o700 if stat.S_ISDIR(mode) else 0o600
        if stat.S_IMODE(mode) != wanted:
            wrong[str(path.relative_to(folder.parent))] = oct(stat.S_IMODE(mode))
    return wrong


async def lived(folder: Path) -> None:
    """Run a daemon that created, filled and deleted queues, and stop it."""
    umask_ = os.umask(0o022)
    (folder / "in").mkdir()
    os.umask(umask_)
    config = '[queue_defaults]\narchive_to = "archive"\n'
    async with running(folder / "in", config=config) as server:
        peer = await server.client()
        for queue in (b"jobs", b"mail"):
            assert await peer.ask(b"set %b 0 0 1\r\na\r\n" % queue) == b"STORED\r\n"
        assert await peer.ask(b"delete mail\r\n") == b"DELETED\r\n"


async def test_files_of_a_daemon_are_for_its_owner_alone(umask: int, tmp_path: Path) -> None:
    await lived(tmp_path)
    data = tmp_path / "in" / "data"
    assert len(list(data.rglob("*.segment"))) >= 1
    assert modes(data) == {}
    assert open_to_others(Disk(), str(data)) == ""


async def test_files_of_a_backup_and_a_restore_are_for_the_owner_alone(
    umask: int, tmp_path: Path
) -> None:
    await lived(tmp_path)
    backup, new = tmp_path / "in" / "backup", tmp_path / "in" / "deep" / "new"
    back_up(Disk(), str(tmp_path / "in" / "data"), str(backup), lambda done, total: None)
    put_back(
        Disk(), str(backup), str(new), False, 0, lambda doing: lambda done, total: None
    )
    assert modes(backup) == {}
    assert modes(new.parent) == {}


def test_a_file_left_by_a_crash_loses_its_mode(tmp_path: Path) -> None:
    left = tmp_path / "file.new"
    left.touch(0o666)
    left.chmod(0o666)
    Disk().create(str(tmp_path / "file"), b"x", 1).close()
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o600


@pytest.mark.parametrize("name", [".", "lock", "tokens", "jobs.7", "jobs.7/0000000001.segment"])
def test_a_file_open_to_others_is_logged_and_not_changed(name: str, tmp_path: Path) -> None:
    data = tmp_path / "data dir"
    DataDirectory(Disk(), str(data), Sizes()).lock()
    Disk().create(str(data / "tokens"), b"1", 1).close()
    Disk().make_folder(str(data / "jobs.7"))
    Disk().create(str(data / "jobs.7" / "0000000001.segment"), b"x", 1).close()
    assert open_to_others(Disk(), str(data)) == ""
    path = data / name
    path.chmod(0o740)
    assert open_to_others(Disk(), str(data)) == (
        f"{path}: other users may open it (mode 0740); "
        f"chmod -R go-rwx '{data}' closes all that is there"
    )
    assert stat.S_IMODE(path.stat().st_mode) == 0o740


async def test_a_start_names_it_in_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await lived(tmp_path)
    data = tmp_path / "in" / "data"
    (folder,) = data.glob("jobs.*")
    data.chmod(0o755)
    folder.chmod(0o755)
    async with running(tmp_path / "in") as server:
        peer = await server.client()
        for _ in range(1000):
            if "other users" in caplog.text:
                break
            await peer.ask(b"version\r\n")
    lines = [r.message for r in caplog.records if "other users" in r.message]
    assert lines == [
        f"{data}: other users may open it (mode 0755); "
        f"chmod -R go-rwx {data} closes all that is there"
    ]
    assert stat.S_IMODE(data.stat().st_mode) == 0o755
