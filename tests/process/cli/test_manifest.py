"""A manifest comes from outside: one bad word refuses the restore, before anything is written.

Promise restore-inside: bad manifests of every kind; links and pipes on the real disk.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from journal.errors import JournalError
from journal.files import Disk
from journal.format.folder import folder_name
from kestrelpy.cli.journals.backup import back_up
from kestrelpy.cli.journals.manifest import read_manifest
from kestrelpy.cli.journals.restore import put_back
from tests.support.journals import TIME_MS, TINY, fresh
from tests.support.memory_disk import MemoryDisk

Change = Callable[[dict[str, Any]], object]
MANIFEST = "/backup/backup.json"


def journal_of(disk: MemoryDisk | Disk, folder: str, *items: bytes) -> None:
    writer = fresh(disk, TINY, folder)
    writer.put_all(*items)
    writer.close()


def backed_up() -> MemoryDisk:
    """A backup of two queues, in /backup."""
    disk = MemoryDisk()
    journal_of(disk, "/old/jobs.7", b"one")
    journal_of(disk, "/old/more.8", b"two")
    back_up(disk, "/old", "/backup", lambda done, total: None)
    return disk


def write(disk: MemoryDisk, data: bytes) -> None:
    disk.remove(MANIFEST)
    disk.create(MANIFEST, data, len(data)).close()


def restore(disk: MemoryDisk | Disk, backup: str = "/backup", data_dir: str = "/data") -> None:
    put_back(disk, backup, data_dir, False, TIME_MS, lambda doing: lambda done, total: None)


def refusal(disk: MemoryDisk | Disk, backup: str = "/backup", data_dir: str = "/data") -> str:
    """Return the sentence; nothing was made."""
    with pytest.raises(JournalError) as caught:
        restore(disk, backup, data_dir)
    assert not disk.names(data_dir)
    sentence = str(caught.value)
    assert "\n" not in sentence
    return sentence


def first(**changes: object) -> Change:
    return lambda facts: facts["queues"][0].update(changes)


def without(key: str) -> Change:
    return lambda facts: facts["queues"][1].pop(key)


def folder_and_name(name: str, generation: int) -> Change:
    folder = folder_name(name.encode(), generation)
    return first(queue=name, generation=generation, folder=folder)


CHANGES: dict[str, tuple[Change, str]] = {
    "a way out": (first(folder="../outside"), "only jobs.7 is allowed"),
    "a way out by its end": (first(folder="jobs.7/../../outside"), "only jobs.7 is allowed"),
    "an absolute path": (first(folder="/outside"), "only jobs.7 is allowed"),
    "another folder": (first(folder="more.8"), "only jobs.7 is allowed"),
    "another generation": (first(folder="jobs.8"), "only jobs.7 is allowed"),
    "no folder": (first(folder=""), "only jobs.7 is allowed"),
    "a zero byte": (first(folder="jobs.7\0"), "only jobs.7 is allowed"),
    "a terminal's escape": (first(folder="\x1b[2J"), r"'\x1b[2J'"),
    "a long folder": (first(folder="x" * 100_000), "xxx...: for jobs"),
    "folder is a number": (first(folder=7), "folder is 7: text is allowed"),
    "no name": (folder_and_name("", 7), "queue name missing"),
    "a long name": (folder_and_name("q" * 129, 7), "queue name too long"),
    "a blank": (folder_and_name("a b", 7), "printable ASCII"),
    "a slash": (folder_and_name("a/b", 7), "a name has no /"),
    "no ASCII": (folder_and_name("é", 7), "printable ASCII"),
    "half a character": (first(queue="\ud800"), "printable ASCII"),
    "a child's child": (folder_and_name("a+b+c", 7), "with one +"),
    "a queue twice": (lambda facts: facts["queues"].append(facts["queues"][0]), "queues 1 and 3"),
    "two lives of one": (
        lambda facts: facts["queues"].append(
            {**facts["queues"][0], "generation": 9, "folder": "jobs.9"}
        ),
        "queues 1 and 3 are both jobs",
    ),
    "an unknown key": (first(path="/"), "queue 1 has an unknown key 'path'"),
    "an unknown key of all": (lambda facts: facts.update(root="/"), "an unknown key 'root'"),
    "a key less": (without("lsn"), 'queue 2 has no "lsn"'),
    "no queues": (lambda facts: facts.pop("queues"), 'has no "queues"'),
    "queues is no list": (lambda facts: facts.update(queues={}), "must be a list"),
    "a queue is no object": (lambda facts: facts["queues"].append(3), "queue 3 must be an object"),
    "generation 0": (first(generation=0, folder="jobs.0"), "generation is 0"),
    "generation below": (first(generation=-7), "generation is -7"),
    "generation too high": (folder_and_name("jobs", 1 << 53), "generation is 9007199254740992"),
    "generation is true": (first(generation=True), "generation is True"),
    "generation is text": (first(generation="7"), "generation is '7'"),
    "a fraction": (first(generation=7.0), "generation is 7.0"),
    "items below 0": (first(items=-1), "items is -1"),
    "items absurd": (first(items=1 << 60), "items is"),
    "bytes is nothing": (first(bytes=None), "bytes is None"),
    "lsn is a list": (first(lsn=[1]), "lsn is list"),
    "made_at is a number": (lambda facts: facts.update(made_at=3), "made_at is 3"),
    "a newer format": (lambda facts: facts.update(format=2), "made by a newer kestrelpy"),
    "format is text": (lambda facts: facts.update(format="1"), "format is '1'"),
    "no format": (lambda facts: facts.pop("format"), "this is no manifest of a backup"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_manifest_with_a_bad_word_is_refused_whole(what: str) -> None:
    disk = backed_up()
    change, said = CHANGES[what]
    facts = json.loads(disk.read(MANIFEST))
    change(facts)
    write(disk, json.dumps(facts).encode())
    sentence = refusal(disk)
    assert sentence.startswith(f"{MANIFEST}: ")
    assert said in sentence
    assert sentence.isascii()
    assert sentence.isprintable()
    assert len(sentence) < 500
    assert disk.names("/") == ["backup", "old"], "nothing was made elsewhere either"


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b"3", b"null", b"\xff\xfe", b"[" * 100_000, b"9" * 10_000, b"\0" * 99,
     b'{"format": 1e999}', b'{"format": NaN}', b'{"format": 1, "format": 1}'],
    ids=lambda data: repr(data[:20]),
)  # fmt: skip
def test_a_manifest_that_is_none_is_refused(data: bytes) -> None:
    disk = backed_up()
    write(disk, data)
    assert refusal(disk).startswith(f"{MANIFEST}: ")


def test_a_manifest_as_it_was_written_is_taken() -> None:
    disk = backed_up()
    assert [(q.queue, q.folder) for q in read_manifest(disk, "/backup")] == [
        ("jobs", "jobs.7"), ("more", "more.8")
    ]  # fmt: skip
    restore(disk)
    assert [name.partition(".")[0] for name in disk.names("/data") if "." in name] == [
        "jobs", "more"
    ]  # fmt: skip


def test_a_folder_that_was_named_by_hand_has_its_queue_s_name_in_the_backup() -> None:
    disk = MemoryDisk()
    writer = fresh(disk, TINY, "/old/jobs.7")
    writer.put_all(b"one")
    writer.close()
    disk.rename("/old/jobs.7", "/old/My Jobs.7")
    back_up(disk, "/old", "/backup", lambda done, total: None)
    assert [(q.queue, q.folder) for q in read_manifest(disk, "/backup")] == [("jobs", "jobs.7")]
    assert disk.names("/backup") == ["backup.json", "jobs.7"]
    restore(disk)


def test_a_journal_of_another_queue_is_refused() -> None:
    disk = backed_up()
    journal_of(disk, "/other/jobs.7", b"not of jobs")
    other = fresh(disk, TINY, "/else/more.9")
    other.put_all(b"more")
    other.close()
    for name in disk.names("/backup/jobs.7"):
        disk.remove(f"/backup/jobs.7/{name}")
    for name in disk.names("/else/more.9"):
        data = disk.read(f"/else/more.9/{name}")
        disk.create(f"/backup/jobs.7/{name}", data, len(data)).close()
    assert refusal(disk) == "/backup/jobs.7: this is the journal of a queue more, not of jobs"


def real_backup(folder: Path) -> str:
    """Make a backup on the real disk; return its folder."""
    disk = Disk()
    journal_of(disk, str(folder / "old" / "jobs.7"), *(b"item %d" % n * 50 for n in range(9)))
    back_up(disk, str(folder / "old"), str(folder / "backup"), lambda done, total: None)
    return str(folder / "backup")


def test_a_manifest_that_is_a_link_is_refused(tmp_path: Path) -> None:
    backup = real_backup(tmp_path)
    os.rename(f"{backup}/backup.json", tmp_path / "elsewhere.json")
    os.symlink(tmp_path / "elsewhere.json", f"{backup}/backup.json")
    sentence = refusal(Disk(), backup, str(tmp_path / "new"))
    assert "it must be a plain file" in sentence
    assert not (tmp_path / "new").exists()


def test_a_folder_of_a_backup_that_is_a_link_is_refused(tmp_path: Path) -> None:
    backup = real_backup(tmp_path)
    os.rename(f"{backup}/jobs.7", tmp_path / "elsewhere")
    os.symlink(tmp_path / "elsewhere", f"{backup}/jobs.7")
    sentence = refusal(Disk(), backup, str(tmp_path / "new"))
    assert sentence == (
        f"{backup}/jobs.7: a journal of a backup must be a folder, not a link to one"
    )
    assert not (tmp_path / "new").exists()


def test_a_file_of_a_backup_that_is_a_link_or_a_pipe_is_refused(tmp_path: Path) -> None:
    backup = real_backup(tmp_path)
    path = min(Path(backup, "jobs.7").iterdir())
    shutil.copy(path, tmp_path / "elsewhere")
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    said = "only plain files are allowed in a backup, and no links"
    assert refusal(Disk(), backup, str(tmp_path / "new")) == f"{path}: {said}"
    path.unlink()
    shutil.copy(tmp_path / "elsewhere", path)
    os.mkfifo(f"{backup}/jobs.7/odd")
    assert refusal(Disk(), backup, str(tmp_path / "new")) == f"{backup}/jobs.7/odd: {said}"
    assert not (tmp_path / "new").exists()
