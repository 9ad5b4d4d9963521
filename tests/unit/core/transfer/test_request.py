"""Transfer requests: which items they still want, and how long one that is refused rests."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kestrelpy.core.index.dead_letters import DeadLetters
from kestrelpy.core.policy import Policy
from kestrelpy.core.queue.queue import Queue
from kestrelpy.core.transfer.request import PASSED_MAX, REST_MS, REST_MS_MAX, TransferRequest


def request(*ids: int, by_itself: bool = False) -> TransferRequest:
    return TransferRequest(source(), b"dead", deque(ids), by_itself=by_itself)


def source(leased: tuple[int, ...] = (), **settings: Any) -> Queue:
    """A queue with the dead letters 1, of an abort, and 2, that expired."""
    dead = DeadLetters()
    dead.add(1, 3, b"abort", 1000, 4)
    dead.add(2, 0, b"expired", 1000, 4)
    reader = SimpleNamespace(dead=dead, leases=leased, policy=Policy(**settings))
    return cast(Queue, SimpleNamespace(reader=reader))


@pytest.mark.parametrize("leased", [(), (1,)])
def test_an_item_is_wanted_while_it_is_dead_and_not_leased(leased: tuple[int, ...]) -> None:
    made = TransferRequest(source(leased), b"dead", deque([1, 2, 3]))
    assert [made.wants(id_) for id_ in (1, 2, 3)] == [not leased, True, False]


def test_by_itself_it_wants_items_that_are_still_bound_for_its_target() -> None:
    for settings, wanted in (
        ({"dead_letter_to": b"dead"}, [True, True]),
        ({"dead_letter_to": b"dead", "expire_to": b"late"}, [True, False]),
        ({}, [False, False]),
    ):
        made = TransferRequest(source(**settings), b"dead", deque([1, 2]), by_itself=True)
        assert [made.wants(id_) for id_ in (1, 2)] == wanted


def test_a_request_is_done_when_nothing_is_left_or_under_way() -> None:
    made = request()
    assert made.is_done
    for attribute in ("left", "under_way", "is_resting"):
        setattr(made, attribute, 1)
        assert not made.is_done, attribute
        setattr(made, attribute, 0)
    assert not request(1).is_done


def test_a_request_that_is_given_up_says_its_first_reason() -> None:
    made = request(1, 2)
    made.left = 5

    made.give_up("queue dead is full")
    made.give_up("another reason")

    assert (list(made.ids), made.left, made.refusal) == ([], 0, "queue dead is full")


def test_a_refused_item_goes_behind_all_others_until_each_was_tried() -> None:
    made = request(1, 2, 3)

    assert made.skip()
    assert list(made.ids) == [2, 3, 1]
    assert [made.skip(), made.skip()] == [True, False]


def test_of_many_refused_items_a_few_are_tried_before_a_rest() -> None:
    made = request(*range(100))
    tried = 1
    while made.skip():
        tried += 1
    assert tried == PASSED_MAX


def test_rests_grow_and_end_when_the_target_takes_an_item() -> None:
    made = request(1, by_itself=True)
    rests = [made.rest() for _ in range(9)]
    assert rests[:3] == [REST_MS, 2 * REST_MS, 4 * REST_MS]
    assert rests[-1] == REST_MS_MAX
    assert made.is_resting

    made.refusal = "queue dead is full"
    made.stored()

    assert made.rest() == REST_MS
    assert made.refusal == ""


def test_a_client_s_request_keeps_its_refusal() -> None:
    made = request(1)
    made.refusal = "queue dead is full"
    made.stored()
    assert made.refusal == "queue dead is full"


def test_a_refusal_is_news_once_for_all_items_and_once_for_each() -> None:
    made = request(1, 2)
    assert [made.is_news("full", 0), made.is_news("full", 0)] == [True, False]
    assert [made.is_news("too large", item) for item in (1, 2, 1)] == [True, True, False]


def test_items_that_have_left_are_not_remembered_for_ever() -> None:
    made = request(1)
    for item in range(1, 200):
        made.is_news("too large", item)

    made.rest()

    assert made.logged == {1}
