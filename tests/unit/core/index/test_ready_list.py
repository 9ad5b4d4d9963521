"""The ready list: the next item is the one with the lowest place, in memory or on disk."""

from __future__ import annotations

from random import Random

import pytest

from kestrelpy.core.index.disk_refs import pack
from kestrelpy.core.index.ready_list import ITEM_COST, NO_FRONTIER, Ready
from kestrelpy.core.item import Item
from kestrelpy.core.timers import Timers
from kestrelpy.core.trash import Trash
from tests.support.steps import Work


def item(number: int, size: int = 1) -> Item:
    return Item(number, number, b"x" * size, 0, 0, 0)


def line_of(count: int) -> tuple[Ready, list[Item]]:
    line, items = Ready(), [item(n) for n in range(1, count + 1)]
    for each in items:
        line.push(each)
    return line, items


def popped(line: Ready) -> list[int]:
    """Pop all items that are left; return their ids in order."""
    ids = []
    while (first := line.pop()) is not None:
        ids.append(first[1].id)
    return ids


def test_items_leave_oldest_first() -> None:
    line, _ = line_of(3)
    assert popped(line) == [1, 2, 3]


def test_an_empty_line_has_no_first() -> None:
    line = Ready()
    assert line.pop() is None
    assert line.first() is None


def test_what_came_back_stands_before_everything_younger() -> None:
    line, _ = line_of(4)
    first, second = line.pop(), line.pop()
    assert first is not None
    assert second is not None
    line.put_back(*second)
    line.put_back(*first)
    assert line.first() is first[1]
    assert popped(line) == [1, 2, 3, 4]


def test_a_removed_item_is_passed_over() -> None:
    line, items = line_of(4)
    line.remove(items[1])
    line.remove(items[2])
    assert [each.id for each in line] == [1, 4]
    assert popped(line) == [1, 4]


def test_the_first_can_be_removed() -> None:
    line, items = line_of(2)
    line.remove(items[0])
    assert line.first() is items[1]


def test_an_item_that_came_back_can_be_removed() -> None:
    line, _ = line_of(3)
    first = line.pop()
    assert first is not None
    line.put_back(*first)
    line.remove(first[1])
    assert line.first() is not first[1]
    assert popped(line) == [2, 3]


def test_a_removed_item_may_come_back_before_it_was_passed_over() -> None:
    line, items = line_of(3)
    line.remove(items[1])
    line.put_back(2, items[1])
    assert [each.id for each in line].count(2) == 1
    assert popped(line) == [1, 2, 3]


def test_a_removed_item_that_comes_back_stands_at_its_new_place() -> None:
    line, (first, second, third) = Ready(), (item(1), item(2), item(3))
    for place, each in ((5, first), (3, second), (9, third)):
        line.put_back(place, each)
    line.remove(first)
    line.put_back(1, first)
    assert popped(line) == [1, 2, 3]


def test_the_line_counts_items_and_bytes_of_their_bodies() -> None:
    line = Ready()
    for number, size in enumerate((3, 0, 5), 1):
        line.push(item(number, size))
    assert (line.count, line.bytes) == (3, 8)
    line.pop()
    assert (line.count, line.bytes) == (2, 5)


def test_clearing_leaves_nothing_behind() -> None:
    line, items = line_of(5)
    first = line.pop()
    assert first is not None
    line.put_back(*first)
    line.remove(items[3])
    line.clear(Trash(Timers()))
    assert list(line) == []
    assert (line.count, line.bytes, popped(line)) == (0, 0, [])
    line.push(item(9))
    assert popped(line) == [9]


def test_removing_from_the_middle_does_not_fill_the_memory() -> None:
    line, items = line_of(10_000)
    for each in items[1:]:  # the first stays, so nothing is passed over at the front
        line.remove(each)
    assert len(line._swept) + len(line._line) <= 400
    assert len(line._removed) <= 100
    assert popped(line) == [1]


