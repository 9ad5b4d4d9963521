"""A lease by token comes back from its records as it was."""

from __future__ import annotations

from typing import Any

import pytest

from journal.format.describe import sentence
from journal.format.kinds import Kind, Tag
from journal.format.lease import LeaseEntry, lease_entries
from journal.format.meta import encode_meta
from journal.format.record import Draft, Record

BEGUN = LeaseEntry(5, 77, 3, 1000, 12, 1000, 61_000)


def record(draft: Draft) -> Record:
    return Record(*draft[:8], 9, 1, 64, 128)


def test_what_leased_says_is_what_was_written() -> None:
    assert LeaseEntry.begun(record(BEGUN.leased())) == BEGUN
    assert sentence(record(BEGUN.leased())) == "leased 5 token 77 deadline_ms=61000 bytes=12"


def test_the_meta_is_what_any_reader_of_meta_expects() -> None:
    expected = {Tag.DEADLINE_MS: 61_000, Tag.BYTES: 12}
    assert BEGUN.leased().meta == encode_meta(dict(expected))
    assert BEGUN.renewal().meta == encode_meta({Tag.DEADLINE_MS: 61_000})


def test_a_renewal_moves_the_deadline_and_when_it_was_given() -> None:
    later = LeaseEntry(5, 77, 3, 1000, 12, 2000, 90_000)
    at_once = later._replace(runs_ms=95_000)
    assert BEGUN.renewed(record(at_once.renewal())) == at_once
    assert at_once.heard_ms == 7000, "the running clock was 5 s ahead of the wall clock"
    assert later.heard_ms == 0
    assert BEGUN.renewed(record(later.renewal())) == later
    assert sentence(record(later.renewal())) == "renewed 5 token 77 deadline_ms=90000"


def test_the_life_of_its_item_is_read_as_it_was_written_and_never_gets_shorter() -> None:
    lives = BEGUN._replace(expiry_ms=80_000)
    assert LeaseEntry.begun(record(lives.leased())) == lives
    later = lives.until(2000, 90_000, 99_000)
    assert lives.renewed(record(later.renewal())) == later
    assert later.until(3000, 91_000).expiry_ms == 99_000


@pytest.mark.parametrize("other", [{"item": 6}, {"number": 78}, {"meta": b""}])
def test_another_s_renewal_is_refused(other: dict[str, Any]) -> None:
    strange = BEGUN.renewal()._replace(**other)
    with pytest.raises(ValueError):
        BEGUN.renewed(record(strange))


def test_a_lease_without_deadline_or_size_is_refused() -> None:
    for meta in (b"", encode_meta({Tag.BYTES: 1}), encode_meta({Tag.DEADLINE_MS: 1})):
        with pytest.raises(ValueError, match="the lease of item 5 says no deadline or no size"):
            LeaseEntry.begun(record(BEGUN.leased()._replace(meta=meta)))


def test_a_snapshot_says_a_renewed_lease_in_two_records_and_another_in_one() -> None:
    later = BEGUN.renewed(record(LeaseEntry(5, 77, 3, 1000, 12, 2000, 90_000).renewal()))
    frames = [record(draft) for lease in (BEGUN, later) for draft in lease.drafts()]
    assert [frame.kind for frame in frames] == [Kind.LEASED, Kind.LEASED, Kind.RENEWED]
    assert lease_entries(frames) == [BEGUN, later]
