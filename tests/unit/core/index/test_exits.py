"""What leaves an index is in none of its parts any more."""

from __future__ import annotations

from journal.sets import IdSet
from kestrelpy.core.fanout.unseen import Unseen
from kestrelpy.core.index.dead_letters import KEPT_BYTES_MAX, DeadLetters
from kestrelpy.core.index.leases import Holder, Lease, Leases
from kestrelpy.core.index.markers import MarkerIndex
from kestrelpy.core.index.ready_list import ByPlace, Ready
from kestrelpy.core.item import Item
from kestrelpy.core.timers import Timers
from kestrelpy.core.trash import Trash


def item(id_: int, size: int = 1) -> Item:
    return Item(id_, id_, b"x" * size, 0, 0, 0)


def granted(leases: Leases, holder: Holder, id_: int) -> Lease:
    lease = Lease(item(id_), id_, holder, None, 100 + id_, 0, 0, 1000)
    leases.grant(lease)
    return lease


def test_the_holder_of_a_lease_that_is_passed_to_the_mover_has_it_no_more() -> None:
    leases, anna, mover = Leases(), Holder("anna"), Holder("mover")
    lease = granted(leases, anna, 1)
    leases.show(lease)
    leases.forward(lease, mover)
    assert [*anna.leases] == []
    assert leases.by_token(lease.token) is None
    assert [*leases.moving] == [1]


def test_holders_have_no_lease_of_a_queue_that_is_deleted() -> None:
    leases, anna, tokens = Leases(), Holder("anna"), Holder("token")
    granted(leases, anna, 1)
    leases.drop(tokens, Trash(Timers()))
    assert [*anna.leases] == []


def test_an_item_that_makes_room_is_in_memory_no_more() -> None:
    apart = IdSet.of([1])
    ready = Ready(apart)
    ready.push(item(2))
    ready.put_back(9, item(1))
    gone = ready.evict(0)
    assert [each.id for each in gone] == [1]
    assert ready.at(1) is None
    assert [each.id for each in ready] == [2]
    assert [*ready.disk_refs.ids] == [1]


def test_a_table_by_place_is_empty_when_the_last_was_taken_from_its_end() -> None:
    table = ByPlace()
    table.add(3, item(3))
    assert table.pop_last()[0] == 3
    table.add(5, item(5))
    assert (table.first_place(), table.last_place(), table.count) == (5, 5, 1)
    assert [*table] == table.all()


def test_no_bytes_are_left_of_items_beyond_the_frontier_whose_size_was_a_guess() -> None:
    ready = Ready()
    ready.push_beyond(1, 10)
    ready.drop_beyond(7)
    assert (ready.beyond, ready.beyond_bytes) == (0, 0)


def test_a_done_item_that_is_retained_keeps_its_marker_and_not_its_place() -> None:
    markers = MarkerIndex()
    markers.retains = True
    markers.hide(1)
    markers.give(5, 1)
    markers.remember(1, 5)
    markers.forget(1)
    assert markers.id_of(5) == 1
    assert markers._kept == {}


def test_markers_of_items_that_are_lost_are_in_no_table() -> None:
    markers = MarkerIndex()
    for id_ in (1, 2):
        markers.hide(id_)
        markers.give(id_ + 5, id_)
    markers.lose(1, 1, IdSet())
    assert [*markers] == [(7, 2)]


def two_dead() -> DeadLetters:
    dead = DeadLetters()
    for id_ in (1, 2):
        dead.add(id_, 1, b"why", 0, 1)
    return dead


def test_a_dead_letter_that_has_been_read_is_wanted_no_more() -> None:
    dead = two_dead()
    dead.wanted = 2
    assert dead.sought == 2
    dead.take_in(item(2))
    assert dead.wanted == 0


def test_the_bodies_that_make_room_for_another_dead_letter_are_in_memory_no_more() -> None:
    dead = two_dead()
    dead.take_in(item(1, KEPT_BYTES_MAX))
    dead.take_in(item(2, 3))
    assert dead.at(1) is None
    assert dead._held_bytes == 3


def test_when_all_children_have_been_looked_at_no_digest_is_kept() -> None:
    unseen = Unseen()
    unseen.delay(1, 3)
    assert unseen.between(0, 1) is not None
    unseen.looked_at()
    assert unseen._digests == {}
