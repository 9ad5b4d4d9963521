"""Settings and metadata share one record, and are read as they were written."""

from __future__ import annotations

import pytest

from journal.format.declared import WITH_METADATA, declared_by, declared_draft
from journal.format.describe import sentence
from journal.format.record import Record


@pytest.mark.parametrize(
    ("settings", "metadata"),
    [(b"", b""), (b"a = 1\n", b""), (b"", b"{}"), (b"a = 1\n", b'{"b":2}')],
)
def test_both_are_read_as_they_were_written(settings: bytes, metadata: bytes) -> None:
    record = Record(*declared_draft(settings, metadata, 5)[:8], 9, 1, 64, 128)
    assert declared_by(record) == (settings, metadata)
    assert (record.small == WITH_METADATA) == bool(metadata)


def test_without_metadata_it_is_the_record_of_earlier_versions() -> None:
    draft = declared_draft(b"a = 1\n", b"", 5)
    assert (draft.small, draft.number, draft.body) == (0, 0, b"a = 1\n")


def test_a_dump_says_both() -> None:
    record = Record(*declared_draft(b"a = 1", b"{}", 5)[:8], 9, 1, 64, 128)
    assert sentence(record) == "declared a = 1 {}"
