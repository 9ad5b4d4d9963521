"""The periodic look at idle connections, the memory they hold, and abandoned children.

One rule: it costs nothing if nothing is held, and closes no connection that waits or holds an item.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final

from aiofiles.base import wrap

from kestrelpy.core import Broker
from kestrelpy.protocol import Conversation, LogLimit, address_of
from kestrelpy.server import clock
from kestrelpy.server.connections.connection import Connection
from kestrelpy.server.connections.memory import ConnectionMemory
from kestrelpy.server.process import trim_memory

log = logging.getLogger("kestrelpy")
_log_children = logging.getLogger("kestrelpy.children")

MEMORY_SECONDS: Final = 1.0
IDLE_SECONDS_MAX: Final = 60.0
# The allocator may keep this much of the connections' memory.
TRIM_BYTES: Final = 32 << 20
# Trimming blocks every allocation for up to 30 ms, so it runs seldom.
TRIM_MS: Final = 10_000
# A body without a new byte for this long is given up.
BODY_MS: Final = 60_000
# This many connections are looked at, and closed, before other work has its turn. The end of each
# takes some 50 µs in the next turn.
_LOOKED_MAX: Final = 1000
CLOSED_MAX: Final = 50
# This many abandoned children are logged before other work has its turn.
NAMED_MAX: Final = 50


class ConnectionSweep:
    """Owned by the loop's thread."""

    def __init__(
        self,
        broker: Broker,
        memory: ConnectionMemory,
        connections: Iterable[Connection],
        idle_timeout_ms: Callable[[], int | None],
        log_limit: LogLimit,
    ) -> None:
        self._broker = broker
        self._memory = memory
        self._connections = connections
        self._idle_timeout_ms = idle_timeout_ms
        self._log_limit = log_limit
        self._abandoned: set[bytes] = set()
        self._trim_ms = 0  # not before then

    async def run(self) -> None:
        """Run the sweep until cancelled."""
        looked_ms = clock.now_ms()
        while True:
            idle_ms = self._idle_timeout_ms()
            pause = IDLE_SECONDS_MAX
            if idle_ms is not None:
                pause = min(pause, max(idle_ms / 4000, 0.05))
            due = clock.elapsed() + min(pause, MEMORY_SECONDS)
            await asyncio.sleep(min(pause, MEMORY_SECONDS))
            self._broker.counters.loop_lag_us.add(int((clock.elapsed() - due) * 1_000_000))
            now_ms = clock.now_ms()
            self.look_at_memory(now_ms)
            await self._trim()
            if now_ms - looked_ms >= pause * 1000:
                looked_ms = now_ms
                await self.name_abandoned(now_ms)
                for line in self._log_limit.rest(now_ms):
                    log.warning("%s", line)
                await self.close_idle(now_ms, idle_ms)

    def look_at_memory(self, now_ms: int) -> None:
        """Note what clients have read; while memory is short, stalled clients lose theirs."""
        for holder in self._memory.holders:
            assert isinstance(holder, Connection)
            holder.look_at_memory(now_ms)
        if shed := self._memory.shed(now_ms):
            log.warning(
                "max_connection_memory is used up: %d clients without progress were refused "
                "their items, or closed", shed,
            )  # fmt: skip

    async def name_abandoned(self, now_ms: int) -> None:
        """Log each abandoned child: once, and again after a request for it; some in each turn."""
        found, named = set[bytes](), 0
        for looked, queue in enumerate([*self._broker.queues.values()], 1):
            if named == NAMED_MAX or not looked % _LOOKED_MAX:
                named = 0
                await asyncio.sleep(0)
            child = queue.child
            if child is None or queue.deleted or not child.is_abandoned(now_ms):
                continue
            found.add(child.name)
            if child.name not in self._abandoned:
                why, named = child.why_abandoned(now_ms), named + 1
                _log_children.warning("queue %s: %s", child.name.decode("ascii"), why)
        self._abandoned = found

    async def _trim(self) -> None:
        """Give memory back after a crowd has gone: the allocator keeps much of it."""
        memory = self._memory
        if memory.peak < TRIM_BYTES or memory.used > memory.peak // 4:
            return
        if clock.now_ms() >= self._trim_ms:
            memory.peak = memory.used
            self._trim_ms = clock.now_ms() + TRIM_MS
            await wrap(trim_memory)()

    async def close_idle(self, now_ms: int, idle_ms: int | None) -> None:
        """Close connections without a complete request, or without progress in a body, for too
        long; some in each turn."""
        closed = 0
        for looked, connection in enumerate(list(self._connections), 1):
            if closed == CLOSED_MAX or not looked % _LOOKED_MAX:
                closed = 0
                await asyncio.sleep(0)
            conversation = connection.conversation
            if conversation is None:
                continue  # or it has closed meanwhile
            if _has_stalled(connection, conversation, now_ms, self._memory):
                closed += self._close(connection, conversation, now_ms, "no progress in a body")
            elif (
                idle_ms is not None
                and now_ms - max(conversation.last_command_ms, connection.moved_ms) > idle_ms
                and not self._memory.is_waiting(connection)
                and conversation.is_idle
            ):
                closed += self._close(connection, conversation, now_ms, "idle")

    def _close(
        self, connection: Connection, conversation: Conversation, now_ms: int, why: str
    ) -> int:
        """Close a connection; return how many were closed: one."""
        peer = conversation.holder.name
        end = self._log_limit.take(f"{address_of(peer)}, {why}", now_ms)
        if end is not None:
            log.info("%s: %s, closed%s", peer, why, end)
        connection.close_idle()
        return 1


def _has_stalled(
    connection: Connection, conversation: Conversation, now_ms: int, memory: ConnectionMemory
) -> bool:
    """True if a body that may come on has made no progress for too long."""
    return (
        conversation.parser.is_in_body
        and now_ms - connection.heard_ms > BODY_MS
        and not memory.is_waiting(connection)
        and not conversation.is_blocked
    )
