"""One queue's limits and rules are a frozen value with the defaults of the spec."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from kestrelpy.core.policy import Policy


def test_the_defaults_are_those_of_the_spec() -> None:
    policy = Policy()
    assert policy.lease_ms == 30 * 60 * 1000
    assert policy.max_items is policy.max_bytes is policy.max_age_ms is None
    assert policy.max_item_bytes == 8 * 1024 * 1024
    assert policy.max_attempts == 100
    assert policy.max_memory_bytes == 64 * 1024 * 1024
    assert policy.archive_to == ""
    assert policy.max_leased is policy.max_queue_age_ms is None
    assert policy.durable
    assert not policy.discard_old_when_full
    assert policy.sync_ms == 0
    assert not policy.confirms_synced
    assert not policy.sync_in_turn


def test_a_policy_is_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        Policy().max_items = 3


@pytest.mark.parametrize(
    ("policy", "bounded"),
    [
        (Policy(), False),
        (Policy(max_items=0), True),
        (Policy(max_bytes=0), True),
        (Policy(max_item_bytes=1), False),
    ],
)
def test_a_queue_with_a_limit_can_be_found_full(policy: Policy, bounded: bool) -> None:
    assert policy.bounded is bounded
