"""`kestrelpy backup` and `restore`: every item stored before the backup is restored.

Promises: verify, backup.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path

import pytest

from journal.files import Disk
from journal.format import journal_folders
from kestrelpy.cli.journals.backup import backup
from kestrelpy.server.directory.server_id import read_server_id
from tests.process.cli.command import Command, eventually
from tests.process.cli.load import Load, drained, number_of
from tests.support.daemon import DaemonProcess


def put_some(daemon: DaemonProcess, queue: str, *bodies: bytes) -> None:
    client = daemon.client()
    for body in bodies:
        assert client.set(queue, body)
    client.close()


def stopped(path: Path, *bodies: bytes) -> Path:
    """A data directory with a queue `jobs`, and no daemon."""
    with DaemonProcess(path) as daemon:
        put_some(daemon, "jobs", *bodies)
        daemon.stop()
    return path


def listing(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_a_backup_of_a_running_daemon_is_restored_and_served(
    kestrelpy: Command, tmp_path: Path
) -> None:
    with DaemonProcess(tmp_path / "data") as daemon:
        put_some(daemon, "jobs", b"one", b"two")
        put_some(daemon, "Other.Queue", b"three")
        made = kestrelpy("backup", "copy", "--data-dir", "data")
        put_some(daemon, "jobs", b"too late")
    assert made.code == 0, made
    assert b"2 queues, 3 items, " in made.out
    assert kestrelpy("journal", "verify", "copy").code == 0

    restored = kestrelpy("restore", "copy", "--data-dir", "new")
    assert restored.code == 0, restored
    assert b"2 queues, 3 items, " in restored.out
    with DaemonProcess(tmp_path / "new") as again:
        assert drained(again) == [b"one", b"two"]
        assert drained(again, "Other.Queue") == [b"three"]


def test_items_of_an_earlier_generation_are_named_as_left_out(
    kestrelpy: Command, tmp_path: Path
) -> None:
    with DaemonProcess(tmp_path / "data") as daemon:
        put_some(daemon, "jobs", b"one", b"two")
    [folder] = (tmp_path / "data").glob("jobs.*")
    shutil.copytree(folder, folder.with_name("jobs.1"))  # as versions before format 7 left it

    made = kestrelpy("backup", "copy", "--data-dir", "data")

    assert made.code == 1, made
    assert b"1 queue, 2 items, " in made.out
    said = "not in the backup: 2 items of children of an earlier queue, in jobs.1"
    assert said in made.err
    as_json = kestrelpy("backup", "other", "--data-dir", "data", "--json")
    assert json.loads(as_json.out)["left_out"] == {"jobs.1": 2}


def test_a_source_that_cannot_be_listed_again_leaves_a_finished_backup(
    kestrelpy: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list of contents is written last: no step after it can fail."""
    stopped(tmp_path / "data", b"one")
    listings = 0

    def listed(files: Disk, source: str) -> list[str]:
        nonlocal listings
        listings += 1
        if (tmp_path / "copy" / "backup.json").exists():
            raise OSError(5, "Input/output error", source)
        return journal_folders(files, source)

    monkeypatch.setattr("kestrelpy.cli.journals.backup.journal_folders", listed)
    backup(str(tmp_path / "copy"), str(tmp_path / "data"), False)
    assert listings
    assert kestrelpy("restore", "copy", "--data-dir", "new").code == 0


def test_a_restored_queue_is_a_new_generation_of_a_new_server(
    kestrelpy: Command, tmp_path: Path
) -> None:
    stopped(tmp_path / "data", b"one")
    assert kestrelpy("backup", "copy", "--data-dir", "data").code == 0
    assert kestrelpy("restore", "copy", "--data-dir", "new").code == 0
    (old,) = (p.name for p in (tmp_path / "data").glob("jobs.*"))
    (new,) = (p.name for p in (tmp_path / "new").glob("jobs.*"))
    assert int(new.rpartition(".")[2]) > int(old.rpartition(".")[2])
    server = read_server_id(Disk(), str(tmp_path / "new"))
    assert len(server) == 32
    assert server != read_server_id(Disk(), str(tmp_path / "data"))
    facts = json.loads(kestrelpy("journal", "verify", "new", "--json").out)
    assert facts["journals"][0]["generation"] == int(new.rpartition(".")[2])
    assert not (tmp_path / "copy" / "server-id").exists()


