"""A hand-off between two deleted queues, with a cut before each step of both removals.

    jobs ──item──▶ next        delete jobs, delete next        cut        start        delete again

A cut in the middle of a removal may leave a queue whose delete was not answered yet.

One rule: the item is in one queue at most, in none once its target is deleted, and a queue that was
deleted leaves no file behind.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from random import Random

import pytest

from journal.errors import JournalFailed
from kestrelpy.core.log.log import JournalLog
from tests.support.memory_disk import Fate, PowerCut
from tests.support.transfer_harness import (
    TransferHarness,
    both_deleted_and_the_first_failed,
    unmarked,
)

DELETED = b"DELETED\r\n"
DELETERS = {"jobs": "eve", "next": "eva"}
FATES: tuple[Fate | None, ...] = (None, "kept", "lost", "random", "random", "random")


def handed_off(deletions: tuple[str, str], written: tuple[str, ...]) -> TransferHarness:
    """Hand an item off from jobs to next, `written` on disk, and delete both in this order.

    No file has been removed yet, and nothing else is written before `go`.
    """
    town = TransferHarness()
    for queue in ("jobs", "next"):
        town.put(queue, b"made")
        town.finish(queue)
    town.put("jobs", b"0")
    assert town.take("jobs") == b"0"
    town.removes = False
    town.hold_writes()
    assert town.pass_on("next", b"0") == b""
    for queue in written:
        town.write_queue(queue)
        town.sync_queue(queue)
    for queue in deletions:
        assert town.say(DELETERS[queue], f"delete {queue}".encode()) == b""
    return town


def settled(deletions: tuple[str, str]) -> TransferHarness:
    """Both journals know of the hand-off before both queues are deleted."""
    town = TransferHarness()
    for body in (b"0", b"1"):
        town.put("jobs", body)
    town.hand("jobs", "next")
    town.removes = False
    for queue in deletions:
        town.say(DELETERS[queue], f"delete {queue}".encode())
    return town


def there_and_back(deletions: tuple[str, str]) -> TransferHarness:
    """Each queue has an original of the other one, and the journals of both have failed."""
    town = both_deleted_and_the_first_failed(is_back=True)
    town._removing.sort(key=lambda queue: deletions.index(queue.name.decode()))
    return town


def failed(deletions: tuple[str, str]) -> TransferHarness:
    """The copy is on disk, and the journal of the original has failed."""
    town = handed_off(deletions, ("next",))
    log = next(queue.log for queue in town._removing if queue.name == b"jobs")
    assert isinstance(log, JournalLog)
    log.journal.commit.fail(JournalFailed("Input/output error"))
    town.go()
    return town


STANDS: dict[str, Callable[[tuple[str, str]], TransferHarness]] = {
    "nothing is written": lambda deletions: handed_off(deletions, ()),
    "the copy is written": lambda deletions: handed_off(deletions, ("next",)),
    "both are written": lambda deletions: handed_off(deletions, ("next", "jobs")),
    "both know": settled, "the original has failed": failed, "both ways": there_and_back,
}  # fmt: skip


def remove_both(town: TransferHarness) -> None:
    """Remove what may go while nothing is written, then all."""
    town.removes = True
    town.work()
    town.go()


def removed(town: TransferHarness) -> set[str]:
    """Return the queues whose clients may be told now that they are deleted."""
    return {*DELETERS} - {queue.name.decode() for queue in town._removing}


def files(town: TransferHarness) -> list[str]:
    """Return what the data directory has of the two queues."""
    names = town.disk.names("data")
    return [name for name in names if name.partition(".")[0] in DELETERS]


def look(town: TransferHarness, deleted: set[str], is_both_ways: bool, story: str) -> None:
    """Check a start after a cut; then delete what came back, and check the next start."""
    town.work()
    bodies = [unmarked(body) for _, body in town.stored_bodies()]
    assert len(bodies) == len({*bodies}), f"{story}: doubled: {town.stored_bodies()}"
    if "next" in deleted and not is_both_ways:  # else one of the two is the first to go
        back = f"{story}: an item that was deleted with next is back: {town.stored_bodies()}"
        assert b"0" not in bodies, back
    there = {name.decode() for name in town.broker.queues}
    assert not there & deleted, f"{story}: {there & deleted} came back"
    assert town.origins() == 0, story
    assert town.moving() == [], story
    if not there:
        assert files(town) == [], story
    for name in sorted(there):
        assert town.say("eve", f"delete {name}".encode()) == DELETED, story
    for _ in range(2):
        assert (town.stored_bodies(), files(town), [*town.broker.queues]) == ([], [], []), story
        town.kill()


@pytest.mark.parametrize("deletions", [("jobs", "next"), ("next", "jobs")])
@pytest.mark.parametrize("stand", STANDS)
def test_a_cut_while_both_queues_of_a_hand_off_are_removed_doubles_nothing_and_leaves_no_file(
    stand: str, deletions: tuple[str, str]
) -> None:
    whole = STANDS[stand](deletions)
    begun = whole.disk.steps
    remove_both(whole)
    steps = whole.disk.steps - begun
    assert steps >= 8, "each folder is renamed and removed"
    assert all(whole.clients[who].sent == DELETED for who in DELETERS.values())
    for step in range(1, steps + 2):  # the last one: the cut comes after all
        for number, fate in enumerate(FATES):
            town = STANDS[stand](deletions)
            town.disk.cut_power_at(step)
            with suppress(PowerCut):
                remove_both(town)
            deleted = removed(town)
            if fate is None:
                disk = town.disk.kill_clone()
            else:
                disk = town.disk.crash_clone(Random(step * 10 + number), fate)
            town.come_back(disk, fate is not None)
            story = f"step {step} of {steps}, {fate or 'killed'}"
            look(town, deleted, stand == "both ways", story)
