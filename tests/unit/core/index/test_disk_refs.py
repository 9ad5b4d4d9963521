"""Stubs leave by place, whatever happens to others of them."""

from __future__ import annotations

from random import Random

from kestrelpy.core.index.disk_refs import DiskRefs, pack, unpack
from kestrelpy.core.index.sorted_table import CHUNK_ENTRIES


def disk_refs_of(*positions: int) -> DiskRefs:
    """Item 100 + place at each place, of as many bytes as its place says."""
    made = DiskRefs()
    for place in positions:
        made.push(pack(place, 100 + place, place))
    return made


def popped(disk_refs: DiskRefs) -> list[int]:
    return [disk_refs.pop()[0] for _ in range(disk_refs.count)]


def test_a_stub_is_a_place_an_id_and_a_size() -> None:
    largest = (1 << 53) - 1, (1 << 53) - 2, (1 << 32) - 1
    assert unpack(pack(*largest)) == largest


def test_the_lowest_place_is_first() -> None:
    disk_refs = disk_refs_of(7, 3, 5)
    assert (disk_refs.first_place(), disk_refs.count, disk_refs.bytes) == (3, 3, 15)
    assert popped(disk_refs) == [3, 5, 7]
    assert (disk_refs.count, disk_refs.bytes) == (0, 0)


def test_what_is_being_read_keeps_its_turn() -> None:
    disk_refs = disk_refs_of(7, 3, 5)
    assert disk_refs.begin_fetch(below=7, most=9, bytes_most=99) == [103, 105]
    disk_refs.push(pack(4, 104, 4))
    assert (disk_refs.first_place(), disk_refs.first_in_line(), disk_refs.count) == (3, 4, 4)
    assert disk_refs.fetched(103) == 3
    assert (disk_refs.first_place(), disk_refs.count) == (4, 3)
    assert popped(disk_refs) == [4, 5, 7]


def test_so_many_are_read_at_once_as_there_is_room_for_and_one_in_any_case() -> None:
    assert disk_refs_of(7, 3, 5).begin_fetch(99, 9, 8) == [103, 105]
    assert disk_refs_of(7, 3, 5).begin_fetch(99, 9, 7) == [103]
    assert disk_refs_of(7, 3, 5).begin_fetch(99, 2, 99) == [103, 105]
    assert disk_refs_of(7).begin_fetch(99, 9, 0) == [107]
    assert disk_refs_of(7).begin_fetch(7, 9, 99) == []


def test_what_was_not_read_after_all_is_a_stub_as_before() -> None:
    disk_refs = disk_refs_of(7, 3, 5)
    disk_refs.begin_fetch(99, 2, 99)
    disk_refs.put_back()
    assert not disk_refs.is_fetching
    assert popped(disk_refs) == [3, 5, 7]


def test_a_removed_one_is_passed_over_be_it_read_at_the_moment() -> None:
    disk_refs = disk_refs_of(7, 3, 5, 4)
    disk_refs.begin_fetch(99, 2, 99)
    assert disk_refs.remove(103, 3)
    assert not disk_refs.remove(103, 3)
    assert disk_refs.remove(105, 5)
    assert disk_refs.fetched(103) == 0
    assert (disk_refs.count, disk_refs.bytes) == (2, 11)
    assert sorted(disk_refs) == [(4, 104, 4), (7, 107, 7)]
    assert popped(disk_refs) == [4, 7]


def test_removing_does_not_fill_the_memory() -> None:
    disk_refs = disk_refs_of(*range(1, 5001))
    for place in range(2, 5001):
        disk_refs.remove(100 + place, place)
    assert disk_refs._waiting.count <= CHUNK_ENTRIES
    assert popped(disk_refs) == [1]


def test_nothing_is_left_of_the_last_that_is_removed() -> None:
    disk_refs = disk_refs_of(2, 4, 3)
    for place in (3, 4, 2):
        assert disk_refs.remove(100 + place, place)
    assert (disk_refs.count, disk_refs.bytes, disk_refs._waiting.count) == (0, 0, 0)


def test_any_mixture_leaves_by_place() -> None:
    for seed in range(50):
        random, disk_refs, model = Random(seed), DiskRefs(), dict[int, int]()
        for place in range(1, 200):
            model[place] = random.randrange(9)
            disk_refs.push(pack(place, place, model[place]))
            choice = random.randrange(6)
            if choice == 0:
                found, _, size = disk_refs.pop()
                assert (found, size) == (min(model), model.pop(found)), f"seed {seed}"
            elif choice == 1 and not disk_refs.is_fetching:
                disk_refs.begin_fetch(10_000, random.randrange(1, 9), random.randrange(20))
            elif choice == 2:
                disk_refs.put_back()
            elif choice == 3 and model:
                gone = random.choice(sorted(model))
                assert disk_refs.remove(gone, model.pop(gone)), f"seed {seed}"
            elif choice == 4 and disk_refs.is_fetching:
                read = min(disk_refs._fetching)
                assert disk_refs.fetched(read) == read, f"seed {seed}"
                del model[read]
            assert {place for place, _, _ in disk_refs} == set(model), f"seed {seed}"
            held = disk_refs.count, disk_refs.bytes
            assert held == (len(model), sum(model.values())), f"seed {seed}"