@pytest.mark.parametrize("is_back", [False, True])
def test_a_removal_from_the_middle_costs_the_same_however_long_the_line_is(is_back: bool) -> None:
    line, items = line_of(20_000)
    if is_back:
        for place, each in [found for _ in items if (found := line.pop()) is not None]:
            line.put_back(place, each)
    gone, steps = items[1:], list[int]()
    Random(1).shuffle(gone)
    for number, each in enumerate(gone[:15_000]):
        with Work() as work:
            line.remove(each)
            if number % 3 == 0:
                line.put_back(each.id, each)  # before it is passed over
                line.remove(each)
        steps.append(work.steps)
    assert max(steps) < 1000
    left = {each.id for each in items} - {each.id for each in gone[:15_000]}
    assert {each.id for each in line} == left
    assert all(line.at(each.id) is (each if each.id in left else None) for each in items[:500])
    assert popped(line) == sorted(left)


@pytest.mark.parametrize("is_back", [False, True])
def test_bodies_of_removed_items_do_not_fill_the_memory(is_back: bool) -> None:
    line, size = Ready(), 100_000
    items = [item(1), *(item(number, size) for number in range(2, 62))]
    for each in items:
        line.push(each)
    if is_back:
        leased = [first for _ in items if (first := line.pop()) is not None]
        for place, each in leased:
            line.put_back(place, each)
    for removed, each in enumerate(items[1:], 1):
        line.remove(each)
        kept = sum(each.size for each in [*line._swept, *line._line])
        kept += sum(i.size for _, i in line._returned)
        assert kept - line.bytes <= max(line.cost, size), f"after {removed}"
    assert popped(line) == [1]


def test_any_mixture_leaves_by_place() -> None:
    for seed in range(50):
        random = Random(seed)
        line = Ready()
        model: dict[int, Item] = {}
        out: dict[int, Item] = {}
        number = 0
        for _ in range(300):
            choice = random.randrange(5)
            if choice <= 1:
                number += 1
                model[number] = item(number, random.randrange(9))
                line.push(model[number])
            elif choice == 2:
                found = line.pop()
                if found is None:
                    assert not model, f"seed {seed}"
                else:
                    assert found[0] == min(model), f"seed {seed}"
                    out[found[0]] = model.pop(found[0])
            elif choice == 3 and out:
                place = random.choice(sorted(out))
                model[place] = out.pop(place)
                line.put_back(place, model[place])
            elif choice == 4 and model:
                line.remove(model.pop(random.choice(sorted(model))))
            assert line.count == len(model), f"seed {seed}"
            assert line.bytes == sum(len(i.body) for i in model.values()), f"seed {seed}"
            assert {i.id for i in line} == set(model), f"seed {seed}"
            first = line.first()
            assert (first.id if first else None) == min(model, default=None), f"seed {seed}"
        assert popped(line) == sorted(model), f"seed {seed}"
        line.push(item(number + 1))
        line.pop()
        # What was removed is forgotten when it is passed over.
        assert (len(line._removed), line._removed_bytes) == (0, 0), f"seed {seed}"


# -- the frontier --------------------------------------------------------------------------------


def check(line: Ready) -> None:
    assert all(each.id < line.frontier for each in line)
    assert len(list(line)) == line.resident
    assert (line.frontier == NO_FRONTIER) == (line.beyond == 0)


def test_the_youngest_are_let_go_and_counted_still() -> None:
    line, _ = line_of(10)
    gone = line.evict(4 * (ITEM_COST + 1))
    assert sorted(each.id for each in gone) == [5, 6, 7, 8, 9, 10]
    assert (line.frontier, line.resident, line.beyond) == (5, 4, 6)
    assert (line.count, line.bytes) == (10, 10)
    check(line)


def test_the_first_stays_however_little_room_there_is() -> None:
    line, _ = line_of(3)
    line.evict(0)
    assert [each.id for each in line] == [1]
    line.evict(0)
    assert (line.resident, line.beyond) == (1, 2)


