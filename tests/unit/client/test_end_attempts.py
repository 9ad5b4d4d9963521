"""The end of a lease is asked for again only while another answer may come."""

from __future__ import annotations

import pytest

from kestrelpy.client import LeaseLost, ReceivedItem
from kestrelpy.client.end_attempts import EndAttempts
from kestrelpy.client.item import LeasedItem

BROKEN = ConnectionError("it broke")


def attempts(*, insistent: bool = True) -> EndAttempts:
    item = LeasedItem("jobs", ReceivedItem(b"x", 0, 7))
    item._lease_ends = 10.0
    return EndAttempts(item, insistent)


def failed(
    end: EndAttempts, now: float = 1.0, *, may_pass: bool = True, over: bool = False
) -> float:
    return end.pause_after(BROKEN, now, may_pass=may_pass, is_lease_over=over)


def test_the_second_attempt_comes_at_once_and_later_ones_after_pauses() -> None:
    end = attempts()
    first, *later = [failed(end) for _ in range(5)]
    assert first == 0
    assert all(each > 0 for each in later)


def test_an_end_that_may_wait_for_its_lease_is_asked_for_twice() -> None:
    end = attempts(insistent=False)
    assert failed(end) == 0
    with pytest.raises(LeaseLost, match="jobs: it broke"):
        failed(end)


def test_a_refusal_that_stays_is_raised_as_it_is() -> None:
    with pytest.raises(ConnectionError):
        failed(attempts(), may_pass=False)


def test_no_attempt_begins_after_the_end_of_the_lease() -> None:
    end = attempts()
    assert failed(end, now=10.0) == 0
    with pytest.raises(LeaseLost, match="it broke"):
        failed(end, now=10.1)


@pytest.mark.parametrize("may_pass", [True, False])
def test_a_lease_that_is_over_may_be_the_work_of_a_lost_answer(may_pass: bool) -> None:
    with pytest.raises(LeaseLost, match="it broke"):
        failed(attempts(), may_pass=may_pass, over=True)
    end = attempts()
    failed(end)
    with pytest.raises(LeaseLost, match="it was done, or the lease is over"):
        failed(end, may_pass=may_pass, over=True)
