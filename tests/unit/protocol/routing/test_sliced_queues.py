"""Which slice an item of a sliced queue goes to, and which one a fetch asks first."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kestrelpy.core import KeySettings
from kestrelpy.errors import ClientError
from kestrelpy.message_keys import MessageKey
from kestrelpy.placement import Placement
from kestrelpy.protocol.routing.sliced_queues import FOREIGN_FIRST, SlicedQueues
from tests.support.routed_harness import NoneSliced

SLICES = 5


class Router(NoneSliced):
    placement = Placement(SLICES)


def queues_of(keys: KeySettings | None = None, own: list[int] | None = None) -> SlicedQueues:
    router = Router()
    router.sliced[b"q"], router.own = keys or KeySettings(), own
    return router.sliced_queues


@given(own=st.sets(st.integers(1, SLICES)), start=st.integers(0, 100))
def test_each_slice_is_asked_first_within_a_bound(own: set[int], start: int) -> None:
    queues = queues_of(own=sorted(own))
    for _ in range(start):
        queues.order(b"q")
    foreign = SLICES - len(own)
    bound = FOREIGN_FIRST * foreign if foreign and own else SLICES * FOREIGN_FIRST
    orders = [queues.order(b"q") for _ in range(max(bound, 2 * SLICES))]
    assert all(sorted(each) == [*range(1, SLICES + 1)] for each in orders)
    assert {each[0] for each in orders} == {*range(1, SLICES + 1)}


def test_own_slices_are_asked_before_the_others() -> None:
    queues = queues_of(own=[2, 4])
    orders = [queues.order(b"q") for _ in range(FOREIGN_FIRST)]
    assert all({*each[:2]} == {2, 4} for each in orders[:-1])
    assert orders[-1][0] in (1, 3, 5)


def test_queues_that_are_asked_by_turns_have_turns_of_their_own() -> None:
    queues = queues_of()
    firsts = {(name, queues.order(name)[0]) for _ in range(SLICES) for name in (b"q", b"r")}
    assert len(firsts) == 2 * SLICES


def test_a_slice_that_is_away_is_asked_last() -> None:
    queues = queues_of(own=[2, 4])
    port = queues._port
    assert isinstance(port, Router)
    port.unknown = {1, 3}
    orders = [queues.order(b"q") for _ in range(4 * FOREIGN_FIRST)]
    assert all({*each[3:]} == {1, 3} for each in orders)
    assert 5 in {each[0] for each in orders}


def test_a_peek_takes_no_turn_of_a_get() -> None:
    queues = queues_of()
    firsts = [(queues.order(b"q", True)[0], queues.order(b"q")[0]) for _ in range(SLICES)]
    assert firsts == [(each, each) for each in range(1, SLICES + 1)]


def test_the_key_in_a_body_decides_as_one_that_is_named() -> None:
    keys = KeySettings(rule=MessageKey("json", ("to",), False))
    queues = queues_of(keys)
    named = {queues.slice_of(b"q", (b"s%d" % n,), b"", b"", 0) for n in range(50)}
    assert named == {*range(1, SLICES + 1)}
    first, again = (queues.slice_of(b"q", (), b'{"to": "A"}', id_, 0) for id_ in (b"1", b"2"))
    assert first == again
    with pytest.raises(ClientError, match="has no field"):
        queues.slice_of(b"q", (), b"{}", b"", 0)


def test_a_key_decides_whatever_the_ids_are() -> None:
    queues = queues_of()
    assert len({queues.slice_of(b"q", (b"a",), b"", b"%d" % n, 0) for n in range(50)}) == 1


def test_the_places_of_keys_are_for_good() -> None:
    """Another version of the router finds the items of a key where this one has put them."""
    queues = queues_of()
    places = [queues.slice_of(b"q", (key,), b"", b"", 0) for key in (b"a", b"b", b"c", b"d", b"e")]
    assert places == [3, 3, 3, 2, 1]


def test_an_id_decides_where_there_is_no_key() -> None:
    queues = queues_of()
    assert len({queues.slice_of(b"q", (), b"", b"%d" % n, 1) for n in range(50)}) == SLICES
    assert queues.slice_of(b"q", (), b"", b"", 3) == 3


def test_producers_have_the_slices_of_their_member_in_turn() -> None:
    queues = queues_of(own=[2, 4])
    assert [queues.slice_of_producer(0) for _ in range(4)] == [2, 4, 2, 4]
    assert queues.slice_of_producer(4) == 4
    assert queues.slice_of_producer(3) in (2, 4)
    assert queues_of(own=[]).slice_of_producer(0) == 1
