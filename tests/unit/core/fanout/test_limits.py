"""A full disk refuses no confirm of a child: there is room for those of all readers that work. And
a child that is not full drops nothing.

Promises: child, full-disk.
"""

from __future__ import annotations

import pytest

from journal.compaction.retire import recycled_path, retire
from kestrelpy.core.log.log import JournalLog
from tests.support.server_harness import ServerHarness

ITEMS = 3000
CLOSED = b"get %b/close/open"


def reuse(stage: ServerHarness, log: JournalLog) -> None:
    """Recycle the empty segments, as the daemon does on a full disk."""
    preallocation = log.journal.preallocation
    for path in log.take_dead(stage.unix_ms):
        keep = recycled_path(path) if preallocation.may_recycle else ""
        kept = retire(stage.disk, path, "", keep)
        if kept:
            preallocation.recycled.append((kept, stage.disk.size(kept)))
    stage.work()


def drain(stage: ServerHarness, name: bytes) -> int:
    """Open and confirm each item to the last; return how many were confirmed."""
    log = stage.queue("jobs").log
    assert isinstance(log, JournalLog)
    done, answer = 0, stage.say("w", b"get %b/open" % name)
    while answer.startswith(b"VALUE"):
        answer = stage.say("w", CLOSED % name)
        assert answer, f"no answer to the close of item {done + 1} of {name.decode()}"
        done += 1
        if done % 100 == 0:
            reuse(stage, log)
    assert answer == b"END\r\n"
    return done


@pytest.mark.parametrize(
    "names", [(b"jobs", b"jobs+a", b"jobs+b"), (b"jobs+b", b"jobs+a", b"jobs")]
)
def test_on_a_full_disk_every_reader_confirms_to_the_last_item(names: tuple[bytes, ...]) -> None:
    stage = ServerHarness()
    for name in (b"jobs+a", b"jobs+b"):
        stage.say("p", b"set %b 0 0 1" % name, b"x")
        stage.say("p", b"get " + name)  # they are at work
    for _ in range(ITEMS):
        assert stage.say("p", b"set jobs 0 0 1", b"x") == b"STORED\r\n"
    stage.has_room = False
    stored = ITEMS
    while stage.say("p", b"set jobs 0 0 1", b"x") == b"STORED\r\n":
        stored += 1
    stage.client("p").take()
    found = [drain(stage, name) for name in names]
    assert min(found) >= stored
    stage.kill()
    stage.has_room = True
    for name in names:
        assert stage.say("w2", b"get " + name) == b"END\r\n", "all of that is on disk"


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("memory", ["64MiB", "1"])
def test_a_child_that_begins_behind_large_items_is_not_full_for_their_sake(
    memory: str, restarts: bool
) -> None:
    stage = ServerHarness()
    stage.set_queue(max_memory=memory)
    for size in (100_000, 100_000, 100_000, 100_000, *[3] * 200):
        assert stage.say("p", b"set jobs 0 0 %d" % size, b"x" * size) == b"STORED\r\n"
    stage.say("p", b"get jobs+c/from=5/peek")
    stage.set_queue("jobs+c", max_bytes="200KiB")
    child = stage.queue("jobs").children[b"c"]
    assert child.live_bytes <= 600
    if restarts:
        stage.restart()
        child = stage.queue("jobs").children[b"c"]
    for _ in range(8):
        stage.say("p", b"set jobs 0 0 9", b"new items")
    assert child.counters.discarded == 0
    assert drain(stage, b"jobs+c") == 208


def test_a_cursor_that_left_large_items_behind_is_not_full_for_their_sake() -> None:
    stage = ServerHarness()
    stage.set_queue(max_memory="4KiB")
    stage.set_queue("jobs+c", max_bytes="100KiB")
    for size in (1, 40_000, 40_000, *[1] * 20):
        assert stage.say("p", b"set jobs 0 0 %d" % size, b"x" * size) == b"STORED\r\n"
    stage.say("p", b"delete jobs+c/upto=3")
    for restarts in (False, True):
        for _ in range(5):
            stage.say("p", b"set jobs 0 0 1", b"x")
        if restarts:
            stage.kill()
        stage.say("p", b"set jobs 0 0 40000", b"x" * 40_000)
    assert drain(stage, b"jobs+c") == 32
