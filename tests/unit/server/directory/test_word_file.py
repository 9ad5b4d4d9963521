"""A file with one word, twice: one copy is whole at any moment."""

from __future__ import annotations

import errno
from contextlib import suppress
from random import Random

import pytest

from kestrelpy.server.directory.word_file import FILE_BYTES, NOTHING, Copies, WordFile, content
from tests.support.memory_disk import Fault, MemoryDisk, PowerCut

PATH = "data/word"
COPIES = (0, 4096)


def made(word: bytes = b"first") -> tuple[MemoryDisk, WordFile]:
    disk = MemoryDisk()
    disk.make_folder("data")
    file = WordFile(disk, PATH)
    file.make(word)
    return disk, file


def test_a_file_that_was_made_holds_the_word_twice() -> None:
    disk, file = made()

    assert file.is_there
    assert file.read().whole == [b"first", b"first"]
    assert disk.size(PATH) == FILE_BYTES == len(content(b"first"))
    assert disk.read(PATH).startswith(b"first ")
    assert not WordFile(disk, "data/other").is_there


@pytest.mark.parametrize("at", [0, 4, 6, 300, 511])
@pytest.mark.parametrize("copy", [0, 1])
def test_a_flipped_bit_of_a_copy_damages_that_copy_alone(copy: int, at: int) -> None:
    disk, file = made()
    disk.damage(PATH, COPIES[copy] + at, bytes([disk.read(PATH)[COPIES[copy] + at] ^ 1]))

    found = file.read()

    assert found.words[copy] is None
    assert found.words[1 - copy] == b"first"
    assert found.whole == [b"first"]


def test_what_stands_between_the_copies_is_not_read() -> None:
    disk, file = made()
    disk.damage(PATH, 512, b"?" * 3584)

    assert file.read().whole == [b"first", b"first"]


@pytest.mark.parametrize("seed", range(20))
def test_a_power_cut_at_any_step_leaves_the_old_word_or_the_new_one(seed: int) -> None:
    steps = 0
    for step in range(1, 20):
        disk, file = made()
        before = file.read()
        disk.cut_power_at(step)
        with suppress(PowerCut):
            file.write(b"second", before)
            break
        steps += 1
        found = WordFile(disk.crash_clone(Random(seed)), PATH).read()
        assert found.whole
        assert set(found.whole) <= {b"first", b"second"}
    assert steps >= 4, "two writes, two syncs"


def test_a_word_is_on_disk_when_it_was_written() -> None:
    disk, file = made()

    file.write(b"second")

    assert WordFile(disk.crash_clone(Random(1), "lost"), PATH).read().whole == [b"second"] * 2


def test_a_copy_that_holds_the_word_is_not_touched() -> None:
    disk, file = made()
    disk.damage(PATH, COPIES[1], b"?")
    writes = Fault("write", PATH, nth=99)
    disk.faults = [writes]

    file.repair(file.read(), b"first")

    assert writes.seen == 1
    assert file.read().whole == [b"first", b"first"]


@pytest.mark.parametrize("old", [b"x" * 32, b"x" * 32 + b"\n", b""])
def test_a_file_of_an_earlier_version_is_given_as_it_is_and_made_anew(old: bytes) -> None:
    disk = MemoryDisk()
    disk.make_folder("data")
    disk.create(PATH, old, len(old)).close()
    file = WordFile(disk, PATH)

    found = file.read()
    assert found == Copies((), old)
    assert found.whole == []
    file.repair(found, b"word")

    assert file.read().whole == [b"word", b"word"]


def test_bytes_that_the_disk_has_lost_are_damaged_and_any_other_error_is_raised() -> None:
    disk, file = made()
    disk.faults = [Fault("size", PATH, error=errno.EIO)]
    assert file.read() == NOTHING

    disk.faults = [Fault("size", PATH, error=errno.EACCES)]
    with pytest.raises(OSError, match="denied"):
        file.read()
