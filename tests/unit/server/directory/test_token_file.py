"""The file `tokens` remembers the tokens of deleted queues, even on a full disk and after a power
cut.

Promises: token, flipped-bit.
"""

from __future__ import annotations

import errno
import threading
from random import Random

import pytest

from journal.format.checkpoint import TOKENS_SKIPPED
from kestrelpy.core.policy import Policy
from kestrelpy.core.registry.token_floor import TOKENS_PER_MS
from kestrelpy.server.directory.token_file import (
    GENERATIONS_AHEAD,
    GENERATIONS_SKIPPED,
    TokenFile,
)
from kestrelpy.server.directory.word_file import content
from tests.support.disk_harness import NAME, DiskHarness
from tests.support.memory_disk import Fault, MemoryDisk, PowerCut
from tests.support.server_harness import ServerHarness

PATH = "data/tokens"


WALL_MS = 1_700_000_000_000


def laid() -> MemoryDisk:
    disk = MemoryDisk()
    disk.make_folder("data")
    return disk


def with_number(below: int) -> MemoryDisk:
    """A disk whose file holds this number."""
    disk = laid()
    file = TokenFile(disk, "data")
    file.read(WALL_MS)
    file.save(below)
    return disk


def test_a_fresh_server_begins_at_1_and_makes_the_file() -> None:
    disk = laid()
    file = TokenFile(disk, "data")
    assert file.read(WALL_MS) == ""
    assert file.below == 1
    assert disk.read(PATH) == content(b"1/0")


def test_a_saved_number_is_on_disk_and_a_lower_one_changes_nothing() -> None:
    disk = laid()
    file = TokenFile(disk, "data")
    file.read(WALL_MS)
    file.save(1 << 21)
    file.save(1 << 20)
    again = TokenFile(disk.crash_clone(Random(0), "lost"), "data")
    assert again.read(WALL_MS) == ""
    assert again.below == 1 << 21


def test_the_highest_tokens_and_generations_are_saved() -> None:
    disk = with_number(77)
    file = TokenFile(disk, "data")
    file.read(WALL_MS)
    file.save(5, 1_700_000_002)
    file.save(78, 1_700_000_001)
    assert disk.read(PATH) == content(b"78/%d" % (1_700_000_002 + GENERATIONS_AHEAD))
    again = TokenFile(disk.crash_clone(Random(0), "lost"), "data")
    assert again.read(WALL_MS) == ""
    assert (again.below, again.generation) == (78, 1_700_000_002 + GENERATIONS_AHEAD)


def test_a_queue_that_is_made_and_deleted_again_and_again_is_written_once_a_while() -> None:
    disk = with_number(77)
    file, began = TokenFile(disk, "data"), 1_700_000_000
    file.read(WALL_MS)
    before, rounds = disk.trace.count("sync tokens"), 3 * (GENERATIONS_AHEAD + 1)
    for generation in range(began, began + rounds):
        file.save(1, generation)
        crashed = TokenFile(disk.crash_clone(Random(0), "lost"), "data")
        crashed.read(WALL_MS)
        assert crashed.generation >= generation, "it is on disk before the queue's files go"
    assert disk.trace.count("sync tokens") == before + 2 * 3, "each copy, three times"
    file.save(78, began)
    assert disk.read(PATH).startswith(b"78/"), "tokens are saved each time"


def test_numbers_saved_by_many_threads_are_written_together() -> None:
    disk = with_number(1)
    file = TokenFile(disk, "data")
    file.read(WALL_MS)
    with file._writing:  # one of them is being written
        threads = [threading.Thread(target=file.save, args=(n, n)) for n in range(2, 42)]
        for thread in threads:
            thread.start()
        while file._wanted != (41, 41):
            pass
        before = disk.trace.count("sync tokens")
    for thread in threads:
        thread.join()
    assert disk.trace.count("sync tokens") == before + 2, "each copy once"
    assert (file.below, file.generation) == (41, 41 + GENERATIONS_AHEAD)


@pytest.mark.parametrize("place", [0, 4096])
def test_every_flipped_bit_of_a_copy_is_named_and_mended(place: int) -> None:
    kept, whole = with_number(1048577), content(b"1048577/0")
    for at in range(place, place + 512):
        for bit in range(8):
            disk = kept.kill_clone()
            disk.damage(PATH, at, bytes([whole[at] ^ 1 << bit]))
            file = TokenFile(disk, "data")
            assert file.read(WALL_MS) == (
                f"{PATH}: one of its two copies was damaged; the other one holds, 1048577/0"
            )
            assert file.below == 1048577
            assert disk.read(PATH) == whole


