"""A slice of a fleet asks its router now and then, and ends when that one hangs.

    mn ──▶ router ──MN──▶ mn ──▶ ... no answer for five times `takeover` ──▶ the slice ends

Nobody leads clients to a slice whose router hangs. When the slice has ended, a member that works
takes it over. The router starts it again when it goes on.

One rule: a slice that slept as well does not blame its router.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final, cast

from kestrelpy.server.mail.pulse import BEAT_SECONDS, Pulse

log = logging.getLogger("kestrelpy.fleet")

SILENT_AFTER: Final = 5  # times `takeover`
HANGS: Final = "the router of this slice does not answer: others take the slice over"
_ASK: Final = b"mn\r\n"


class RouterWatch(asyncio.Protocol):
    """The connection on which a slice asks its router."""

    __slots__ = ("_end", "_path", "_pulse", "_silent_s", "_transport")

    def __init__(self, path: str, silent_s: float, end: Callable[[str], None]) -> None:
        """`path` is the socket of the router for its slices; `end` ends this process when the
        router has been silent for so long."""
        self._path, self._silent_s, self._end = path, silent_s, end
        self._transport: asyncio.Transport | None = None
        self._pulse = Pulse(asyncio.get_running_loop().time())

    async def run(self) -> None:
        """Ask until the router is silent for too long, or until cancelled."""
        loop = asyncio.get_running_loop()
        try:
            while self._pulse.silent_s(loop.time()) < self._silent_s:
                await self._ask()
                await asyncio.sleep(BEAT_SECONDS)
        finally:
            if self._transport is not None:
                self._transport.abort()
        log.critical("%s", HANGS)
        self._end(HANGS)

    async def _ask(self) -> None:
        if self._transport is None:
            try:
                async with asyncio.timeout(BEAT_SECONDS):
                    await asyncio.get_running_loop().create_unix_connection(self._here, self._path)
            except OSError:  # TimeoutError is one
                return
        if self._transport is not None:
            self._transport.write(_ASK)

    def _here(self) -> RouterWatch:
        return self

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have the methods of asyncio.Transport without being one.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._pulse.beat(asyncio.get_running_loop().time())

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
