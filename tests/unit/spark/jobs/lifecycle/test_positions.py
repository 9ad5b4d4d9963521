"""Which splits the next run reads, from what the last one noted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from journal.errors import ITEM_MAX
from kestrelpy.spark.errors import KestrelError
from kestrelpy.spark.files import History, PlannedJournal, Split
from kestrelpy.spark.jobs.lifecycle.positions import Read, as_json, from_json, what_is_new

IDENTITY = bytes(16)
NAME = IDENTITY.hex()


def split(segment: int, first: int, last: int, stop: int = 0) -> Split:
    return Split(f"/d/{segment}", IDENTITY, 1, segment, 4096, first, last, stop=stop)


def history(*splits: Split, synced: int = 0) -> History:
    journal = PlannedJournal(IDENTITY, "s", "jobs", 7, ["/d"], list(splits), lsn_synced=synced)
    return History([journal], [])


def first_run(*splits: Split, synced: int = 0) -> dict[str, Read]:
    return what_is_new(history(*splits, synced=synced), {}).read


def test_a_first_run_reads_everything_and_notes_where_it_ended() -> None:
    plan = what_is_new(history(split(1, 1, 10), split(2, 11, 15, stop=900), synced=12), {})

    assert [s.segment for s in plan.history.splits] == [1, 2]
    assert plan.read[NAME] == Read("s", "jobs", 7, 12, 15, journal=1, segment=2, stop=900)
    assert from_json(as_json(plan.read)) == plan.read


def test_the_next_run_goes_on_in_the_same_segment_at_the_place_after_the_last_record() -> None:
    before = first_run(split(1, 1, 10), split(2, 11, 15, stop=900), synced=12)

    plan = what_is_new(
        history(split(1, 1, 10), split(2, 11, 20), split(3, 21, 25), synced=25), before
    )

    second, third = plan.history.splits
    assert (second.segment, second.start, second.lsn_first) == (2, 900, 16)
    assert second.skip == ((1, 15),)
    assert (third.segment, third.start) == (3, split(3, 21, 25).start)
    assert plan.again_after == {NAME: 15}
    assert (plan.read[NAME].synced, plan.read[NAME].last) == (25, 25)


def test_records_that_a_power_cut_may_have_taken_are_read_again() -> None:
    """The segment ends before the last record that was read: the others may be new ones."""
    before = first_run(split(1, 1, 10), split(2, 11, 15, stop=900), synced=12)

    plan = what_is_new(history(split(1, 1, 10), split(2, 11, 13), split(3, 14, 16)), before)

    assert [(s.segment, s.skip) for s in plan.history.splits] == [
        (2, ((1, 12),)), (3, ((1, 12),)),
    ]  # fmt: skip
    assert plan.again_after == {NAME: 12}


def test_reclaimed_records_are_counted_and_what_was_stored_of_them_stays() -> None:
    before = first_run(split(1, 1, 10), split(2, 11, 15, stop=900), synced=12)

    plan = what_is_new(history(split(5, 31, 40)), before)

    assert [s.segment for s in plan.history.splits] == [5]
    assert plan.again_after == {NAME: ITEM_MAX}
    assert plan.read[NAME].missing == 15


def test_an_older_copy_is_not_read_and_another_generation_is_refused() -> None:
    before = first_run(split(1, 1, 10), split(2, 11, 15, stop=900), synced=12)

    assert what_is_new(history(split(1, 1, 10)), before).history.splits == []
    restored = history(split(1, 1, 20))
    restored.journals[0] = replace(restored.journals[0], generation=8)
    with pytest.raises(KestrelError, match="another history than the one that was read before"):
        what_is_new(restored, before)
