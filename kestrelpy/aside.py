"""Blocking work on a thread of its own, which may never end.

A file may lie on a mount that is dead, or be a pipe that nobody writes to: whoever opens it waits
for good. Such work gets a thread that serves nothing else and that the end of the process does not
wait for, and a limit of time.

One rule: whatever the work does, its caller goes on at the end of the time.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

_T = TypeVar("_T")
_S = TypeVar("_S")


class TookTooLong(Exception):
    """The work is not over in its time; its thread is left behind."""


async def run_aside(work: Callable[[], _T], seconds: float | None) -> _T:
    """Run it on a thread and return its result; raise what it raises, or TookTooLong. None: wait
    for as long as it takes."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[_T] = loop.create_future()

    def end(act: Callable[[], None]) -> None:
        if not future.done():  # else nobody waits any more
            act()

    def run() -> None:
        act: Callable[[], None]
        try:
            act = partial(future.set_result, work())
        except BaseException as error:
            act = partial(future.set_exception, error)
        try:
            loop.call_soon_threadsafe(end, act)
        except RuntimeError:
            return  # the loop is closed: nobody waits any more

    threading.Thread(target=run, name="kestrelpy-aside", daemon=True).start()
    try:
        async with asyncio.timeout(seconds):
            return await future
    except TimeoutError:
        if future.done() and not future.cancelled():
            return future.result()  # it came at the same moment, or the error is the work's own
        raise TookTooLong from None


async def both(
    first: Callable[[], Awaitable[_T]], second: Callable[[], Awaitable[_S]], *, at_once: bool
) -> tuple[_T, _S]:
    """Return both results, of the second behind the first or `at_once` beside it; raise what one
    raises, when neither runs any more."""
    if not at_once:
        return await first(), await second()
    other = asyncio.ensure_future(second())
    try:
        return await first(), await other
    finally:
        await asyncio.wait([other])
        if not other.cancelled():
            other.exception()  # looked at, so that the loop does not log it
