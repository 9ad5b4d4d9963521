"""Blocking work on a thread of its own, which may never end.

A file may lie on a mount that is dead, or be a pipe that nobody writes to: whoever opens it waits
for good. Such work gets a thread that serves nothing else and that the end of the process does not
wait for, and a limit of time.

One rule: whatever the work does, its caller goes on at the end of the time.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")


class TookTooLong(Exception):
    """The work is not over in its time; its thread is left behind."""


async def run_aside(work: Callable[[], _T], seconds: float | None) -> _T:
    """Run it on a thread and return its result; raise what it raises, or TookTooLong. None: wait
    for as long as it takes."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[_T] = loop.create_future()

    def tell(result: _T | None, error: BaseException | None) -> None:
        if future.done():
            return  # nobody waits any more
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        result: _T | None = None
        failure: BaseException | None = None
        try:
            result = work()
        except BaseException as error:
            failure = error
        try:
            loop.call_soon_threadsafe(tell, result, failure)
        except RuntimeError:
            return  # the loop is closed: nobody waits any more

    threading.Thread(target=run, name="kestrelpy-aside", daemon=True).start()
    try:
        return await asyncio.wait_for(future, seconds)
    except TimeoutError:
        if future.done() and not future.cancelled():
            raise  # the work's own
        raise TookTooLong from None
