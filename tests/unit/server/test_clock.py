"""Two clocks: the steady one never goes back, and both together tell the date."""

from __future__ import annotations

import time

from kestrelpy.server import clock


def test_the_steady_clock_does_not_go_back() -> None:
    readings = [clock.now_ms() for _ in range(1000)]
    assert readings == sorted(readings)


def test_steady_time_and_offset_make_the_time_of_day() -> None:
    before = time.time() * 1000 - 2
    unix_ms = clock.now_ms() + clock.wall_clock_offset_ms()
    assert before <= unix_ms <= time.time() * 1000 + 2
