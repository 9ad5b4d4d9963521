"""The ids of rows are counted, and rows of one id compared."""

from __future__ import annotations

from kestrelpy.spark.jobs.backfill import Known


def test_ids_that_were_seen_are_counted_and_compared() -> None:
    known = Known()
    assert [known.occurrence(name) for name in (b"a", b"b", b"a", b"a")] == [0, 0, 1, 2]
    assert known.differs(b"7", b"one", "line 1") is None
    assert known.differs(b"7", b"one", "line 2") is None
    assert known.differs(b"7", b"two", "line 3") == "line 1"
    known.close()
