"""Small numbers for some ids do what a dict does, and take no room where there are none."""

from __future__ import annotations

from random import Random

import pytest

from journal.sets.id_counts import PAGE_IDS, IdCounts
from journal.sets.id_set import IdSet

COUNTS = (0, 0, 1, 2, 254, 255, 256, 1 << 40)


def counts_of(numbers: dict[int, int]) -> IdCounts:
    made = IdCounts()
    for id_, count in numbers.items():
        made.set(id_, count)
    return made


@pytest.mark.parametrize("seed", range(8))
def test_it_does_what_a_dict_does(seed: int) -> None:
    random = Random(seed)
    found, expected = IdCounts(), dict[int, int]()
    for _ in range(400):
        id_, count = random.randrange(1, 3 * PAGE_IDS), random.choice(COUNTS)
        id_ = random.choice([id_, *expected])
        found.set(id_, count)
        expected.pop(id_, None)
        if count:
            expected[id_] = count
        assert found.get(id_) == count
    assert list(found.items()) == sorted(expected.items())
    assert len(found) == len(expected)
    assert bool(found) == bool(expected)
    assert list(IdCounts.decode(*found.encode()).items()) == sorted(expected.items())


def test_a_page_whose_last_number_went_takes_no_room() -> None:
    found = counts_of({5: 1, 6: 300})

    for id_ in (5, 6, 7):
        found.set(id_, 0)

    assert not found
    assert found.encode() == (b"", b"")


def test_what_was_decoded_is_changed_like_what_was_set() -> None:
    found = IdCounts.decode(*counts_of({1: 3, 2: 255}).encode())

    found.set(2, 4)
    found.set(1, 0)

    assert list(found.items()) == [(2, 4)]
    assert len(found) == 1
    found.set(2, 0)
    assert not found


def test_a_copy_changes_on_its_own() -> None:
    one = counts_of({1: 3, 2: 1000})
    other = one.copy()

    other.set(1, 7)
    other.set(2, 0)

    assert list(one.items()) == [(1, 3), (2, 1000)]
    assert list(other.items()) == [(1, 7)]
    assert not IdCounts().copy()


def test_all_but_the_given_ids_are_set_to_0_up_to_the_last() -> None:
    above = 2 * PAGE_IDS + 9
    found = counts_of({1: 1, 2: 255, 3: 1000, PAGE_IDS: 2, PAGE_IDS + 1: 300, above: 400})
    kept = IdSet()
    for id_ in (2, PAGE_IDS + 1, above):
        kept.add(id_)

    found.retain_only(kept, PAGE_IDS + 1)

    assert list(found.items()) == [(2, 255), (PAGE_IDS + 1, 300), (above, 400)]
    assert len(found) == 3
    found.retain_only(IdSet(), above)
    assert not found
    assert found.encode() == (b"", b"")
