"""The file `server-id`: damage is reported, and the journals name the server.

Promise: flipped-bit.
"""

from __future__ import annotations

import errno
from random import Random

import pytest

from kestrelpy.core.policy import Policy
from kestrelpy.server.directory.data_directory import DataDirectory
from kestrelpy.server.directory.server_id import make_server_id, read_server_id, take_server_id
from kestrelpy.server.directory.word_file import content
from tests.support.disk_harness import DiskHarness
from tests.support.journals import TINY
from tests.support.memory_disk import Fault, MemoryDisk

PATH = "data/server-id"
OURS = b"0123456789abcdef" * 2
OTHER = b"fedcba9876543210" * 2


def laid(server: bytes = OURS) -> MemoryDisk:
    disk = MemoryDisk()
    disk.make_folder("data")
    make_server_id(disk, "data", server)
    return disk


def with_journal() -> tuple[MemoryDisk, bytes]:
    """A data directory with a queue's journal, which opens with the server's id; this id."""
    life = DiskHarness(Policy())
    life.put(b"one")
    life.commit()
    return life.disk.kill_clone(), life.server_id.encode()


def test_an_id_is_made_once() -> None:
    disk = MemoryDisk()
    disk.make_folder("data")
    made, damaged = take_server_id(disk, "data")
    assert len(made) == 32
    assert not damaged
    assert take_server_id(disk.crash_clone(Random(0), "lost"), "data") == (made, "")
    assert read_server_id(disk, "data") == made


def test_every_flipped_bit_of_a_copy_is_named_and_mended() -> None:
    kept, whole = laid(), content(OURS)
    for at in (*range(512), *range(4096, 4608)):
        disk = kept.kill_clone()
        disk.damage(PATH, at, bytes([whole[at] ^ 1 << at % 8]))
        assert take_server_id(disk, "data") == (
            OURS.decode(), f"{PATH}: one of its two copies was damaged; the other one holds"
        )  # fmt: skip
        assert disk.read(PATH) == whole
        assert take_server_id(disk, "data") == (OURS.decode(), "")


def test_when_both_copies_are_damaged_the_journals_say_it() -> None:
    disk, ours = with_journal()
    for at in (0, 4096):
        disk.damage(PATH, at, b"x")
    assert take_server_id(disk, "data") == (
        ours.decode(),
        f"{PATH}: both copies damaged; this server is {ours.decode()}, as the journals say",
    )
    assert disk.read(PATH) == content(ours)


def test_when_the_file_is_missing_the_journals_say_it() -> None:
    disk, ours = with_journal()
    disk.remove(PATH)
    assert take_server_id(disk, "data") == (
        ours.decode(), f"{PATH}: missing; this server is {ours.decode()}, as the journals say",
    )  # fmt: skip
    assert disk.crash_clone(Random(0), "lost").read(PATH) == content(ours)
    assert take_server_id(disk, "data") == (ours.decode(), "")


def test_no_new_id_takes_the_place_of_a_missing_one_while_a_journal_cannot_be_read() -> None:
    disk, server = with_journal()
    disk.remove(PATH)
    disk.faults.append(Fault("read", "*.segment", times=1 << 30))
    with pytest.raises(OSError, match="Input/output error"):
        take_server_id(disk, "data")
    assert "server-id" not in disk.names("data")

    disk.faults.clear()
    assert take_server_id(disk, "data")[0] == server.decode()


def test_no_new_id_is_made_while_a_journal_that_may_name_it_cannot_be_read() -> None:
    disk, server = with_journal()
    disk.damage(PATH, 0, b"?")
    disk.damage(PATH, 4096, b"?")
    damaged = disk.read(PATH)
    disk.faults.append(Fault("read", "*.segment", times=1 << 30))
    with pytest.raises(OSError, match="Input/output error"):
        take_server_id(disk, "data")
    assert disk.read(PATH) == damaged

    disk.faults.clear()
    assert take_server_id(disk, "data")[0] == server.decode()


def test_without_a_journal_a_server_whose_id_is_lost_is_a_new_one_and_says_so() -> None:
    disk = laid()
    for at in (0, 4096):
        disk.damage(PATH, at, b"x")
    made, damaged = take_server_id(disk, "data")
    assert made != OURS.decode()
    assert damaged == (
        f"{PATH}: both copies damaged; this server is {made}, a new one, for no journal says it"
    )


def old(disk: MemoryDisk, text: bytes) -> None:
    disk.remove(PATH)
    disk.create(PATH, text, len(text)).close()


def test_a_file_of_an_earlier_version_is_read_and_written_anew() -> None:
    disk = laid()
    old(disk, OTHER + b"\n")
    assert read_server_id(disk, "data") == OTHER.decode()
    assert take_server_id(disk, "data") == (OTHER.decode(), "")
    assert disk.crash_clone(Random(0), "lost").read(PATH) == content(OTHER)


def test_a_file_of_an_earlier_version_stays_on_a_full_disk() -> None:
    disk = laid()
    old(disk, OTHER + b"\n")
    disk.faults.append(Fault("create", PATH, error=errno.ENOSPC))
    assert take_server_id(disk, "data") == (OTHER.decode(), "")
    assert disk.read(PATH) == OTHER + b"\n"


def test_a_flipped_bit_in_a_file_of_an_earlier_version_is_known_by_the_journals() -> None:
    kept, ours = with_journal()
    for at in range(len(ours)):
        for bit in range(8):
            disk = kept.kill_clone()
            old(disk, ours[:at] + bytes([ours[at] ^ 1 << bit]) + ours[at + 1 :] + b"\n")
            taken, damaged = take_server_id(disk, "data")
            assert taken == ours.decode()
            assert damaged.startswith(f"{PATH}: damaged")
            assert damaged.endswith(f"this server is {taken}, as the journals say")


def test_a_journal_of_another_server_does_not_rename_this_one() -> None:
    disk, _ = with_journal()
    old(disk, OTHER + b"\n")
    assert take_server_id(disk, "data") == (OTHER.decode(), "")


def test_a_start_names_the_damage() -> None:
    disk, _ = with_journal()
    disk.damage(PATH, 3, b"x")
    again = DiskHarness(Policy(), disk=disk)
    assert again.found.notes == [f"{PATH}: one of its two copies was damaged; the other one holds"]
    directory = DataDirectory(disk.kill_clone(), "data", TINY)
    directory.lock()
    assert directory.server_id == again.directory.server_id