def test_bytes_between_the_copies_are_not_read() -> None:
    disk = with_number(1048577)
    disk.damage(PATH, 600, b"x" * 3000)
    file = TokenFile(disk, "data")
    assert file.read(WALL_MS) == ""
    assert file.below == 1048577


def test_a_block_that_the_disk_has_lost_is_a_damaged_copy() -> None:
    disk = with_number(1048577)
    disk.faults.append(Fault("read", PATH, times=2))  # as a whole, and of its first block
    file = TokenFile(disk, "data")
    assert "one of its two copies was damaged" in file.read(WALL_MS)
    assert file.below == 1048577


def test_when_both_copies_are_damaged_numbering_goes_on_above_all_that_was_issued() -> None:
    disk = with_number(1048577)
    disk.damage(PATH, 0, b"0")
    disk.damage(PATH, 4096, b"0")
    file = TokenFile(disk, "data")
    begin = WALL_MS * TOKENS_PER_MS
    assert file.read(WALL_MS) == (
        f"{PATH}: both copies are damaged; new queues begin with token {begin}"
    )
    assert file.below == begin < 1 << 53
    assert file.generation == WALL_MS // 1000 + GENERATIONS_SKIPPED
    again = TokenFile(disk.crash_clone(Random(0), "lost"), "data")
    assert again.read(WALL_MS - 1) == ""
    assert again.below == begin


def test_a_clock_that_stands_in_the_past_is_not_trusted_below_what_a_journal_knows() -> None:
    disk = laid()
    disk.create(PATH, b"", 8192)
    file = TokenFile(disk, "data")
    assert file.read(0) == f"{PATH}: both copies are damaged; new queues begin with token {1 << 32}"
    file.rise_above(1 << 40)
    assert file.below == (1 << 40) + TOKENS_SKIPPED


def test_a_number_that_is_whole_does_not_rise_with_those_of_the_journals() -> None:
    file = TokenFile(with_number(77), "data")
    file.read(WALL_MS)
    file.rise_above(1 << 40)
    assert file.below == 77


def test_a_power_cut_at_any_verb_leaves_the_number_before_or_the_one_after() -> None:
    whole, found = with_number(1 << 20), set[int]()
    for step in range(1, 99):
        for seed in range(5):
            disk = whole.kill_clone()
            file = TokenFile(disk, "data")
            file.read(WALL_MS)
            disk.cut_power_at(step)
            try:
                file.save(1 << 21)
            except PowerCut:
                again = TokenFile(disk.crash_clone(Random(seed)), "data")
                assert again.read(WALL_MS) == "", "no accident looks like damage"
                found.add(again.below)
            else:
                assert found == {1 << 20, 1 << 21}
                return
    raise AssertionError("it never ended")


def test_a_file_of_an_earlier_version_is_read_and_written_anew() -> None:
    disk = laid()
    disk.create(PATH, b"1048577" + b" " * 24 + b"\n", 32)
    file = TokenFile(disk, "data")
    assert file.read(WALL_MS) == ""
    assert file.below == 1048577
    assert disk.crash_clone(Random(0), "lost").read(PATH) == content(b"1048577/0")


def test_a_file_of_an_earlier_version_is_written_over_on_a_full_disk() -> None:
    disk = laid()
    disk.create(PATH, b"1048577" + b" " * 24 + b"\n", 32)
    disk.faults.append(Fault("create", "*", error=errno.ENOSPC, times=2))
    file = TokenFile(disk, "data")
    assert file.read(WALL_MS) == ""
    file.save(1048578)
    written = b"1048578" + b" " * 24 + b"\n"
    assert disk.read(PATH) == disk.crash_clone(Random(0), "lost").read(PATH) == written
    file.save(1048579)
    assert disk.read(PATH) == content(b"1048579/0"), "there is room again"