def test_what_comes_back_behind_the_frontier_is_left_to_the_log() -> None:
    line, _ = line_of(6)
    out = [line.pop() for _ in range(4)]
    line.evict(0)
    for first in out:
        assert first is not None
        line.put_back(*first)
    line.evict(2 * (ITEM_COST + 1))
    check(line)
    assert line.count == 6
    assert popped(line) == [1, 2]


def test_nothing_that_came_back_between_others_stays_behind_the_frontier() -> None:
    line, _ = line_of(5)
    out = [first for _ in range(5) if (first := line.pop()) is not None]
    for at in (0, 1, 4):
        line.put_back(*out[at])
    line.evict(2 * (ITEM_COST + 1))
    line.put_back(*out[3])
    line.evict(ITEM_COST + 1)
    check(line)
    line.put_back(*out[2])
    check(line)
    assert popped(line) == [1]
    assert line.beyond == 4


def test_a_removed_item_is_not_let_go() -> None:
    line, items = line_of(5)
    line.remove(items[4])
    assert [each.id for each in line.evict(3 * (ITEM_COST + 1))] == [4]
    assert line.count == 4


def test_when_nothing_is_beyond_there_is_no_frontier() -> None:
    line, _ = line_of(3)
    line.evict(ITEM_COST + 1)
    line.drop_beyond(1)
    line.advance(3)
    assert line.frontier == 3
    line.drop_beyond(1)
    line.advance(4)
    assert (line.frontier, line.beyond_bytes) == (NO_FRONTIER, 0)


def test_any_mixture_with_letting_go_keeps_sequence_and_counts() -> None:
    for seed in range(100):
        random = Random(seed)
        line, out, number = Ready(), list[tuple[int, Item]](), 0
        everything = set[int]()
        for _ in range(120):
            choice = random.randrange(6)
            if choice <= 1:
                number += 1
                everything.add(number)
                if line.beyond:
                    line.push_beyond(number, 1)
                else:
                    line.push(item(number))
            elif choice == 2:
                first = line.pop()
                if first is not None:
                    assert first[0] == min(everything)
                    everything.discard(first[0])
                    out.append(first)
            elif choice == 3 and out:
                first = out.pop(random.randrange(len(out)))
                everything.add(first[0])
                line.put_back(*first)
            elif choice == 4:
                line.evict(random.randrange(6) * (ITEM_COST + 1))
            elif line.beyond:  # one is read back
                id_ = min(i for i in everything if i >= line.frontier)
                line.drop_beyond(1)
                line.advance(id_ + 1)
                line.push(item(id_))
            check(line)
            assert (line.count, line.bytes) == (len(everything), len(everything)), f"seed {seed}"
            assert {i.id for i in line} == {i for i in everything if i < line.frontier}


# -- apart ----------------------------------------------------------------------------------


def out_of_order(line: Ready, *ids: int) -> None:
    for id_ in ids:
        line._out_of_order.add(id_)


def test_an_out_of_order_item_leaves_at_its_place() -> None:
    line = Ready()
    out_of_order(line, 2)
    for number in (1, 3, 5):
        line.push(item(number))
    line.put_back(4, item(2))
    assert popped(line) == [1, 3, 2, 5]


def test_a_stub_that_is_next_holds_everybody_up_until_it_is_read() -> None:
    line = Ready()
    out_of_order(line, 2)
    for number in (1, 3, 5):
        line.push(item(number))
    line.disk_refs.push(pack(4, 2, 1))
    assert (line.count, line.bytes) == (4, 4)
    assert popped(line) == [1, 3]
    assert line.first() is None
    assert line.is_held_up
    assert line.disk_refs.begin_fetch(line.frontier, 9, 9) == [2]
    line.put_back(line.disk_refs.fetched(2), item(2))
    assert not line.is_held_up
    assert popped(line) == [2, 5]


def test_a_stub_behind_the_frontier_waits_for_what_the_log_holds_before_it() -> None:
    line = Ready()
    out_of_order(line, 2)
    line.push_beyond(3, 1)
    line.disk_refs.push(pack(4, 2, 1))
    assert not line.is_held_up
    line.drop_beyond(1)
    line.advance(4)
    assert line.is_held_up


