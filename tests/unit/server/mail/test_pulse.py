"""The silence of the other side, by the clock of a side that may sleep itself."""

from __future__ import annotations

from kestrelpy.server.mail.pulse import Pulse


def test_silence_grows_from_the_last_beat() -> None:
    pulse = Pulse(10.0)
    assert [pulse.silent_s(at) for at in (10.0, 10.5, 11.5)] == [0.0, 0.5, 1.5]
    pulse.beat(12.0)
    assert pulse.silent_s(12.5) == 0.5


def test_a_side_that_slept_blames_nobody_for_that_time() -> None:
    pulse = Pulse(0.0)
    assert pulse.silent_s(0.5) == 0.5
    assert pulse.silent_s(3600.0) == 1.5
