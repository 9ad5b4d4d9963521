"""A segment that the disk does not give at a start is not forgotten in the life that follows."""

from __future__ import annotations

import errno

import pytest

from kestrelpy.core.policy import Policy
from tests.support.disk_harness import DiskHarness
from tests.support.memory_disk import Fault

STORED = 12
LATER = 10


def segments(life: DiskHarness) -> list[str]:
    (folder,) = [name for name in life.disk.names("data") if name.startswith("jobs.")]
    return sorted(n for n in life.disk.names(f"data/{folder}") if n.endswith(".segment"))


@pytest.mark.parametrize("place", range(4))
def test_its_items_are_there_again_when_the_disk_gives_it_again(place: int) -> None:
    life = DiskHarness(Policy())
    for number in range(STORED):
        life.put(b"%d" % number * 100)
        life.commit()
    disk = life.disk.kill_clone()
    disk.faults = [
        Fault("read", f"*/{segments(life)[place]}", times=1_000_000, error=errno.EIO)
    ]

    without = DiskHarness(life.policy, life.sizes, disk, 0)
    assert without.damages
    for _ in range(LATER):
        without.put(b"x")
        without.commit()
        without.do_all()
    disk.faults = []

    without.kill()
    assert len(without.reader.live) == STORED + LATER
