"""A disk that is asked again after a shortage, some times, and after nothing else."""

from __future__ import annotations

import errno

import pytest

from journal.files import SHORTAGE_ERRORS
from journal.patience import TRIES_MAX, patient_files
from tests.support.memory_disk import Fault, MemoryDisk

PATH = "data/file"


def disk_with(fault: Fault) -> MemoryDisk:
    disk = MemoryDisk()
    disk.make_folder("data")
    disk.create(PATH, b"there", 5).close()
    disk.faults = [fault]
    return disk


def short(times: int, error: int = errno.EMFILE) -> Fault:
    return Fault("read", times=times, error=error)


@pytest.mark.parametrize("error", sorted(SHORTAGE_ERRORS))
def test_a_shortage_is_waited_out_with_a_pause_before_each_new_try(error: int) -> None:
    pauses: list[int] = []
    files = patient_files(disk_with(short(3, error)), lambda: pauses.append(1))

    assert files.read(PATH, 1, 2) == b"he"
    assert len(pauses) == 3
    assert files.read(PATH) == b"there"
    assert len(pauses) == 3, "nothing is short any more"


def test_the_last_try_may_succeed() -> None:
    pauses: list[int] = []
    files = patient_files(disk_with(short(TRIES_MAX - 1)), lambda: pauses.append(1))

    assert files.read(PATH) == b"there"
    assert len(pauses) == TRIES_MAX - 1


def test_a_shortage_that_lasts_is_the_error_that_it_was() -> None:
    fault = short(1 << 30, errno.ENFILE)
    files = patient_files(disk_with(fault), lambda: None)

    with pytest.raises(OSError) as caught:
        files.read(PATH)

    assert caught.value.errno == errno.ENFILE
    assert fault.fired == TRIES_MAX


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOENT, errno.ENOSPC])
def test_any_other_error_is_raised_at_once(error: int) -> None:
    fault = short(9, error)
    pauses: list[int] = []
    files = patient_files(disk_with(fault), lambda: pauses.append(1))

    with pytest.raises(OSError):
        files.read(PATH)

    assert (fault.fired, pauses) == (1, [])
