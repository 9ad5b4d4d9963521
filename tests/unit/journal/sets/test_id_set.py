"""Sets of ids do what sets do, in little memory and bounded time."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from time import perf_counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal.sets.id_counts import PAGE_IDS, IdCounts
from journal.sets.id_set import IdSet

MILLIONS = 10_000_000


def set_of(*ids: int) -> IdSet:
    made = IdSet()
    for id_ in ids:
        made.add(id_)
    return made


def same(found: IdSet, expected: set[int], random: Random) -> None:
    """Check that the id set answers like a plain set."""
    assert list(found) == sorted(expected)
    assert len(found) == found.count == len(expected)
    top = max(expected, default=0) + 2
    for _ in range(5):
        first = random.randrange(1, top + 1)
        last = random.randrange(first, top + 2)
        assert (first in found) == (first in expected)
        part = {i for i in expected if first <= i <= last}
        assert list(found.between(first, last)) == sorted(part)
        assert found.count_between(first, last) == len(part)
        assert found.first_from(first) == min((i for i in expected if i >= first), default=0)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("span", [40, 3 * PAGE_IDS])
def test_it_does_what_a_plain_set_does(seed: int, span: int) -> None:
    random = Random(seed)
    found, expected, top = IdSet(), set[int](), 0
    for step in range(150):
        choice = random.randrange(8)
        if choice <= 2:
            top += 1
            found.add(top)
            expected.add(top)
        elif choice == 3:
            first = top + random.choice((1, 1, random.randrange(1, span)))
            top = first + random.randrange(span)
            found.add_range(first, top)
            expected |= set(range(first, top + 1))
        elif choice == 4 and top:
            id_ = random.randrange(1, top + 2)
            assert found.discard(id_) == (id_ in expected)
            expected.discard(id_)
        elif choice == 5 and top:
            low = random.randrange(1, top + 1)
            for id_ in range(low, min(low + span // 2, top) + 1):
                assert found.discard(id_) == (id_ in expected)
                expected.discard(id_)
        elif choice == 6 and top:
            id_ = random.randrange(1, top + 1)
            found.add(id_)
            expected.add(id_)
        elif expected and random.random() < 0.2:
            up_to = random.randrange(top + 1)
            stay = {i for i in expected if i <= up_to and random.random() < 0.1}
            found.retain_only(stay, up_to)
            expected = stay | {i for i in expected if i > up_to}
        if step % 10 == 0:
            same(found, expected, random)
            again = IdSet.decode(*found.encode())
            same(again, expected, random)
            copied = found.copy()
            copied.add(top + 1)
            assert top + 1 not in found
    same(found, expected, random)


def test_the_last_id_is_known_though_it_is_gone() -> None:
    found = set_of(1, 2, 3)
    for id_ in (1, 2, 3):
        found.discard(id_)
    assert (found.last, len(found), list(found)) == (3, 0, [])
    found.retain_only([], 3)
    assert found.last == 3


@pytest.mark.parametrize(
    ("ranges", "pages"), [(b"", b""), (bytes(15), b""), (b"\1" + bytes(31), b"")]
)
def test_what_was_never_encoded_is_refused(ranges: bytes, pages: bytes) -> None:
    with pytest.raises((ValueError, Exception)):
        IdSet.decode(ranges, pages)


def spread(gaps: int) -> IdSet:
    """Return ten million ids with this many gaps, at equal distances."""
    found = IdSet()
    found.add_range(1, MILLIONS)
    for at in range(gaps):
        found.discard(MILLIONS - at * (MILLIONS // gaps))
    return found


@pytest.mark.parametrize("gaps", [1, 2000])
def test_ten_million_ids_take_little_time(gaps: int) -> None:
    found = spread(gaps)
    for action in (
        lambda: found.first_from(1),
        lambda: found.first_from(MILLIONS // 2),
        lambda: found.between(MILLIONS // 2, MILLIONS // 2 + 100_000),
        lambda: found.count_between(5, MILLIONS - 5),
        found.copy,
        lambda: found.copy().retain_only([5, MILLIONS // 2], MILLIONS),
        lambda: found.discard(MILLIONS // 3),
    ):
        best = 1e9
        for _ in range(3):
            began = perf_counter()
            action()
            best = min(best, perf_counter() - began)
        assert best < 0.05


def test_numbers_of_ids_are_stored_and_taken_out() -> None:
    for seed in range(10):
        random = Random(seed)
        found, expected = IdCounts(), dict[int, int]()
        for _ in range(400):
            id_ = random.randrange(1, 3 * PAGE_IDS)
            count = random.choice((0, 1, 2, 254, 255, 256, 70_000))
            found.set(id_, count)
            expected[id_] = count
            assert found.get(id_) == count
        expected = {i: n for i, n in expected.items() if n}
        for each in (found, found.copy(), IdCounts.decode(*found.encode())):
            assert dict(each.items()) == expected
            assert list(each.items()) == sorted(each.items())
            assert len(each) == len(expected)
        for id_ in expected:
            found.set(id_, 0)
        assert not found
        assert not found._large


@pytest.mark.parametrize("seed", range(20))
def test_those_without_others_are_found_page_by_page(seed: int) -> None:
    random = Random(seed)
    sets = []
    for _ in range(2):
        made, model = IdSet(), set[int]()
        for first in range(1, random.randrange(2, 40_000), 7000):
            made.add_range(max(first, made.last + 1), made.last + random.randrange(9000))
        model.update(made)
        for id_ in random.sample(sorted(model), len(model) // 3 if random.random() < 0.7 else 0):
            made.discard(id_)
            model.discard(id_)
        sets.append((made, model))
    (one, in_one), (other, in_other) = sets
    rest = in_one - in_other
    assert set(one.without(other)) == rest
    assert len(one.without(other)) == len(rest)
    for id_ in (1, 2, 4095, 4096, 5000, 12_288, 40_000):
        behind = [i for i in rest if i >= id_]
        assert one.first_without(id_, other) == min(behind, default=0)
    left = one.without(other)
    left.add(one.last + 5)
    assert left.first_from(one.last + 1) == one.last + 5, "it goes on as any other"


@given(
    ids=st.sets(st.integers(1, 3 * PAGE_IDS + 20), max_size=40),
    runs=st.lists(st.tuples(st.integers(1, 12_000), st.integers(0, 9000)), max_size=3),
    exceptions=st.sets(st.integers(1, 3 * PAGE_IDS + 20), max_size=20),
    first=st.integers(1, 3 * PAGE_IDS), width=st.integers(0, 3 * PAGE_IDS), keeps=st.booleans(),
)  # fmt: skip
def test_a_range_leaves_a_set_but_for_some(
    ids: set[int], runs: list[tuple[int, int]], exceptions: set[int], first: int, width: int,
    keeps: bool,
) -> None:
    everything = ids.union(*(range(low, low + many) for low, many in runs))
    made, but, last = IdSet(), IdSet(), first + width
    for id_ in sorted(everything):
        made.add(id_)
    for id_ in sorted(exceptions & everything):
        but.add(id_)
    part = made.between(first, last)
    within = {id_ for id_ in everything if first <= id_ <= last}
    assert set(part) == within
    assert part.count == made.count_between(first, last) == len(within)
    assert set(made.both(but)) == exceptions & everything
    made.discard_range(first, last, but if keeps else None)
    left = everything - within | (within & exceptions if keeps else set())
    assert list(made) == sorted(left)
    assert made.count == len(left)
    made.add(made.last + 1)
    assert made.count == len(left) + 1


PAGE = range(PAGE_IDS, 2 * PAGE_IDS)
MIDDLE = PAGE_IDS + PAGE_IDS // 2


def half_page() -> IdSet:
    """The lower half of the second page, as bits."""
    found = IdSet()
    found.add_range(PAGE_IDS, MIDDLE - 1)
    found.add(3 * PAGE_IDS)
    return found


def completed_one_by_one() -> IdSet:
    found = half_page()
    for id_ in range(MIDDLE, 2 * PAGE_IDS):
        found.add(id_)
    return found


def half_page_and_run() -> IdSet:
    """The lower half of the second page as bits, all that follows as the run."""
    found = IdSet()
    found.add_range(MIDDLE, 3 * PAGE_IDS)
    for id_ in range(PAGE_IDS, MIDDLE):
        found.add(id_)
    return found


def completed_by_the_run() -> IdSet:
    found = half_page_and_run()
    found.add(4 * PAGE_IDS)
    return found


def completed_in_a_difference() -> IdSet:
    return half_page_and_run().without(IdSet())


def completed_by_a_set_above() -> IdSet:
    found, above = IdSet(), IdSet()
    found.add_range(PAGE_IDS, MIDDLE - 1)
    above.add_range(MIDDLE, 2 * PAGE_IDS)
    above.add(4 * PAGE_IDS)
    found.add_above(above)
    return found


def completed_by_exceptions() -> IdSet:
    found, exceptions = half_page(), IdSet()
    exceptions.add_range(PAGE_IDS, 2 * PAGE_IDS - 1)
    found.discard_range(PAGE_IDS, 2 * PAGE_IDS - 1, exceptions)
    return found


@pytest.mark.parametrize(
    "made",
    [
        completed_one_by_one,
        completed_by_the_run,
        completed_in_a_difference,
        completed_by_a_set_above,
        completed_by_exceptions,
    ],
)
def test_a_page_that_becomes_whole_has_no_bits_left(made: Callable[[], IdSet]) -> None:
    found = made()

    assert found.word(1).bit_count() == PAGE_IDS
    assert list(found.between(PAGE.start, PAGE.stop - 1)) == list(PAGE)
    assert 1 not in found._bits
    assert list(IdSet.decode(*found.encode())) == list(found)


@pytest.mark.parametrize("seed", range(30))
def test_a_set_is_added_above_another(seed: int) -> None:
    random = Random(seed)
    ids, model, last = IdSet(), set[int](), 0
    for _ in range(12):
        other = IdSet()
        for _ in range(random.randrange(5)):
            first = last + random.choice([1, 1, 2, 5, 3000, 9000])
            last = first + random.choice([0, 1, 3, 4, 5, 2000, 9000])
            other.add_range(first, last)
            model.update(range(first, last + 1))
        ids.add_above(other)
        copy = sorted(model)
        assert list(ids) == copy
        assert ids.count == len(copy)
        for id_ in random.sample(copy, min(len(copy), 20)):
            assert ids.discard(id_)
            model.discard(id_)
        if random.random() < 0.5:
            last += 1
            ids.add(last)
            model.add(last)
