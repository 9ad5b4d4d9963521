"""An event loop whose time, threads and sockets are a list of events, moved by hand.

    Timeline   (when, what), earliest first: the only thing that happens by itself
       ├── Moments: the same for one process of several, which may be stopped or killed
       ├── SimLoop: one life of the server. What is ready runs together, as in a real loop's turn
       └── jobs of `run_in_executor` and of the sync threads: each begins and ends after
           delays of its own, so that syncs, reads and removals overlap with everything else

One rule: whatever is random comes from the run's one `Random`, and nothing else decides: no
threads, no sockets, no time, no addresses in memory.
"""

from __future__ import annotations

import asyncio
import heapq
import inspect
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context
from itertools import count
from random import Random
from typing import Any, Final

# A loop that asks for a turn this many times in a row, without an event from outside, spins.
TURNS_ALONE_MAX: Final = 3000
_TURN_US: Final = (8, 20, 20, 20, 40, 400)
_JOB_US: Final = (30, 60, 100, 300, 300, 900, 4_000)
_SLOW_JOB_US: Final = 80_000


class Timeline:
    """The events of a run, by their time in microseconds since its beginning."""

    def __init__(self) -> None:
        self.us = 0
        self.stopped = False
        self.running: Moments | None = None  # the process that had the last event
        self._events: list[_Event] = []
        self._serial = count()

    def at(self, us: int, what: Callable[[], object]) -> None:
        """Call `what` at that time, after the calls that are there for the same moment."""
        now = self.us
        heapq.heappush(self._events, (us if us > now else now, next(self._serial), what, None))

    def after(self, us: int, what: Callable[[], object]) -> None:
        """Call `what` after that time."""
        heapq.heappush(self._events, (self.us + us, next(self._serial), what, None))

    def run_until(self, us: int) -> None:
        """Run all events that are due until then, or until one of them stops the run."""
        events, pop = self._events, heapq.heappop
        while events and not self.stopped and events[0][0] <= us:
            self.us, _, what, moments = pop(events)
            if moments is None:
                what()
            elif moments.is_dead:
                continue
            elif moments.is_stopped:
                moments.due.append(what)
            else:
                self.running = moments
                what()
        if not self.stopped:
            self.us = us


