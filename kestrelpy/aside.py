"""Blocking work on a thread of its own, which may never end.

A file may lie on a dead mount, or be a pipe without a writer: an open of it never returns. Such
work gets a limit of time and a thread that serves nothing else; the end of the process does not
wait for that thread.

One rule: whatever the work does, its caller goes on at the end of the time.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import TypeVar

_T = TypeVar("_T")
_S = TypeVar("_S")


class TookTooLong(Exception):
    """The work is not over in its time; its thread is left behind."""


async def run_aside(work: Callable[[], _T], seconds: float | None) -> _T:
    """Run the work on a thread and return its result; raise its error, or TookTooLong after this
    time (None: no limit)."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[_T] = loop.create_future()

    def end(act: Callable[[], None]) -> None:
        if not future.done():  # else the caller waits no more
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
            return  # the loop is closed: the caller waits no more

    threading.Thread(target=run, name="kestrelpy-aside", daemon=True).start()
    try:
        async with asyncio.timeout(seconds):
            return await future
    except TimeoutError:
        if future.done() and not future.cancelled():
            return future.result()  # it came at the same moment, or the error is the work's own
        raise TookTooLong from None


async def run_aside_until(
    work: Callable[[], _T], ending: asyncio.Event, seconds: float
) -> _T:
    """Run the work on a thread and return its result; raise its error, or TookTooLong this time
    after `ending` was set."""
    return await until_ending(run_aside(work, None), ending, seconds)


async def until_ending(
    work: Coroutine[object, object, _T], ending: asyncio.Event, seconds: float
) -> _T:
    """Return the result of the work; cancel it, and raise TookTooLong, this time after `ending` was
    set."""
    running = asyncio.ensure_future(work)
    ended = asyncio.ensure_future(ending.wait())
    try:
        await asyncio.wait([running, ended], return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait([running], timeout=seconds)
        if not running.done():
            raise TookTooLong
        return running.result()
    finally:
        running.cancel()
        ended.cancel()


async def both(
    first: Callable[[], Awaitable[_T]], second: Callable[[], Awaitable[_S]], *, at_once: bool
) -> tuple[_T, _S]:
    """Run one after the other, or both `at_once`, and return both results; raise the error of one
    when neither runs any more."""
    if not at_once:
        return await first(), await second()
    other = asyncio.ensure_future(second())
    try:
        return await first(), await other
    finally:
        await asyncio.wait([other])
        if not other.cancelled():
            other.exception()  # looked at, so that the loop does not log it
