"""The state of a queue by its journal alone."""

from __future__ import annotations

import pytest

from journal.errors import NewerFormat
from journal.format.kinds import Kind
from journal.format.record import Draft
from kestrelpy.spark.files.queue_state import FilesState
from tests.support.journals import FOLDER, TIME_MS, fresh
from tests.support.memory_disk import MemoryDisk


def test_it_has_what_the_records_leave_and_goes_on_after_the_last() -> None:
    disk = MemoryDisk()
    writer = fresh(disk)
    writer.put_all(b"one", b"two")
    writer.done(1)
    writer.commit()
    state = FilesState.read(disk, FOLDER)
    assert list(state.own.items) == [2]
    assert (state.lsn_next, state.snapshot_lsn, state.damages) == (4, 0, [])


@pytest.mark.parametrize("kind", [Kind.DONE_MANY, 39])
def test_a_kind_that_is_not_known_is_refused(kind: int) -> None:
    disk = MemoryDisk()
    writer = fresh(disk)
    writer.put_all(b"one")
    writer.journal.append(Draft(int(kind), 1, 0, 0, TIME_MS, b"", b"", 0, 0))
    writer.commit()
    with pytest.raises(NewerFormat, match=f"records of kind {int(kind)} are not known"):
        FilesState.read(disk, FOLDER)