@pytest.mark.parametrize("text", [b"x1", b"0048577", b"1048577\x00", b"9" * 31, b""])
def test_a_file_of_an_earlier_version_that_is_no_number_is_named(text: bytes) -> None:
    disk = laid()
    disk.create(PATH, text + b" " * (31 - len(text)) + b"\n", 32)
    file = TokenFile(disk, "data")
    begin = WALL_MS * TOKENS_PER_MS
    assert file.read(WALL_MS) == (
        f"{PATH}: the number is damaged; new queues begin with token {begin}"
    )
    assert disk.read(PATH) == content(b"%d/%d" % (begin, WALL_MS // 1000 + GENERATIONS_SKIPPED))


def test_it_is_written_over_in_place_so_that_a_full_disk_does_not_matter() -> None:
    disk = laid()
    file = TokenFile(disk, "data")
    file.read(WALL_MS)
    disk.faults.append(Fault("create", "*", error=errno.ENOSPC, times=100))
    file.save(77)
    assert file.below == 77


def test_a_start_on_a_full_disk_needs_no_such_file() -> None:
    disk = laid()
    disk.faults.append(Fault("create", "*", error=errno.ENOSPC, times=1))
    file = TokenFile(disk, "data")
    assert file.read(WALL_MS) == ""
    file.save(77)
    assert disk.read(PATH) == content(b"77/0")


def test_on_a_full_disk_a_queue_goes_whose_tokens_were_never_issued() -> None:
    disk = laid()
    disk.faults.append(Fault("create", "*", error=errno.ENOSPC, times=3))
    file = TokenFile(disk, "data")
    file.read(WALL_MS)
    file.save(1, 1_700_000_001)
    with pytest.raises(OSError, match="No space left"):
        file.save(77, 1_700_000_002)
    file.save(1, 1_700_000_003)
    ahead = 1_700_000_003 + GENERATIONS_AHEAD
    assert disk.read(PATH) == content(b"77/%d" % ahead), "there is room again"


def test_a_disk_that_fails_otherwise_is_no_start() -> None:
    disk = laid()
    disk.faults.append(Fault("create", "*", error=errno.EIO))
    with pytest.raises(OSError):
        TokenFile(disk, "data").read(WALL_MS)


def issued(life: DiskHarness) -> int:
    life.put(b"one")
    lease = life.open(lease_ms=60_000)
    assert lease is not None
    life.commit()
    return lease.token


def test_the_number_is_on_disk_before_the_queue_s_folder_goes() -> None:
    life = DiskHarness(Policy())
    token = issued(life)
    queue = life.jobs
    life.broker.delete(NAME, life.now_ms)
    disk = life.disk
    disk.faults.append(Fault("sync", PATH))
    with pytest.raises(OSError):
        life.directory.remove_queue(queue)
    assert any(name.startswith("jobs.") for name in disk.names("data")), "it is still there"
    life.directory.remove_queue(queue)
    assert not any(name.startswith("jobs.") for name in disk.names("data"))
    again = DiskHarness(Policy(), disk=disk.kill_clone(), now_ms=life.now_ms + 1000)
    assert issued(again) > token


def test_a_number_that_was_damaged_does_not_let_a_token_be_issued_twice() -> None:
    life = DiskHarness(Policy())
    token = issued(life)
    queue = life.jobs
    life.broker.delete(NAME, life.now_ms)
    life.directory.remove_queue(queue)
    life.broker.create(NAME, life.now_ms)
    disk = life.disk.kill_clone()
    for at in (0, 4096):
        assert disk.read(PATH, at, 1) == b"1"
        disk.damage(PATH, at, b"0")
    again = DiskHarness(Policy(), disk=disk, now_ms=life.now_ms + 1000)
    assert "both copies are damaged" in again.found.notes[0]
    assert issued(again) > token


def test_a_queue_made_again_and_never_written_does_not_lose_the_tokens_of_the_one_before() -> None:
    life = DiskHarness(Policy())
    token = issued(life)
    life.broker.delete(NAME, life.now_ms)
    made = life.broker.create(NAME, life.now_ms)
    life.disk.make_folder(life.directory.folder(made))
    again = DiskHarness(Policy(), disk=life.disk.kill_clone(), now_ms=life.now_ms + 1000)
    assert issued(again) > token


@pytest.mark.parametrize("end", ["restart", "kill", "cut_power"])
@pytest.mark.parametrize("back_ms", [0, 3_600_000])
def test_no_generation_comes_twice_within_a_second_over_a_restart(end: str, back_ms: int) -> None:
    stage = ServerHarness()
    seen = set[int]()
    for _ in range(5):
        for _ in range(3):
            assert stage.say("ann", b"set jobs 0 0 1", b"1") == b"STORED\r\n"
            generation = stage.queue("jobs").generation
            assert generation not in seen
            seen.add(generation)
            assert stage.say("ann", b"delete jobs") == b"DELETED\r\n"
        stage.broker.step_clock(stage.broker.clock.offset_ms - back_ms)
        getattr(stage, end)()
