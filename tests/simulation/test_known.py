"""What was found and nobody has mended yet, each as short as it can be shown.

One rule: when a mistake is mended, its test says so (it is strict), and its name leaves `KNOWN` in
`ledger.py`: from then on no run of the simulation looks away from it.
"""

from __future__ import annotations

import errno

import pytest

from journal.errors import JournalFailed
from tests.simulation.ledger import KNOWN
from tests.support.journals import fresh, start
from tests.support.memory_disk import Fault, MemoryDisk


def test_what_the_simulation_looks_away_from_stands_here() -> None:
    assert {"synced again after a failed end"} == KNOWN


@pytest.mark.xfail(
    strict=True,
    reason="the last batch of an orderly end says that all is synced, so when its own sync fails "
    "the next start goes on in that very file, and syncs it again; no item is in that batch",
)
def test_a_file_whose_last_sync_failed_is_never_synced_again() -> None:
    disk = MemoryDisk()
    writer = fresh(disk)
    writer.put_all(b"a", b"b")
    writer.put(b"c")
    disk.faults = [Fault("sync", "*.segment", nth=2, error=errno.EIO)]
    with pytest.raises(JournalFailed):
        writer.close()
    disk.faults = []
    start(disk).put_all(b"d")
    assert disk.retried_syncs == []
