"""A restore that a power cut ends leaves each queue as it was, or restored.

Promise restore: a power cut at any verb.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from journal.errors import JournalError
from journal.format.kinds import Kind
from journal.recovery.recovery import Recovery
from kestrelpy.cli.journals.backup import back_up
from kestrelpy.cli.journals.restore import put_back
from kestrelpy.server.directory.server_id import new_id
from tests.support.journals import TIME_MS, TINY, bodies, fresh
from tests.support.memory_disk import MemoryDisk, PowerCut


def unwatched(doing: str) -> Callable[[int, int], None]:
    return lambda done, total: None


def journal_of(disk: MemoryDisk, folder: str, *items: bytes) -> None:
    writer = fresh(disk, TINY, folder)
    writer.put_all(*items)
    writer.close()


def prepared() -> MemoryDisk:
    """A backup of two queues, and a data directory with another life of one of them."""
    disk = MemoryDisk()
    journal_of(disk, "/old/jobs.7", *(b"item %d" % n * 30 for n in range(9)))
    journal_of(disk, "/old/more.8", b"more")
    made, damages, _ = back_up(disk, "/old", "/backup", lambda done, total: None)
    assert [(each.folder, each.items) for each in made] == [("jobs.7", 9), ("more.8", 1)]
    assert not damages
    journal_of(disk, "/data/jobs.5", b"of before")
    journal_of(disk, "/data/stays.6", b"stays")
    return disk


def served(disk: MemoryDisk, queue: str) -> list[bytes]:
    """Return the items that a start takes: those of the newest generation."""
    folders = [n for n in disk.names("/data") if n.startswith(queue) and n[-1].isdigit()]
    newest = max(folders, key=lambda name: int(name.rpartition(".")[2]), default="")
    return bodies(list(Recovery(disk, f"/data/{newest}").records())) if newest else []


def restore(disk: MemoryDisk) -> None:
    put_back(disk, "/backup", "/data", True, TIME_MS, unwatched)


def test_a_restored_journal_holds_its_new_generation() -> None:
    disk = prepared()
    restore(disk)
    generation = TIME_MS // 1000
    assert [n for n in disk.names("/data") if "." in n] == [
        f"jobs.{generation}", f"more.{generation}", "stays.6"
    ]  # fmt: skip
    recovery = Recovery(disk, f"/data/jobs.{generation}")
    assert [r.item for r in recovery.records() if r.kind == Kind.PUT] == list(range(1, 10))
    assert recovery.clean
    assert not recovery.damages


def test_a_generation_is_higher_than_any_there_is() -> None:
    disk = prepared()
    journal_of(disk, "/data/far.9999999999", b"from the future")
    restore(disk)
    assert "jobs.10000000000" in disk.names("/data")


def test_no_generation_is_given_that_a_start_would_not_see() -> None:
    disk = prepared()
    journal_of(disk, f"/data/far.{10**18 - 1}", b"from the end of time")
    before = disk.names("/data")
    with pytest.raises(JournalError, match="a generation is too high here"):
        restore(disk)
    assert disk.names("/data") == sorted([*before, "lock"])


def test_no_queue_is_replaced_by_a_copy_that_is_damaged(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bytes of the backup were whole when it was checked, and are not when they are copied."""
    disk = prepared()
    (path,) = (
        path for name in disk.names("/backup/jobs.7")
        if b"item 3" in disk.read(path := f"/backup/jobs.7/{name}")
    )  # fmt: skip

    def after_the_check() -> bytes:
        disk.damage(path, disk.read(path).index(b"item 3"), b"ITEM")
        return new_id()

    monkeypatch.setattr("kestrelpy.cli.journals.restore.new_id", after_the_check)
    with pytest.raises(JournalError, match=r"not restored: .*: corrupt at byte"):
        restore(disk)
    assert served(disk, "jobs") == [b"of before"]


@pytest.mark.slow
def test_a_power_cut_at_any_verb_leaves_each_queue_as_it_was_or_as_the_backup_says() -> None:
    whole = prepared()
    backup = [b"item %d" % n * 30 for n in range(9)]
    chance = random.Random(11)
    for step in range(1, 3000):
        disk = whole.kill_clone()
        disk.cut_power_at(step)
        try:
            restore(disk)
        except PowerCut:
            after = disk.crash_clone(chance)
            assert served(after, "jobs") in ([b"of before"], backup)
            assert served(after, "more") in ([], [b"more"])
            assert served(after, "stays") == [b"stays"]
            restore(after)
            assert served(after, "jobs") == backup
        else:
            assert served(disk.crash_clone(chance), "jobs") == backup
            return
    raise AssertionError("it never ended")