def test_a_backup_leaves_its_source_as_it_was(kestrelpy: Command, tmp_path: Path) -> None:
    source = stopped(tmp_path / "data", *(b"%d" % n * 900 for n in range(300)))
    before = listing(source)
    assert kestrelpy("backup", "copy", "--data-dir", "data").code == 0
    (source / "last-backup").unlink()  # its time, for the page
    assert listing(source) == before
    assert kestrelpy("restore", "copy", "--data-dir", "new").code == 0
    with DaemonProcess(tmp_path / "new") as daemon:
        put_some(daemon, "jobs", *(b"new" * 900 for _ in range(100)))
        drained(daemon)
    assert listing(source) == before


def test_only_closed_files_are_linked(kestrelpy: Command, tmp_path: Path) -> None:
    stopped(tmp_path / "data", *(b"%d" % n * 900 for n in range(300)))
    made = kestrelpy("backup", "copy", "--data-dir", "data", "--json")
    assert made.code == 0, made
    (queue,) = json.loads(made.out)["queues"]
    assert queue["queue"] == "jobs"
    assert queue["items"] == 300
    segments = sorted((tmp_path / "copy" / queue["folder"]).glob("*.segment"))
    links = [os.stat(path).st_nlink for path in segments]
    assert len(links) > 1
    assert links == [2] * (len(links) - 1) + [1]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["backup", "full", "--data-dir", "data"], "full: is not empty"),
        (["backup", "cut", "--data-dir", "data"], "cut short, remove it first"),
        (["backup", "data/copy", "--data-dir", "data"], "lies in the data directory itself"),
        (["backup", "copy", "--data-dir", "nowhere"], "nowhere: no data directory of kestrelpy"),
        (["backup", "file", "--data-dir", "data"], "file: Not a directory"),
        (["restore", "full", "--data-dir", "new"], "full: no backup.json here"),
        (["restore", "broken", "--data-dir", "new"], "this is no manifest of a backup"),
        (["restore", "copy", "--data-dir", "data"], "there is a queue of this name; --replace"),
    ],
)
def test_an_impossible_backup_is_one_sentence(
    words: list[str], said: str, kestrelpy: Command, tmp_path: Path
) -> None:
    stopped(tmp_path / "data", b"one")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    (tmp_path / "cut" / "jobs.1").mkdir(parents=True)
    (tmp_path / "file").touch()
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "backup.json").write_text("{}")
    if words[1] == "copy" and words[0] == "restore":
        assert kestrelpy("backup", "copy", "--data-dir", "data").code == 0
    before = listing(tmp_path / "data")
    ended = kestrelpy(*words)
    assert ended.is_sentence(2), ended
    assert said in ended.err
    assert listing(tmp_path / "data") == before
    assert not (tmp_path / "new").exists()


def test_a_data_directory_in_use_is_not_restored_into(kestrelpy: Command, tmp_path: Path) -> None:
    with DaemonProcess(tmp_path / "data") as daemon:
        put_some(daemon, "jobs", b"one")
        assert kestrelpy("backup", "copy", "--data-dir", "data").code == 0
        ended = kestrelpy("restore", "copy", "--data-dir", "data", "--replace", "--yes")
        assert ended.is_sentence(2), ended
        assert "another kestrelpy is using this data directory" in ended.err
        assert drained(daemon) == [b"one"]


