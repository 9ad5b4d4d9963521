"""What the process asks of its interpreter."""

from __future__ import annotations

import gc

from kestrelpy.server.process import settle_down

# A collection takes 0.1 to 0.5 µs for each object: below the 50 ms that the loop may be held.
LOOKED_THROUGH_MAX = 50_000


def test_the_garbage_collector_looks_through_a_bounded_number_of_new_objects_at_once() -> None:
    settle_down()
    young, middle, old = gc.get_threshold()
    assert young * (middle + 2) <= LOOKED_THROUGH_MAX, "it runs once the count is above `middle`"
    assert young * middle * old >= 50_000_000, "all of them only after very many more"
    assert gc.get_freeze_count() > 0
