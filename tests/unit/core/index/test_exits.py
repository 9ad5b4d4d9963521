"""An entry that leaves an index is in none of its parts any more."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from journal.format import DelayedEntry, ItemHeader
from journal.format.key import join, text_of
from journal.sets import HASH_BYTES, KEY, IdSet
from journal.store import Fresh
from kestrelpy.core.clock import ClockOffset
from kestrelpy.core.fanout.unseen import Unseen
from kestrelpy.core.index.dead_letters import MEMORY_BYTES_MAX, DeadLetters
from kestrelpy.core.index.dedupe import SeenIds
from kestrelpy.core.index.delayed import Delays
from kestrelpy.core.index.disk_refs import DiskRefs, pack
from kestrelpy.core.index.key_locks import KeyLine, KeyLocks
from kestrelpy.core.index.leases import Holder, Lease, Leases
from kestrelpy.core.index.markers import MarkerIndex
from kestrelpy.core.index.ready_list import ByPlace, Ready
from kestrelpy.core.index.sorted_table import CHUNK_ENTRIES
from kestrelpy.core.index.versions import Versions
from kestrelpy.core.item import Item
from kestrelpy.core.policy import Policy
from kestrelpy.core.subscription import OutOfOrder
from kestrelpy.core.timers import Timers
from kestrelpy.core.trash import SMALL, Trash
from tests.support.core_harness import make_queue


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


def test_a_table_by_place_of_several_chunks_is_emptied_from_its_end() -> None:
    table, count = ByPlace(), 3 * CHUNK_ENTRIES
    for place in range(count):
        table.add(place, item(place + 1))
    assert [table.pop_last()[0] for _ in range(count)] == [*range(count)][::-1]
    assert (table.count, table.all()) == (0, [])


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
    assert markers._retained == {}


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
    dead.take_in(item(1, MEMORY_BYTES_MAX))
    dead.take_in(item(2, 3))
    assert dead.at(1) is None
    assert dead._held_bytes == 3


def test_when_all_children_have_been_looked_at_no_digest_stays() -> None:
    unseen = Unseen()
    unseen.delay(1, 3)
    assert unseen.between(0, 1) is not None
    unseen.looked_at()
    assert unseen._digests == {}


def test_a_dead_letter_that_is_gone_is_neither_wanted_nor_hidden_nor_unlogged() -> None:
    dead = two_dead()
    dead.wanted = 1
    dead.unlogged.add(1)
    dead.forget(1, False)
    assert (dead.wanted, dead.unlogged) == (0, set())
    dead.wanted = 2
    dead.hide(2)
    assert (dead.wanted, dead.is_hidden(2)) == (0, True)
    dead.forget(2, False)
    assert not dead.is_hidden(2)


def test_notes_that_every_child_has_seen_leave_no_number_and_no_digest() -> None:
    unseen = Unseen()
    unseen.delay(1, 3)
    assert unseen.between(0, 1) is not None
    unseen.forget(1)
    assert (len(unseen), unseen._events, unseen._digests) == (0, [], {})


def test_arrivals_have_the_digest_of_their_own_beginning_alone() -> None:
    unseen = Unseen()
    unseen.delay(1, 3)
    unseen.delay(2, 3)
    assert unseen.between(0, 2) is not None
    unseen.arrivals(1, 2)
    assert [*unseen._digests] == [1]


def test_an_item_that_was_leased_is_delayed_no_more_though_its_release_is_lost() -> None:
    found = OutOfOrder(make_queue().reader)
    found.restore([DelayedEntry(1, 10, 5, b"", 0)], [])
    assert found.ids == {1}
    found.leased(1)
    assert found.ids == set()


# -- delays and disk references ----------------------------------------------------------------


@pytest.mark.parametrize("is_date", [True, False])
@pytest.mark.parametrize("end", [
    lambda delays: delays.remove(1, 5),
    lambda delays: delays.remove_all(IdSet.of([1]), 5),
    lambda delays: delays.clear(Trash(Timers())),
    lambda delays: delays.pop_due(10, ClockOffset(0)),
])  # fmt: skip
def test_a_delayed_item_that_may_come_back_leaves_no_entry(
    end: Callable[[Delays], object], is_date: bool
) -> None:
    delays = Delays()
    delays.add(1, 5, 10, is_date)
    end(delays)
    assert (delays.entry_count, [*delays.ids], delays.bytes) == (0, [], 0)


@pytest.mark.parametrize("is_date", [True, False])
def test_the_next_due_time_is_that_of_an_item_that_is_there(is_date: bool) -> None:
    delays, clock = Delays(), ClockOffset(0)
    delays.add(1, 5, 10, is_date)
    delays.add(2, 5, 20, is_date)
    delays.unlogged.add(1)
    delays.leave(1, 5)
    assert delays.next_due(clock) == 20
    assert delays.unlogged == set()


def refs_of(*ids: int) -> DiskRefs:
    refs = DiskRefs()
    for id_ in ids:
        refs.push(pack(id_ + 10, id_, 5))
    return refs


@pytest.mark.parametrize("end", [
    lambda refs: refs.pop(), lambda refs: refs.remove(1, 5), lambda refs: refs.clear(),
    lambda refs: refs.fetched(1), lambda refs: refs.put_back(),
])  # fmt: skip
def test_a_fetch_is_over_when_what_it_fetches_has_left(end: Callable[[DiskRefs], object]) -> None:
    refs = refs_of(1)
    assert refs.begin_fetch(100, 1, 100) == [1]
    assert refs.is_fetching
    end(refs)
    assert not refs.is_fetching
    assert [id_ for _, id_, _ in refs] == [*refs.ids]


@pytest.mark.parametrize("end", [DiskRefs.end_look, DiskRefs.put_back])
def test_a_look_at_what_is_unsure_ends(end: Callable[[DiskRefs], None]) -> None:
    refs = DiskRefs()
    refs.unsure.add(1)
    assert refs.begin_look(1) == [1]
    assert refs.is_fetching
    end(refs)
    assert not refs.is_fetching


@pytest.mark.parametrize("end", [
    lambda refs: refs.clear(), lambda refs: (refs.remove(2, 5), refs.remove(1, 5)),
])  # fmt: skip
def test_no_place_is_left_when_no_disk_reference_is(end: Callable[[DiskRefs], object]) -> None:
    refs = refs_of(1, 2)
    end(refs)
    assert refs._waiting.count == 0


# -- markers -----------------------------------------------------------------------------------


def many_markers(count: int) -> MarkerIndex:
    """Return an index with so many markers that a compaction is half done."""
    markers = MarkerIndex()
    for id_ in range(1, count + 1):
        markers.hide(id_)
        markers.give(count + id_, id_)
    for id_ in (*range(1, count, 2), 2):
        markers.forget(id_)
    assert markers._compacted > 0
    return markers


def test_a_flush_drops_the_markers_that_a_compaction_has_passed_as_well() -> None:
    markers = many_markers(4000)
    markers.retain_only(IdSet.of([4000]))
    assert [*markers] == [(8000, 4000)]


def test_markers_that_are_lost_leave_the_front_of_the_table_at_once() -> None:
    markers = many_markers(4000)
    markers.lose(1, 3998, IdSet())
    assert [*markers] == [(8000, 4000)]


def test_when_all_markers_are_gone_a_compaction_begins_with_the_first_of_the_new() -> None:
    markers = many_markers(4000)
    *others, last = markers.hidden
    for id_ in others:
        markers.forget(id_)
    assert markers._compacted > 0
    markers.forget(last)
    assert markers._compacted == 0


# -- keys --------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_a_row_of_several_chunks_is_as_a_list(seed: int) -> None:
    random, row, expected = Random(seed), KeyLine(1), list[tuple[int, int, int]]()
    for id_ in range(2, 3 * CHUNK_ENTRIES):
        row.add(id_, id_, 5)
        expected.append((id_, id_, 5))
    while expected:
        for _ in range(random.choice([1, CHUNK_ENTRIES // 2])):
            if random.random() < 0.5:
                assert row.pop() == expected.pop(0)
            else:
                id_, place, size = expected.pop(random.randrange(min(len(expected), 300)))
                assert row.remove(id_, place) == size
            if not expected:
                break
        assert [*row] == expected
        assert len(row) == len(expected)
    assert row._chunks == []


def test_a_flush_of_all_keys_forgets_the_rows_of_an_earlier_flush() -> None:
    keys, trash = KeyLocks(), Trash(Timers())
    for id_ in range(1, SMALL + 2):
        keys.take(id_, b"%d" % id_)
    keys.retain_only(IdSet(), trash)
    assert len(keys) == SMALL + 1
    keys.clear(trash)
    assert len(keys) == 0
    assert keys.some(0, 10) == []


def test_rows_from_before_a_flush_are_forgotten_when_the_last_is_passed_on() -> None:
    keys, trash = KeyLocks(), Trash(Timers())
    for id_ in range(1, SMALL + 2):
        keys.take(id_, b"%d" % id_)
    keys.retain_only(IdSet.of([1]), trash)
    while trash:
        trash.free(0)
    assert (len(keys), keys.holder(b"1")) == (1, 1)
    assert keys._before == []


def key_of(*values: bytes) -> bytes:
    return join([text_of(value) for value in values], False)


THREE = key_of(b"A", b"B", b"C")


def waits_for_two() -> KeyLocks:
    """Item 2 waits for both key values of item 1, and holds a third value alone."""
    keys = KeyLocks(matches_any=True)
    assert keys.claim(1, 1, 5, key_of(b"A", b"B"))
    assert not keys.claim(2, 2, 5, THREE)
    assert keys._more == {2: 2}
    return keys


@pytest.mark.parametrize("end", [
    lambda keys: keys.leave(IdSet.of([2])), lambda keys: keys.end(2, THREE, 5),
])  # fmt: skip
def test_a_blocked_item_that_is_gone_holds_no_value_and_waits_for_none(
    end: Callable[[KeyLocks], object],
) -> None:
    keys = waits_for_two()
    end(keys)
    assert (keys._more, keys.holder(text_of(b"C")), keys.holders(IdSet.of([1, 2]))) == ({}, 0, [1])
    assert len(keys) == 2


# -- what is remembered of a look-up -----------------------------------------------------------


WINDOW = Policy(dedupe_window_ms=1000)


def test_an_id_is_remembered_though_a_sweep_came_between_its_look_up_and_its_put() -> None:
    ids, new = SeenIds(Fresh()), ItemHeader(b"new")
    ids._apply_seen(ItemHeader(b"old"), 1, 0)
    assert not ids.has_seen(new, WINDOW, 5000)
    ids.sweep(WINDOW, 5000, 1)
    ids._apply_seen(new, 2, 5000)
    assert ids.has_seen(new, WINDOW, 5001)


def test_an_id_that_was_looked_up_is_remembered_under_the_secret_of_its_put() -> None:
    ids, new = SeenIds(Fresh()), ItemHeader(b"new")
    assert not ids.has_seen(new, WINDOW, 0)
    ids.set_secret(b"another")
    ids._apply_seen(new, 1, 0)
    assert ids.has_seen(ItemHeader(bytes(bytearray(b"new"))), WINDOW, 1)


def test_a_version_is_remembered_though_a_sweep_came_between_its_look_up_and_its_put() -> None:
    versions, key = Versions(Fresh()), b"new"
    versions._apply_written(b"old", 1, 1, 0)
    assert versions.of(key, WINDOW, 5000).version == 0
    versions.sweep(WINDOW, 5000, 1)
    versions._apply_written(key, 1, 2, 5000)
    assert versions.of(key, WINDOW, 5001).version == 1


def test_a_key_that_was_looked_up_is_remembered_under_the_secret_of_its_put() -> None:
    versions, key = Versions(Fresh()), b"new"
    assert versions.of(key, WINDOW, 0).version == 0
    versions.set_secret(b"another")
    versions._apply_written(key, 1, 1, 0)
    assert versions.of(bytes(bytearray(b"new")), WINDOW, 1).version == 1


def entry(number: int, version: int) -> bytes:
    return KEY.pack(bytes([number]) * HASH_BYTES, 0, version, version)


def test_a_key_that_was_looked_up_has_one_version_when_a_chunk_brings_it() -> None:
    versions, key = Versions(Fresh()), b"new"
    assert versions.of(key, WINDOW, 0).version == 0
    versions.load(KEY.pack(versions._hash, 0, 1, 1))
    versions._apply_written(key, 2, 2, 0)
    assert (versions.table.count, versions.of(key, WINDOW, 1).version) == (1, 2)


def test_a_key_of_a_later_chunk_replaces_that_of_the_first() -> None:
    versions = Versions(Fresh())
    versions.load(entry(1, 1) + entry(5, 1))
    versions.load(entry(2, 2))
    versions.load(entry(5, 3))
    assert [each[HASH_BYTES:] for each in sorted(versions.table)] == [
        entry(number, version)[HASH_BYTES:] for number, version in ((1, 1), (2, 2), (5, 3))
    ]  # fmt: skip
