"""Threads that block, in virtual time: each is a fiber, and a wait in it is an event of the run.

    thread ──acquire, wait, ask the engine──▶ the run goes on ──its time has come──▶ thread

One rule: a fiber goes on where it waits and nowhere else, and only the run's `Random` says when.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any, Final, TypeVar

from greenlet import GreenletExit, getcurrent, greenlet  # type: ignore[import-untyped]  # no types

from tests.simulation.loop import Moments

T = TypeVar("T")
# How long another thread takes to go on when it may.
_WAKE_US: Final = (5, 10, 10, 30, 100, 1_000)
_YIELDS: Final = 0.05  # how likely a thread is interrupted where it takes a lock


class LoopWaits(BaseException):
    """The loop's thread would wait for another one: a mistake of the server's."""


class Fibers:
    """The threads of one process. `complain` gets what one of them raises."""

    def __init__(
        self, moments: Moments, random: Random, complain: Callable[[str], None]
    ) -> None:
        self.moments = moments
        self.complain = complain
        self.current: Fiber | None = None  # the thread that runs; None: the loop's
        self._random = random
        self._main = getcurrent()
        self._all: list[Fiber] = []

    def spawn(self, work: Callable[[], object]) -> Fiber:
        """Begin a thread, soon."""
        fiber = Fiber(self, work)
        self._all = [each for each in self._all if not each.is_over]
        self._all.append(fiber)
        self._wake(fiber, fiber.waits, None)
        return fiber

    def park(self, waiting: deque[tuple[Fiber, int]] | None, seconds: float | None = None) -> Any:
        """Wait until another one goes on with this thread, or for so long; then return None."""
        fiber = self.current
        if self.moments.is_dead:
            raise GreenletExit
        if fiber is None:
            raise LoopWaits("the loop waits for a thread")
        waits = fiber.waits
        if waiting is not None:
            waiting.append((fiber, waits))
        if seconds is not None:
            us = max(round(seconds * 1e6), 1)
            self.moments.after(us, lambda: fiber.go_on(waits, None))
        return self._main.switch()

    def sleep(self, seconds: float) -> None:
        """Wait so long."""
        self.park(None, seconds)

    def interrupt(self) -> None:
        """Perhaps another thread goes on first."""
        if self._random.random() < _YIELDS:
            self.sleep(self._random.choice(_WAKE_US) / 1e6)

    def wake_one(self, waiting: deque[tuple[Fiber, int]]) -> bool:
        """Let the first of these go on; False: there is none."""
        while waiting:
            fiber, waits = waiting.popleft()
            if fiber.waits == waits:
                self._wake(fiber, waits, True)
                return True
        return False

    def _wake(self, fiber: Fiber, waits: int, value: object) -> None:
        us = self._random.choice(_WAKE_US)
        self.moments.after(us, lambda: fiber.go_on(waits, value))

    def answer(self, fiber: Fiber, waits: int, value: object) -> None:
        """Let this one go on with a value, from outside the process."""
        self.moments.after(0, lambda: fiber.go_on(waits, value))

    def end(self) -> None:
        """Nothing of a dead process goes on."""
        assert self.moments.is_dead
        for fiber in self._all:
            if not fiber.is_over:
                self.current = fiber
                fiber.throw(GreenletExit)
                self.current = None
        self._all.clear()


class Fiber(greenlet):  # type: ignore[misc]  # it has no types
    """One thread."""

    def __init__(self, fibers: Fibers, work: Callable[[], object]) -> None:
        super().__init__(self._work, fibers._main)
        self._fibers = fibers
        self._does = work
        self.waits = 0  # how often it has waited
        self.locks = 0  # that it holds
        self.is_over = False
        self._joining: deque[tuple[Fiber, int]] = deque()

    def _work(self, _: object) -> None:
        try:
            self._does()
        except Exception as error:
            self._fibers.complain(f"on a thread: {error!r}")
        finally:
            self.is_over = True
            while self._fibers.wake_one(self._joining):
                pass

    def go_on(self, waits: int, value: object) -> None:
        """End this wait, unless it has ended before."""
        if self.waits == waits and not self.is_over:
            self.waits += 1
            fibers = self._fibers
            fibers.current = self
            try:
                self.switch(value)
            finally:
                fibers.current = None

    def wait(self) -> None:
        """Return when it is over."""
        while not self.is_over:
            self._fibers.park(self._joining)


class SimLock:
    """Stands for `threading.Lock`."""

    def __init__(self, fibers: Fibers) -> None:
        self._fibers = fibers
        self._is_held = False  # by one thread, until that releases it
        self._waiting: deque[tuple[Fiber, int]] = deque()

    def acquire(self, blocking: bool = True) -> bool:
        fibers = self._fibers
        if fibers.moments.is_dead:
            return True
        fiber = fibers.current
        # Not of a thread that has a lock: the loop may wait for that as long as it takes.
        if blocking and fiber is not None and not fiber.locks:
            fibers.interrupt()
        while self._is_held:
            if not blocking:
                return False
            fibers.park(self._waiting)
        self._is_held = True
        if fiber is not None:
            fiber.locks += 1
        return True

    def release(self) -> None:
        self._is_held = False
        fiber = self._fibers.current
        if fiber is not None:
            fiber.locks -= 1
        if self._waiting:
            self._fibers.wake_one(self._waiting)

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *error: object) -> None:
        self.release()


class SimCondition:
    """Stands for `threading.Condition`."""

    def __init__(self, fibers: Fibers, lock: SimLock) -> None:
        self._fibers = fibers
        self._lock = lock
        self._waiting: deque[tuple[Fiber, int]] = deque()

    def wait(self, timeout: float | None = None) -> bool:
        self._lock.release()
        try:
            return bool(self._fibers.park(self._waiting, timeout))
        finally:
            self._lock.acquire()

    def notify(self) -> None:
        self._fibers.wake_one(self._waiting)

    def notify_all(self) -> None:
        while self._fibers.wake_one(self._waiting):
            pass

    def __enter__(self) -> bool:
        return self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()


class SimEvent:
    """Stands for `threading.Event`."""

    def __init__(self, fibers: Fibers) -> None:
        self._fibers = fibers
        self._is_set = False
        self._waiting: deque[tuple[Fiber, int]] = deque()

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True
        while self._fibers.wake_one(self._waiting):
            pass

    def wait(self, timeout: float | None = None) -> bool:
        if not self._is_set:
            self._fibers.park(self._waiting, timeout)
        return self._is_set


class SimThread:
    """Stands for `threading.Thread`."""

    def __init__(self, fibers: Fibers, target: Callable[[], object]) -> None:
        self._fibers = fibers
        self._target = target
        self._fiber: Fiber | None = None

    def start(self) -> None:
        self._fiber = self._fibers.spawn(self._target)

    def join(self, timeout: float | None = None) -> None:
        assert self._fiber is not None
        self._fiber.wait()

    def is_alive(self) -> bool:
        return self._fiber is not None and not self._fiber.is_over


class SimThreading:
    """Stands for the module `threading`, in the process that is being run."""

    def __init__(self, current: Callable[[], Fibers]) -> None:
        self._current = current

    def Lock(self) -> SimLock:  # noqa: N802
        return SimLock(self._current())

    def Condition(self, lock: SimLock | None = None) -> SimCondition:  # noqa: N802
        fibers = self._current()
        return SimCondition(fibers, lock or SimLock(fibers))

    def Event(self) -> SimEvent:  # noqa: N802
        return SimEvent(self._current())

    def Thread(  # noqa: N802
        self, target: Callable[[], object], name: str = "", daemon: bool = True
    ) -> SimThread:
        return SimThread(self._current(), target)