class Moments(Timeline):
    """The timeline as one process sees it. What is due while the process is stopped comes when it
    wakes, in the same order; after its death nothing comes."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._events = timeline._events
        self._serial = timeline._serial
        self.is_dead = False
        self.is_stopped = False
        self.due: deque[Callable[[], object]] = deque()  # calls, while the process is stopped

    @property
    def us(self) -> int:
        """Microseconds since the beginning of the run."""
        return self._timeline.us

    @us.setter
    def us(self, us: int) -> None:
        raise AssertionError("the run alone moves the time")

    def at(self, us: int, what: Callable[[], object]) -> None:
        now = self._timeline.us
        heapq.heappush(self._events, (us if us > now else now, next(self._serial), what, self))

    def after(self, us: int, what: Callable[[], object]) -> None:
        event = (self._timeline.us + us, next(self._serial), what, self)
        heapq.heappush(self._events, event)

    def wake(self) -> None:
        """The process goes on."""
        self.is_stopped = False
        due, self.due = self.due, deque()
        for nth, what in enumerate(due):
            self.after(nth, what)


# The time, a serial number, the call, and the process that has the event; None: the run itself.
_Event = tuple[int, int, Callable[[], object], Moments | None]


class SimTask(asyncio.Task[Any]):
    """A task that sorts into sets the same way in every run."""

    _serials = count()

    def __init__(self, work: Coroutine[Any, Any, Any], loop: asyncio.AbstractEventLoop) -> None:
        self.serial = next(SimTask._serials)
        super().__init__(work, loop=loop)

    def __hash__(self) -> int:
        return self.serial

    __eq__ = object.__eq__


class Listener:
    """The result of `create_server`."""

    def __init__(self, accept: Callable[[], asyncio.Protocol]) -> None:
        self.accept = accept
        self.is_open = True
        self.sockets = [self]

    def getsockname(self) -> tuple[str, int]:
        return ("sim", 22133)

    def close(self) -> None:
        self.is_open = False


class SimLoop(asyncio.AbstractEventLoop):
    """One life of the server. `check` runs after every callback. When the life is `over`, no more
    callbacks run."""

    def __init__(
        self,
        timeline: Timeline,
        random: Random,
        complain: Callable[[str], None],
        check: Callable[[], None] | None,  # None: nothing is checked
    ) -> None:
        self.timeline = timeline
        self.random = random
        self.is_over = False
        self.is_mute = False  # True once the machine is off: the server's replies are lost
        self.turns = 0
        self.turns_alone = 0
        self.jobs = 0
        self.listener: Listener | None = None
        self.http_side: Listener | None = None
        self._complain = complain
        self._check = check
        self._ready: deque[asyncio.Handle] = deque()
        self._arranged = False
        self._begun: list[Coroutine[Any, Any, Any]] = []

    # -- the calls of asyncio ---------------------------------------------------------------

    def time(self) -> float:
        return self.timeline.us / 1e6

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return not self.is_over

    def is_closed(self) -> bool:
        return self.is_over

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self, coro: Coroutine[Any, Any, Any], **named: object
    ) -> asyncio.Task[Any]:
        task = SimTask(coro, self)
        task._log_destroy_pending = False  # crashes are normal here
        self._begun.append(coro)
        return task

    def close_unbegun(self) -> None:
        """Close the coroutines of tasks that had not begun when the life ended."""
        for work in self._begun:
            if inspect.getcoroutinestate(work) == inspect.CORO_CREATED:
                work.close()

    def call_soon(
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        self._arrange()
        return handle

    def call_later(
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)

        def due() -> None:
            if not handle.cancelled():
                self._ready.append(handle)
                self._arrange()
                self.turns_alone = 0

        self.timeline.at(round(when * 1e6), due)
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Do nothing: a cancelled timer is skipped when it is due."""

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if not (self.is_over or self.is_mute):  # without power nothing counts any more
            self._complain(f"on the loop: {context.get('message')}: {context.get('exception')!r}")

    def add_signal_handler(
        self, sig: int, callback: Callable[..., object], *args: Any
    ) -> None:
        """Do nothing: the simulation calls the handlers of signals by name."""

    async def create_server(
        self, protocol_factory: Callable[[], asyncio.Protocol], *args: Any, **named: Any
    ) -> Listener:
        made = Listener(protocol_factory)
        if self.listener is None:
            self.listener = made
        else:
            self.http_side = made
        return made

    async def run_in_executor(
        self, executor: object, func: Callable[..., object], *args: Any
    ) -> object:
        future = self.create_future()

        def done(value: object, error: BaseException | None) -> None:
            if future.cancelled():
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(value)

        self.work(lambda: func(*args), done)
        return await future

    # -- threads ----------------------------------------------------------------------------

    def work(
        self,
        job: Callable[[], object],
        done: Callable[[object, BaseException | None], None] | None = None,
    ) -> None:
        """Run `job` as a thread would, some time later; call `done` on the loop, later still."""
        self.jobs += 1

        def run() -> None:
            if self.is_over:
                return
            value, error = None, None
            try:
                value = job()
            except Exception as failed:
                error = failed
            if self._check is not None:
                self._check()
            if done is not None:
                told = done
                self.timeline.after(self._pause(), lambda: self.outside(told, value, error))
            self.jobs -= 1

        self.timeline.after(self._pause(), run)

    def call_soon_threadsafe(
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> None:
        """Run the callback some time later, as for a call from a thread."""
        self.timeline.after(self._pause(), lambda: self.outside(callback, *args))

    def _pause(self) -> int:
        if self.random.random() < 0.02:
            return self.random.randrange(_SLOW_JOB_US)
        return self.random.choice(_JOB_US)

    # -- turns ------------------------------------------------------------------------------

    def outside(self, callback: Callable[..., object], *args: Any) -> None:
        """Run the callback in the loop's next turn: an event from outside."""
        if not self.is_over:
            self.turns_alone = 0
            self.call_soon(callback, *args)

    def _arrange(self) -> None:
        if not self._arranged and not self.is_over:
            self._arranged = True
            self.timeline.after(self.random.choice(_TURN_US), self._turn)

    def _turn(self) -> None:
        self._arranged = False
        self.turns += 1
        self.turns_alone += 1
        if self.turns_alone == TURNS_ALONE_MAX:
            self._complain(f"the loop took {TURNS_ALONE_MAX} turns and nothing came from outside")
        ready, check = self._ready, self._check
        asyncio._set_running_loop(self)
        try:
            for _ in range(len(ready)):
                if self.is_over:
                    return
                handle = ready.popleft()
                if not handle._cancelled:
                    handle._run()
                    if check is not None:
                        check()
        finally:
            asyncio._set_running_loop(None)
        if ready:
            self._arrange()


class JobQueue:
    """Stands for the SimpleQueue of the syncs: `put` makes an event where a thread would wake."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self._waiting: deque[object] = deque()

    def put(self, job: object) -> None:
        """Have a thread take the job, some time later."""
        if not job:
            return
        loop = self._threads.loop

        def run() -> None:
            self._waiting.append(job)
            worker = self._threads.worker
            assert worker is not None, "a job without a thread"
            worker()

        loop.work(run)

    def get(self) -> object:
        """Return the worker's next job. None ends the worker: the next job gets a new one."""
        return self._waiting.popleft() if self._waiting else None


class Threads:
    """Stands for the module `threading` of the syncs."""

    def __init__(self, loop: SimLoop) -> None:
        self.loop = loop
        self.worker: Callable[[], None] | None = None

    def Thread(self, target: Callable[[], None], **named: object) -> Threads:  # noqa: N802
        self.worker = target
        return self

    def start(self) -> None:
        """Do nothing: the thread waits for jobs."""
