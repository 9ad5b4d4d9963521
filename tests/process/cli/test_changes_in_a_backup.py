"""Something happens at any verb of a backup: to its queues, to the disk, or to the process.

A backup that succeeds opens, and has each item that was stored before it and not confirmed by its
end, and nothing else. One that fails leaves nothing, and one that is killed is taken by no restore.

Promise: backup.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Final

import pytest

from journal.errors import JournalError
from kestrelpy.cli.journals.backup import back_up
from kestrelpy.cli.journals.manifest import BackedUp, read_manifest
from kestrelpy.cli.journals.restore import put_back
from kestrelpy.core.log.log import JournalLog
from tests.support.journals import TIME_MS, TINY
from tests.support.memory_disk import Fault, MemoryDisk, PowerCut
from tests.support.server_harness import ServerHarness
from tests.support.tidying import tidy

STEP: Final = 17  # between the verbs that are tried, others for each change
ITEMS: Final = 40
NEW: Final = b"made anew"
LEFT: Final = [b"item %d " % n * 9 for n in range(ITEMS) if not n % 5]


class BusyDisk(MemoryDisk):
    """At the nth verb of the backup something happens, or the verb fails."""

    def __init__(self) -> None:
        super().__init__()
        self.verbs = self.nth = 0
        self._happens: Callable[[str], None] | None = None

    def watch(self, nth: int, happens: Callable[[str], None]) -> None:
        self.verbs, self.nth, self._happens = 0, nth, happens

    def struck(self, verb: str, path: str) -> Fault | None:
        happens = self._happens
        if happens is not None:
            self.verbs += 1
            if self.verbs == self.nth:
                self._happens = None
                happens(path)
        return super().struck(verb, path)


def busy(disk: MemoryDisk) -> ServerHarness:
    """A server whose queue `jobs` has few items in many segments, beside another queue."""
    stage = ServerHarness(disk, sizes=TINY)
    stage.store(*(b"item %d " % n * 9 for n in range(ITEMS)))
    for n in range(ITEMS):
        if n % 5:
            assert stage.say("a", b"delete jobs/item=%d" % (n + 1)) == b"DELETED\r\n"
    stage.say("a", b"set other 0 0 5", b"other")
    return stage


def make(disk: MemoryDisk, to: str = "/backup") -> list[BackedUp]:
    made, damages, unreadable = back_up(disk, "data", to, lambda done, total: None)
    assert not damages
    assert not unreadable
    return made


def restored(disk: MemoryDisk, backup: str = "/backup") -> dict[str, list[bytes]]:
    """The items of each queue with which a start from the restored backup begins."""
    disk.remove_folder("data")
    put_back(disk, backup, "data", False, TIME_MS, lambda doing: lambda done, total: None)
    stage, found = ServerHarness(disk, sizes=TINY), dict[str, list[bytes]]()
    for name in [*stage.broker.queues]:
        found[name.decode()] = bodies = []
        while (said := stage.say("a", b"get " + name)).startswith(b"VALUE"):
            bodies.append(said.split(b"\r\n")[1])
    return found


def delete(stage: ServerHarness) -> None:
    assert stage.say("b", b"delete jobs") == b"DELETED\r\n"


def make_anew(stage: ServerHarness) -> None:
    delete(stage)
    stage.store(NEW)


def confirm(stage: ServerHarness) -> None:
    assert stage.say("b", b"get jobs").startswith(b"VALUE")


def compact(stage: ServerHarness) -> None:
    log = stage.queue("jobs").log
    assert isinstance(log, JournalLog)
    before = {name for name in stage.disk.names(log.journal.folder) if "segment" in name}
    for _ in range(2):  # a segment is compacted once two snapshots know its items as done
        tidy(stage, log)
    assert before != {n for n in stage.disk.names(log.journal.folder) if "segment" in n}


# The change, and the items of `jobs` that the backup may have; None: no queue.
CHANGES: Final[dict[str, tuple[Callable[[ServerHarness], None], list[list[bytes] | None]]]] = {
    "deleted": (delete, [LEFT, None]),
    "made anew": (make_anew, [LEFT, [NEW], None]),
    "confirmed": (confirm, [LEFT, LEFT[1:]]),
    "compacted": (compact, [LEFT]),
}


def verbs() -> int:
    """Return the number of verbs of an undisturbed backup."""
    disk = BusyDisk()
    busy(disk)
    disk.watch(0, lambda path: None)
    make(disk)
    return disk.verbs


VERBS: Final = verbs()


def look(name: str, nth: int) -> None:
    """Check a backup with this change at its nth verb: it succeeds."""
    happens, may_have = CHANGES[name]
    disk = BusyDisk()
    stage = busy(disk)
    disk.watch(nth, lambda path: happens(stage))
    make(disk)
    disk.watch(0, lambda path: None)
    found = restored(disk.crash_clone(Random(nth), "lost"))
    assert found.pop("other") == [b"other"]
    jobs = found.pop("jobs", None)
    assert jobs in may_have, f"{name} at verb {nth}"
    assert not found


def look_at_failure(how: int, nth: int) -> None:
    """The nth verb fails: the backup has all, or has said so and left nothing. Another succeeds."""
    disk = BusyDisk()
    busy(disk)

    def fail(path: str) -> None:
        raise OSError(how, "it fails", path)

    disk.watch(nth, fail)
    try:
        make(disk)
    except (OSError, JournalError):
        assert disk.names("/backup") == [], f"{how} at verb {nth}"
        make(disk)
    assert restored(disk.kill_clone()) == {"jobs": LEFT, "other": [b"other"]}


def look_at_kill(nth: int, is_power_cut: bool) -> None:
    """Check an end of the process or the machine at the nth verb: the backup is whole, or a restore
    refuses it; another one can be made in another folder."""
    disk = BusyDisk()
    busy(disk)

    def end(path: str) -> None:
        disk.cut_power_at(1)

    disk.watch(nth, end)
    with suppress(PowerCut):
        make(disk)
    after = disk.crash_clone(Random(nth)) if is_power_cut else disk.kill_clone()
    whole = {"jobs": LEFT, "other": [b"other"]}
    try:
        read_manifest(after, "/backup")
    except JournalError:
        with pytest.raises(JournalError):
            restored(after.kill_clone())
    else:
        assert restored(after.kill_clone()) == whole
    if after.names("/backup"):
        with pytest.raises(JournalError, match="is not empty"):
            make(after)
    make(after, "/again")
    assert restored(after, "/again") == whole


@pytest.mark.parametrize("name", CHANGES)
def test_a_queue_changes_during_a_backup(name: str) -> None:
    for nth in range(1 + [*CHANGES].index(name), VERBS + 1, STEP):
        look(name, nth)


@pytest.mark.parametrize("how", [errno.ENOSPC, errno.EIO])
def test_a_backup_that_fails_leaves_nothing(how: int) -> None:
    for nth in (*range(1 + how % STEP, VERBS - 8, STEP), *range(VERBS - 8, VERBS + 1)):
        look_at_failure(how, nth)


@pytest.mark.parametrize("verb", ["rename", "rename:names"])
def test_a_folder_that_has_its_queue_s_name_in_the_backup_is_not_left(verb: str) -> None:
    disk = busy(MemoryDisk()).disk
    (folder,) = (name for name in disk.names("data") if name.startswith("jobs"))
    disk.rename(f"data/{folder}", f"data/My {folder}")
    disk.faults.append(Fault(verb, "/backup/*"))
    with pytest.raises(OSError, match="error"):
        make(disk)
    assert disk.names("/backup") == []


@pytest.mark.parametrize("is_power_cut", [False, True])
def test_a_backup_that_is_killed_is_taken_whole_or_not_at_all(is_power_cut: bool) -> None:
    for nth in range(1 + is_power_cut, VERBS + 1, STEP):
        look_at_kill(nth, is_power_cut)


@pytest.mark.sweep
def test_the_same_at_each_verb() -> None:
    for nth in range(1, VERBS + 1):
        for name in CHANGES:
            look(name, nth)
        for how in (errno.ENOSPC, errno.EIO):
            look_at_failure(how, nth)
        for is_power_cut in (False, True):
            look_at_kill(nth, is_power_cut)
