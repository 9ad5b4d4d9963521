"""The cadence of snapshots."""

from __future__ import annotations

import pytest

from journal.snapshot import is_due
from journal.snapshot.cadence import RECORDS_MAX, SEGMENTS_MIN


@pytest.mark.parametrize(("records", "leased", "segments", "due"), [
    (RECORDS_MAX - 1, 0, 0, False),
    (RECORDS_MAX, 0, 0, True),
    (RECORDS_MAX, RECORDS_MAX + 1, 0, False),  # the snapshot would be longer than the records
    (RECORDS_MAX + 1, RECORDS_MAX + 1, 0, True),
    (1, 0, SEGMENTS_MIN, False),
    (1, 0, SEGMENTS_MIN + 1, True),
    (1, RECORDS_MAX, SEGMENTS_MIN + 1, True),
])  # fmt: skip
def test_a_snapshot_is_due_after_many_records_or_a_sealed_segment(
    records: int, leased: int, segments: int, due: bool
) -> None:
    assert is_due(records, leased, segments) is due