def test_an_item_out_of_order_becomes_a_disk_ref_where_memory_is_scarce() -> None:
    line = Ready()
    out_of_order(line, 2, 7)
    for number in (1, 3, 5, 8, 9):
        line.push(item(number))
    line.put_back(4, item(2))
    line.put_back(10, item(7))
    assert [i.id for i in line.evict(3 * ITEM_COST + 3)] == [7, 9, 8, 5]
    assert (line.frontier, line.resident, line.beyond) == (5, 3, 3)
    assert list(line.disk_refs) == [(10, 7, 1)]
    line.put_back(11, item(2))
    assert sorted(line.disk_refs) == [(10, 7, 1), (11, 2, 1)], "an item after the frontier as well"


def test_an_item_out_of_order_is_found_by_its_number_and_can_be_removed() -> None:
    line, _ = line_of(3)
    out_of_order(line, 9)
    back = item(9)
    line.put_back(12, back)
    assert line.at(9) is back
    line.remove(back)
    assert line.at(9) is None
    assert popped(line) == [1, 2, 3]


def test_any_mixture_with_some_out_of_order_leaves_by_place() -> None:
    for seed in range(60):
        random, line = Random(seed), Ready()
        places: dict[int, int] = {}  # by id
        for number in range(1, 301):
            choice = random.randrange(6)
            if choice <= 1:
                places[number] = number
                if line.beyond:
                    line.push_beyond(number, 1)
                else:
                    line.push(item(number))
            elif choice == 2 and (out := next_of(line, places)) is not None:
                place, gone = out
                assert (place, gone.id) == min((p, i) for i, p in places.items()), f"seed {seed}"
                del places[gone.id]
                line._out_of_order.discard(gone.id)
                if random.random() < 0.5:
                    out_of_order(line, gone.id)
                    places[gone.id] = random.choice((place, number)) if place != gone.id else number
                    line.put_back(places[gone.id], item(gone.id))
            elif choice == 3:
                out_of_order(line, 1000 + number)
                places[1000 + number] = number
                line.disk_refs.push(pack(number, 1000 + number, 1))
            elif choice == 4:
                line.evict(random.randrange(20) * ITEM_COST)
            elif choice == 5 and (resident := sorted(i.id for i in line)):
                gone_id = random.choice(resident)
                found = line.at(gone_id)
                assert found is not None
                line.remove(found)
                line._out_of_order.discard(gone_id)
                del places[gone_id]
            assert line.count == len(places), f"seed {seed}"
            assert line.bytes == line.count, f"seed {seed}"


def next_of(line: Ready, positions: dict[int, int]) -> tuple[int, Item] | None:
    """Return the next item of `pop`, after reading everything before it."""
    for _ in range(3):
        if line.is_held_up:
            for id_ in line.disk_refs.begin_fetch(line.frontier, 2, 99):
                line.put_back(line.disk_refs.fetched(id_), item(id_))
        found = line.pop()
        if found is not None or not line.beyond:
            return found
        id_ = min(i for i in positions if i >= line.frontier and i not in line._out_of_order)
        line.drop_beyond(1)
        line.advance(id_ + 1)
        line.push(item(id_))
    raise AssertionError("nothing comes of it")


def test_the_last_that_is_removed_takes_along_all_that_was_removed_before() -> None:
    line, items = line_of(5)
    for each in (items[1], items[3], items[4], items[2], items[0]):
        line.remove(each)
    assert (line.count, len(line._line), line._removed) == (0, 0, set())


def test_nothing_of_what_was_removed_is_left_behind_the_last_that_is_popped() -> None:
    line, items = line_of(3)
    line.remove(items[1])
    line.remove(items[2])
    assert popped(line) == [1]
    assert (line.count, len(line._line), line._removed) == (0, 0, set())
    line.push(item(4))
    assert popped(line) == [4]
