"""No descriptor or memory to spare for a moment: who waits for one, and what the log says of it.

    a file could not be opened ──▶ a pause, longer each time ──▶ tried again ──▶ ... ──▶ over

One rule: nothing was written and nothing is lost, so nothing is given up; one line says that it
began and one that it is over, however many wait.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from journal.files import is_shortage

log = logging.getLogger("kestrelpy.shortage")

T = TypeVar("T")
Sleep = Callable[[float], Awaitable[object]]

# An attempt costs microseconds, so a shortage that passes is noticed soon; one that lasts costs ten
# thousand queues less than a tenth of the loop's time.
PAUSE_SECONDS: Final = 0.1
PAUSE_SECONDS_MAX: Final = 1.0
# It is over when nobody was short for so long: a crowd that comes and goes is one story in the log.
OVER_SECONDS: Final = 1.0


class Shortage:
    """Owned by the loop's thread. `count` of them wait."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._tries: dict[object, int] = {}
        self._most = 0
        self._began = 0.0
        self._is_named = False
        self._ends: asyncio.TimerHandle | None = None

    @property
    def count(self) -> int:
        """How many wait."""
        return len(self._tries)

    def pause(self, who: object, path: str, error: OSError) -> float:
        """Count an attempt that failed; how many seconds `who` waits before the next one."""
        tries = self._tries[who] = self._tries.get(who, 0) + 1
        self._most = max(self._most, len(self._tries))
        if self._ends is not None:
            self._ends.cancel()
            self._ends = None
        if not self._is_named:
            self._is_named, self._began = True, self._loop.time()
            log.error(
                "%s: %s: what needs a file waits and is tried again, nothing is lost",
                error.filename or path, error.strerror,
            )  # fmt: skip
        return min(PAUSE_SECONDS * tries, PAUSE_SECONDS_MAX)

    def over(self, who: object) -> None:
        """It was not short this time, or does not try any more."""
        if self._tries.pop(who, None) is not None and not self._tries:
            self._ends = self._loop.call_later(OVER_SECONDS, self._end)

    def _end(self) -> None:
        self._ends, self._is_named = None, False
        seconds = self._loop.time() - self._began - OVER_SECONDS
        most, self._most = self._most, 0
        log.warning(
            "files can be opened again: after %.1f s, for which up to %d waited", seconds, most
        )

    async def retry(
        self, path: str, work: Callable[[], Awaitable[T]], sleep: Sleep = asyncio.sleep
    ) -> T:
        """Do it again and again until it is no shortage that stops it."""
        who = object()
        try:
            while True:
                try:
                    return await work()
                except OSError as error:
                    if not is_shortage(error):
                        raise
                    await sleep(self.pause(who, path, error))
        finally:
            self.over(who)
