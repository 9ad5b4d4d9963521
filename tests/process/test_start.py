"""A start with very many queues: its work for each of them, and the objects that it leaves."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator

import pytest

from journal.recovery.recovery import Recovery
from kestrelpy.core.replay.replay import Replay
from kestrelpy.core.replay.subscription_replay import SubscriptionReplay
from tests.support.memory_disk import MemoryDisk
from tests.support.server_harness import ServerHarness

QUEUES = 20


@pytest.fixture
def uncollected() -> Iterator[None]:
    """The garbage collector does nothing, as during a start."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def many_queues() -> ServerHarness:
    stage = ServerHarness()
    for number in range(QUEUES):
        stage.say("a", b"set q%d 0 0 1" % number, b"x")
    return stage


def test_a_start_lists_the_folder_of_each_queue_once(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = many_queues()
    listed: Counter[str] = Counter()
    names = MemoryDisk.names

    def count(disk: MemoryDisk, folder: str) -> list[str]:
        listed[folder] += 1
        return names(disk, folder)

    monkeypatch.setattr(MemoryDisk, "names", count)
    stage.restart()

    of_queues = [times for folder, times in listed.items() if folder.startswith("data/q")]
    assert of_queues == [1] * QUEUES
    assert stage.found.queues == QUEUES


def test_a_start_reads_the_segment_of_an_unused_queue_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = many_queues()
    reads: Counter[str] = Counter()
    read = MemoryDisk.read

    def count(disk: MemoryDisk, path: str, offset: int = 0, size: int = -1) -> bytes:
        reads[path] += 1
        return read(disk, path, offset, size)

    monkeypatch.setattr(MemoryDisk, "read", count)
    stage.restart()

    of_queues = [times for path, times in reads.items() if path.startswith("data/q")]
    assert of_queues == [2] * QUEUES, "for its records, and for the first bodies"


def test_a_start_leaves_no_circles_for_the_garbage_collector(uncollected: None) -> None:
    stage = many_queues()
    stage.say("a", b"get q0+child/peek")
    stage.restart()

    kinds = Replay | SubscriptionReplay | Recovery
    left = [each for each in gc.get_objects() if isinstance(each, kinds)]
    assert left == []