def test_a_queue_is_replaced_when_that_is_said_and_others_stay(
    kestrelpy: Command, tmp_path: Path
) -> None:
    with DaemonProcess(tmp_path / "data") as daemon:
        put_some(daemon, "jobs", b"of the backup")
        assert kestrelpy("backup", "copy", "--data-dir", "data").code == 0
        put_some(daemon, "jobs", b"later")
        put_some(daemon, "other", b"stays")
        daemon.stop()
    asked = kestrelpy("restore", "copy", "--data-dir", "data", "--replace", stdin=b"n\n")
    assert asked.code == 1, asked
    assert kestrelpy("restore", "copy", "--data-dir", "data", "--replace", "--yes").code == 0
    assert len(list((tmp_path / "data").glob("jobs.*"))) == 1
    with DaemonProcess(tmp_path / "data") as daemon:
        assert drained(daemon) == [b"of the backup"]
        assert drained(daemon, "other") == [b"stays"]


def test_a_damaged_backup_is_not_restored(kestrelpy: Command, tmp_path: Path) -> None:
    stopped(tmp_path / "data", *(b"%d" % n * 900 for n in range(300)))
    assert kestrelpy("backup", "copy", "--data-dir", "data").code == 0
    path = min((tmp_path / "copy").rglob("*.segment"))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    ended = kestrelpy("restore", "copy", "--data-dir", "new")
    assert ended.is_sentence(2), ended
    assert f"the backup is damaged: copy/{path.parent.name}/{path.name}: corrupt" in ended.err
    assert not (tmp_path / "new").exists()


def test_the_backup_of_a_damaged_journal_holds_the_damage_and_says_so(
    kestrelpy: Command, tmp_path: Path
) -> None:
    source = stopped(tmp_path / "data", *(b"%d" % n * 900 for n in range(60)))
    path = min(source.rglob("*.segment"))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    made = kestrelpy("backup", "copy", "--data-dir", "data")
    assert made.code == 1, made
    damage, items = made.err.splitlines()
    assert damage.startswith("kestrelpy: the source is damaged, and so is the backup: ")
    assert "queue jobs: 1 item cannot be read: " in items
    repaired = kestrelpy("journal", "repair", "copy", "--yes")
    assert repaired.code == 0, repaired
    assert path.read_bytes() == content, "shares nothing with the source any more"
    assert kestrelpy("restore", "copy", "--data-dir", "new").code == 0
    with DaemonProcess(tmp_path / "new") as daemon:
        assert len(drained(daemon)) == 59


@pytest.mark.slow
def test_backups_under_load_have_all_that_was_stored_before_in_sequence_and_nothing_else(
    kestrelpy: Command, tmp_path: Path
) -> None:
    with DaemonProcess(tmp_path / "data") as daemon, Load(daemon) as load:
        for number in range(6):
            eventually(lambda least=500 * (number + 1): len(load.stored) >= least)
            before = set(load.stored)
            made = kestrelpy("backup", f"copy{number}", "--data-dir", "data")
            sent, confirming = set(load.sent), set(load.confirming)
            assert made.code == 0, made
            restored = kestrelpy("restore", f"copy{number}", "--data-dir", f"new{number}")
            assert restored.code == 0, restored
            with DaemonProcess(tmp_path / f"new{number}") as again:
                found = drained(again)
            assert before - confirming <= set(found)
            assert set(found) <= sent
            assert len(found) == len(set(found))
            for producer in range(3):
                counts = [n for p, n in map(number_of, found) if p == producer]
                assert counts == sorted(counts)
            shutil.rmtree(tmp_path / f"new{number}")


@pytest.mark.slow
def test_a_live_directory_under_load_is_never_damaged(kestrelpy: Command, tmp_path: Path) -> None:
    with DaemonProcess(tmp_path / "data") as daemon, Load(daemon) as load:
        eventually(lambda: len(load.stored) > 200)
        for _ in range(20):
            verified = kestrelpy("journal", "verify", "data")
            assert verified.code == 0, verified
            assert b"data: a daemon is running here\n" in verified.out
            time.sleep(0.02)  # another moment of the load
    assert b"no daemon is running" in kestrelpy("journal", "verify", "data").out
