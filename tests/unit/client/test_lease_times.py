"""When a lease is renewed, and when its item is asked to stop."""

from __future__ import annotations

from kestrelpy.client.item import ItemState, LeasedItem
from kestrelpy.client.lease_times import LeaseTimes, Step
from kestrelpy.wire.answers import ReceivedItem


def item_of(times: LeaseTimes) -> LeasedItem:
    item = LeasedItem("q", ReceivedItem(b"x", 0, 1))
    times.begin(item, 100.0)
    return item


def test_a_lease_is_renewed_at_half_time() -> None:
    times = LeaseTimes(30, None)
    item = item_of(times)

    assert times.due(item) == 115.0
    assert times.step(item, 115.0) is Step.RENEW
    times.renewed(item, 115.0)
    assert times.due(item) == 130.0


def test_a_renewal_without_an_answer_is_tried_again_until_the_lease_is_over() -> None:
    times = LeaseTimes(8, None)
    item = item_of(times)

    assert times.may_try_again(item, 104.0)
    assert times.due(item) == 105.0
    assert not times.may_try_again(item, 108.0)


def test_an_item_is_asked_to_stop_at_its_limit_and_deferred_before_its_lease_ends() -> None:
    times = LeaseTimes(8, 6)
    item = item_of(times)
    times.renewed(item, 104.0)

    assert times.due(item) == 106.0
    assert times.step(item, 106.0) is Step.RENEW_AND_ASK_TO_STOP
    times.renewed(item, 106.0)
    item._ask_to_stop()
    assert times.due(item) == 112.0  # its lease ends at 114
    assert times.step(item, 112.0) is Step.DEFER


def test_an_item_that_has_ended_needs_nothing() -> None:
    times = LeaseTimes(8, None)
    item = item_of(times)
    item._end_once(ItemState.CONFIRMED)

    assert times.step(item, 200.0) is Step.FORGET


def test_before_its_limit_an_item_is_renewed_and_not_asked_to_stop() -> None:
    times = LeaseTimes(8, 6)
    item = item_of(times)

    assert times.step(item, 104.0) is Step.RENEW
    assert times.step(item, 106.0) is Step.RENEW_AND_ASK_TO_STOP


def test_no_sleep_is_longer_than_an_eighth_of_the_lease_or_of_the_limit() -> None:
    assert LeaseTimes(8, None).nap_seconds == 1
    assert LeaseTimes(8, 4).nap_seconds == 0.5
    assert LeaseTimes(8, 16).nap_seconds == 1
