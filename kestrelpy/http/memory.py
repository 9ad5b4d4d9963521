"""The memory that all HTTP connections together hold: bodies that came in, answers not yet read.

    a body grows ──▶ `hold`: there is room, or the request is refused
    a long answer ──▶ `reserve`: first come, first served, for a bounded time ──▶ made ──▶ read

One rule: one connection may always go on, so that waiting ends.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

# How long a request waits for room for its answer.
ROOM_SECONDS: Final = 10.0
# A connection that holds no more than this has room up to twice the limit.
SMALL_BYTES: Final = 64 << 10


class HttpMemory:
    """One budget for all connections, in bytes; `limit` returns it."""

    __slots__ = ("_limit", "_waiting", "used")

    def __init__(self, limit: Callable[[], int]) -> None:
        self._limit = limit
        self._waiting: deque[tuple[Share, int, asyncio.Future[None]]] = deque()
        self.used = 0

    def take(self, share: Share, size: int) -> bool:
        """Let the share hold this many bytes more, if there is room."""
        limit = self._limit()
        if share.held + size <= SMALL_BYTES:
            limit *= 2  # a small request does not wait for the large ones of others
        if self.used + size > limit and self.used > share.held:
            return False
        self.used += size
        share.held += size
        return True

    def free(self, share: Share, size: int) -> None:
        """Count bytes as free, and let those go on that wait for them."""
        self.used -= size
        share.held -= size
        while self._waiting:
            first, wanted, future = self._waiting[0]
            if not future.done():
                if not self.take(first, wanted):
                    return
                future.set_result(None)
            self._waiting.popleft()

    async def wait(self, share: Share, size: int) -> bool:
        """Let the share hold this many bytes more when all earlier shares do; return False if
        there is no room in time."""
        if not self._waiting and self.take(share, size):
            return True
        future = asyncio.get_running_loop().create_future()
        self._waiting.append((share, size, future))
        try:
            async with asyncio.timeout(ROOM_SECONDS):
                await future
        except TimeoutError:
            return not future.cancelled()  # the room came at the same moment
        finally:
            future.cancel()  # `free` passes over it
        return True


class Share:
    """The part of one connection; it is freed as a whole at the end of the connection."""

    __slots__ = ("_memory", "held")

    def __init__(self, memory: HttpMemory) -> None:
        self._memory = memory
        self.held = 0

    def hold(self, size: int) -> bool:
        """Hold this many bytes more, if there is room."""
        return self._memory.take(self, size)

    async def reserve(self, size: int) -> bool:
        """Hold this many bytes more when there is room; return False if there is none in time."""
        return await self._memory.wait(self, size)

    def shrink(self, held: int) -> None:
        """Hold no more than this."""
        if held < self.held:
            self._memory.free(self, self.held - held)


UNBOUNDED: Final = HttpMemory(lambda: 1 << 62)
