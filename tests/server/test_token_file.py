"""The file `tokens` remembers what deleted queues issued, a full disk or a power cut included."""

from __future__ import annotations

import errno
from random import Random

import pytest

from journal.checkpoint import TOKENS_SKIPPED
from kestrelpy.core.policy import Policy
from kestrelpy.server.token_file import TokenFile
from tests.support.life import NAME, Life
from tests.support.memory_disk import Fault, MemoryDisk

PATH = "data/tokens"


def laid() -> MemoryDisk:
    disk = MemoryDisk()
    disk.make_folder("data")
    return disk


def test_a_fresh_server_begins_at_1_and_makes_the_file() -> None:
    disk = laid()
    file = TokenFile(disk, "data")
    assert file.read() == ""
    assert file.below == 1
    assert disk.read(PATH) == b"1" + b" " * 30 + b"\n"


def test_what_was_kept_is_on_disk_and_a_lower_number_changes_nothing() -> None:
    disk = laid()
    file = TokenFile(disk, "data")
    file.read()
    file.keep(1 << 21)
    file.keep(1 << 20)
    again = TokenFile(disk.crash_clone(Random(0), "lost"), "data")
    assert again.read() == ""
    assert again.below == 1 << 21


def test_a_file_that_is_no_number_is_named_and_many_tokens_are_passed_over() -> None:
    disk = laid()
    disk.create(PATH, b"x1", 32)
    file = TokenFile(disk, "data")
    assert file.read() == f"{PATH}: not a number; new queues begin with token {TOKENS_SKIPPED}"
    assert file.below == TOKENS_SKIPPED


def test_it_is_written_over_in_place_so_that_a_full_disk_does_not_matter() -> None:
    disk = laid()
    file = TokenFile(disk, "data")
    file.read()
    disk.faults.append(Fault("create", "*", error=errno.ENOSPC, times=100))
    file.keep(77)
    assert file.below == 77


def test_a_start_on_a_full_disk_needs_no_such_file() -> None:
    disk = laid()
    disk.faults.append(Fault("create", "*", error=errno.ENOSPC, times=1))
    file = TokenFile(disk, "data")
    assert file.read() == ""
    file.keep(77)
    assert disk.read(PATH).startswith(b"77 ")


def test_a_disk_that_fails_otherwise_is_no_start() -> None:
    disk = laid()
    disk.faults.append(Fault("create", "*", error=errno.EIO))
    with pytest.raises(OSError):
        TokenFile(disk, "data").read()


def issued(life: Life) -> int:
    life.put(b"one")
    lease = life.open(lease_ms=60_000)
    assert lease is not None
    life.commit()
    return lease.token


def test_the_number_is_on_disk_before_the_queue_s_folder_goes() -> None:
    life = Life(Policy())
    token = issued(life)
    queue = life.queue
    life.broker.delete(NAME, life.now_ms)
    disk = life.disk
    disk.faults.append(Fault("sync", PATH))
    with pytest.raises(OSError):
        life.directory.remove_queue(queue)
    assert any(name.startswith("jobs.") for name in disk.names("data")), "it is still there"
    life.directory.remove_queue(queue)
    assert not any(name.startswith("jobs.") for name in disk.names("data"))
    again = Life(Policy(), disk=disk.kill_clone(), now_ms=life.now_ms + 1000)
    assert issued(again) > token


def test_a_queue_made_again_and_never_written_does_not_lose_the_tokens_of_the_one_before() -> None:
    life = Life(Policy())
    token = issued(life)
    life.broker.delete(NAME, life.now_ms)
    made = life.broker.create(NAME, life.now_ms)
    life.disk.make_folder(life.directory.folder(made))
    again = Life(Policy(), disk=life.disk.kill_clone(), now_ms=life.now_ms + 1000)
    assert issued(again) > token
