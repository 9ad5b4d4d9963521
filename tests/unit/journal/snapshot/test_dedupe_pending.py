"""Ids and versions between a put and a chunk: in the batch, or back here, and never nowhere."""

from __future__ import annotations

import pytest

from journal.sets.hash_table import ID
from journal.snapshot.dedupe_pending import Fresh, PendingEntries

ONE, TWO, THREE = (bytes([n]) * ID.size for n in (1, 2, 3))


def full() -> Fresh:
    fresh = Fresh()
    fresh.add_id(ONE)
    fresh.add_scoped(b"s", 1, ONE)
    fresh.add_key(ONE)
    return fresh


def test_a_batch_has_the_entries_oldest_first() -> None:
    fresh = full()
    fresh.add_id(TWO)
    fresh.add_scoped(b"s", 1, TWO)
    fresh.add_key(TWO)
    assert fresh.ids == 2

    batch = fresh.take()

    assert (batch.ids, batch.keys) == (ONE + TWO, ONE + TWO)
    assert batch.scoped == {b"s": (1, ONE + TWO)}
    assert fresh.ids == 0
    assert fresh.take().is_empty


@pytest.mark.parametrize("kind", ["ids", "scoped", "keys"])
def test_one_entry_of_any_kind_is_worth_writing(kind: str) -> None:
    batch = PendingEntries()
    assert batch.is_empty

    setattr(batch, kind, getattr(full().take(), kind))

    assert not batch.is_empty


def test_of_a_scope_the_ids_of_its_newest_epoch_are_remembered() -> None:
    fresh = full()

    fresh.add_scoped(b"s", 2, TWO)
    fresh.add_scoped(b"t", 1, THREE)

    assert fresh.take().scoped == {b"s": (2, TWO), b"t": (1, THREE)}


def test_a_batch_that_comes_back_stands_before_what_came_since() -> None:
    fresh = full()
    batch = fresh.take()
    fresh.add_id(TWO)
    fresh.add_key(TWO)
    fresh.add_scoped(b"s", 1, TWO)
    fresh.add_scoped(b"t", 1, THREE)

    fresh.give_back(batch)

    again = fresh.take()
    assert (again.ids, again.keys) == (ONE + TWO, ONE + TWO)
    assert again.scoped == {b"s": (1, ONE + TWO), b"t": (1, THREE)}


def test_ids_of_an_epoch_that_ended_meanwhile_do_not_come_back() -> None:
    fresh = full()
    batch = fresh.take()
    fresh.add_scoped(b"s", 2, TWO)

    fresh.give_back(batch)

    assert fresh.take().scoped == {b"s": (2, TWO)}


def test_a_forgotten_scope_has_no_ids_and_other_entries_stay() -> None:
    fresh = full()

    fresh.forget(b"s")
    fresh.forget(b"unknown")

    batch = fresh.take()
    assert (batch.ids, batch.scoped, batch.keys) == (ONE, {}, ONE)


def test_without_a_disk_nothing_is_stored_before_or_after() -> None:
    fresh = full()

    fresh.store_nothing()
    fresh.add_id(TWO)
    fresh.add_scoped(b"s", 1, TWO)
    fresh.add_key(TWO)

    assert fresh.take().is_empty
