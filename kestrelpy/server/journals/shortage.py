"""A shortage of descriptors or memory: the pauses between attempts, and its lines in the log.

    a file could not be opened ──▶ a pause, longer each time ──▶ tried again ──▶ ... ──▶ over

One rule: nothing was written and nothing is lost, so no work is given up. One line says that the
shortage began and one that it is over, however many wait.
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

# An attempt costs microseconds, so the end of a shortage is noticed soon; a lasting one costs ten
# thousand queues less than a tenth of the loop's time.
PAUSE_SECONDS: Final = 0.1
PAUSE_SECONDS_MAX: Final = 1.0
# A shortage is over after this long without a failed attempt: so a crowd that comes and goes makes
# one pair of lines in the log.
OVER_SECONDS: Final = 1.0


class Shortage:
    """Owned by the loop's thread. `count` jobs wait for their next attempt."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._tries: dict[object, int] = {}
        self._most = 0
        self._began = 0.0
        self._is_named = False
        self._ends: asyncio.TimerHandle | None = None

    @property
    def count(self) -> int:
        """The number of jobs that wait."""
        return len(self._tries)

    def pause(self, who: object, path: str, error: OSError) -> float:
        """Count a failed attempt; return how many seconds `who` waits before the next one."""
        tries = self._tries[who] = self._tries.get(who, 0) + 1
        self._most = max(self._most, len(self._tries))
        if self._ends is not None:
            self._ends.cancel()
            self._ends = None
        if not self._is_named:
            self._is_named, self._began = True, self._loop.time()
            log.error(
                "%s: %s: work that needs a file waits and is tried again, nothing is lost",
                error.filename or path, error.strerror,
            )  # fmt: skip
        return min(PAUSE_SECONDS * tries, PAUSE_SECONDS_MAX)

    def over(self, who: object) -> None:
        """Note that `who` succeeded, or gave up."""
        if self._tries.pop(who, None) is not None and not self._tries:
            self._ends = self._loop.call_later(OVER_SECONDS, self._end)

    def _end(self) -> None:
        self._ends, self._is_named = None, False
        seconds = self._loop.time() - self._began - OVER_SECONDS
        most, self._most = self._most, 0
        log.warning(
            "files can be opened again after %.1f s; up to %d waited", seconds, most
        )

    async def retry(
        self, path: str, work: Callable[[], Awaitable[T]], sleep: Sleep = asyncio.sleep
    ) -> T:
        """Do the work again and again until no shortage stops it."""
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
