"""A loop that has only timers, and rings them when the test says so."""

from __future__ import annotations

from collections.abc import Callable


class Timer:
    """A timer that rings when the test says so."""

    def __init__(self, seconds: float, ring: Callable[[], None]) -> None:
        self.seconds = seconds
        self.ring = ring
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class TimerLoop:
    """The methods of a loop that code with timers alone needs."""

    def __init__(self) -> None:
        self.timers: list[Timer] = []

    def call_later(self, seconds: float, ring: Callable[..., None], *args: object) -> Timer:
        self.timers.append(Timer(seconds, lambda: ring(*args)))
        return self.timers[-1]

    @property
    def armed(self) -> list[float]:
        """Return after how many seconds each timer rings that was not cancelled."""
        return [timer.seconds for timer in self.timers if not timer.is_cancelled]
