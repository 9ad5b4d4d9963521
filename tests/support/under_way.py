"""What a run of the tests is busy with, for whoever stops it or wonders why it does not end.

    under way for 5 minutes: tests/process/kill/test_kill.py::test_kill_9
    stopped; under way:
      82 minutes: tests/simulation/test_checker.py::test_a_planted_mistake_is_found[a]
      1 minute: tests/process/kill/test_kill.py::test_kill_9

Only the process that hands tests out to others has one: alone, pytest names its test itself.

One rule: it only speaks; which tests run, and what they say, stays as it is.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Final

import pytest

LOOK_SECONDS: Final = 20.0
# A test is named after so long, and again whenever its time has doubled.
FIRST_SECONDS: Final = 300.0


class UnderWay:
    """A plugin of pytest: the tests that began and have not ended."""

    def __init__(
        self, write: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._write = write
        self._clock = clock
        self._began: dict[str, float] = {}
        self._next: dict[str, float] = {}  # the age at which a test is named
        self._ended = threading.Event()

    def pytest_sessionstart(self) -> None:
        signal.signal(signal.SIGTERM, self._stop)
        threading.Thread(target=self._watch, name="under-way", daemon=True).start()

    def pytest_sessionfinish(self) -> None:
        self._ended.set()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._began[nodeid] = self._clock()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        # xdist says "???" of a test whose process has ended.
        if report.when not in ("setup", "call"):
            self._began.pop(report.nodeid, None)
            self._next.pop(report.nodeid, None)

    def lines(self) -> list[str]:
        """Return a line for each test that is under way, the longest first."""
        now = self._clock()
        oldest_first = sorted(self._began.items(), key=lambda item: item[1])
        return [f"{_minutes(now - began)}: {test}" for test, began in oldest_first]

    def look(self) -> None:
        """Name each test that has become too old since it was named."""
        now = self._clock()
        for test, began in list(self._began.items()):
            age = now - began
            if age >= self._next.get(test, FIRST_SECONDS):
                self._next[test] = 2 * age
                self._write(f"under way for {_minutes(age)}: {test}")

    def _watch(self) -> None:
        while not self._ended.wait(LOOK_SECONDS):
            self.look()

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._write("stopped; under way:")
        for line in self.lines():
            self._write(f"  {line}")
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)


def _minutes(seconds: float) -> str:
    minutes = round(seconds / 60)
    return "1 minute" if minutes == 1 else f"{minutes} minutes"
