"""The process's own settings of its interpreter."""

from __future__ import annotations

import gc
import sys

import pytest

from kestrelpy.server.process import SWITCH_SECONDS, SWITCH_SECONDS_HURRIED, tune_interpreter
from kestrelpy.server.shares import LINE_SECONDS, LINE_SECONDS_HURRIED

# A collection takes 0.1 to 0.5 µs for each object: below the 50 ms that the loop may be held.
LOOKED_THROUGH_MAX = 50_000


def test_the_garbage_collector_looks_through_a_bounded_number_of_new_objects_at_once() -> None:
    tune_interpreter()
    young, middle, old = gc.get_threshold()
    assert young * (middle + 2) <= LOOKED_THROUGH_MAX, "it runs once the count is above `middle`"
    assert young * middle * old >= 50_000_000, "all of them only after very many more"
    assert gc.get_freeze_count() > 0


def test_a_thread_that_waits_has_the_interpreter_before_a_part_of_a_turn_is_over() -> None:
    tune_interpreter()
    assert sys.getswitchinterval() == pytest.approx(SWITCH_SECONDS)
    assert SWITCH_SECONDS < LINE_SECONDS
    assert SWITCH_SECONDS_HURRIED < LINE_SECONDS_HURRIED
