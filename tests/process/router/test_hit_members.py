"""Members of a fleet with slices are killed, asleep, drained and added under mixed load.

Nothing that was acknowledged is lost, nothing that was confirmed comes again, the items of each key
are handed out in order and by one holder at a time, and a child gets every item of its queue.

Promise stored: members killed, asleep, drained and added, under producers, keyed workers by
    connection and by token, ids, delays, a child and gets of several queues, over slices.
"""

from __future__ import annotations

import pytest

from kestrelpy.placement import Placement
from tests.process.router.members import SLICES, Fleet
from tests.process.router.members_campaign import SETTINGS, run
from tests.process.router.members_load import QUEUES
from tests.support.soak import Soak

KINDS = ("kill", "sleep", "drain", "add")


def test_the_queues_of_the_load_are_in_three_slices() -> None:
    assert len({Placement(SLICES).slice_of(name.encode()) for name in QUEUES}) == 3


def test_nothing_is_lost_under_load(fleet: Fleet) -> None:
    fleet.more = SETTINGS
    run(fleet, KINDS, (1,))


@pytest.mark.soak
def test_nothing_is_lost_again_and_again(fleet: Fleet, soak: Soak) -> None:
    fleet.more = SETTINGS
    run(fleet, KINDS, soak.seeds())
