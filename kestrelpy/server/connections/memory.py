"""The memory that all connections together hold for requests coming in and replies going out.

    used       0 ───────────────── limit ───────────── 2 x limit
    small      go on ────────────────────────────────▶ wait
    large      go on ─────────────▶ wait, the smallest need first; one goes on beyond the limit

A connection holds the bytes that it sent and that are not executed yet, and the replies that it has
not read. A body or a reply of more than `SMALL_BYTES` is large. The server does not read from a
connection that waits, or does not make its reply. A connection without progress while memory is
short loses the memory it holds.

One rule: one connection may always go on, so that waiting ends.
"""

from __future__ import annotations

from heapq import nsmallest
from typing import Final, Protocol, cast

from kestrelpy.protocol import Talk

# A request or a reply of this size does not wait for another connection's large one.
SMALL_BYTES: Final = 64 << 10
# Smaller amounts are not counted: nearly all connections hold nothing most of the time.
UNCOUNTED_BYTES: Final = 4 << 10
# At most this many connections go on at once, the others a moment later.
RESUMED_MAX: Final = 100
# A connection may be without progress for this long while memory is short.
STALL_MS: Final = 5000


class MemoryHolder(Protocol):
    """A connection, as a holder of memory."""

    held_bytes: int
    moved_ms: int

    def reserve(self, size: int) -> bool:
        """Return whether a reply of this size may be made now."""

    def release(self) -> None:
        """Release the reserved memory."""

    def go_on_with_room(self) -> None:
        """Read on, or make the reply that there is room for now."""

    def shed(self) -> None:
        """Free the memory it holds."""


class ConnectionMemory:
    """One budget for all connections, in bytes. `is_short`: large requests and replies have to
    wait. `peak`: the most that was used since the last look."""

    __slots__ = ("_favoured", "_holders", "_waiting", "is_short", "limit", "peak", "used")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = self.peak = 0
        self.is_short = False
        self._holders: dict[MemoryHolder, None] = {}  # the oldest first
        self._waiting: dict[MemoryHolder, int] = {}  # with the bytes that each still needs
        self._favoured: MemoryHolder | None = None  # goes on beyond the limit

    @property
    def holders(self) -> list[MemoryHolder]:
        """The connections that hold memory, the oldest first."""
        return [*self._holders]

    def hold(self, holder: MemoryHolder, held_bytes: int) -> None:
        """Note how much a connection holds now."""
        if held_bytes < UNCOUNTED_BYTES:
            held_bytes = 0
        freed = holder.held_bytes - held_bytes
        self.used -= freed
        self.peak = max(self.peak, self.used)
        self.is_short = self.used >= self.limit
        holder.held_bytes = held_bytes
        if held_bytes:
            self._holders[holder] = None
        else:
            self._holders.pop(holder, None)
            if self._favoured is holder:
                self._favoured = None
        if freed > 0 and self._waiting:
            self.wake()

    def may_go_on(self, holder: MemoryHolder, needed: int) -> bool:
        """Return whether it may hold this much more; if not, it waits, and `wake` calls it."""
        if not self.is_short or holder is self._favoured:
            return True
        if holder.held_bytes + needed <= SMALL_BYTES and self.used < 2 * self.limit:
            return True
        if self._favoured is None:
            self._favoured = holder
            return True
        self._waiting[holder] = needed
        return False

    def reserve(self, talk: Talk, size: int) -> bool:
        """Return whether there is room for a reply of this size. If not, `talk.wants_bytes` is set
        until there is room."""
        if cast(MemoryHolder, talk.shell).reserve(size):
            return True
        talk.wants_bytes = size
        return False

    def release(self, talk: Talk) -> None:
        """Release the room reserved for a reply that is not made now."""
        cast(MemoryHolder, talk.shell).release()

    def is_waiting(self, holder: MemoryHolder) -> bool:
        """True while it waits for room."""
        return holder in self._waiting

    def change_limit(self, limit: int) -> None:
        """Change the limit, and wake the connections that it leaves room for."""
        self.limit = limit
        self.is_short = self.used >= limit
        self.wake()

    def leave(self, holder: MemoryHolder) -> None:
        """Forget a connection that is gone."""
        self._waiting.pop(holder, None)
        if self._favoured is holder:
            self._favoured = None
        self.hold(holder, 0)
        self.wake()

    def wake(self) -> None:
        """Wake the connections that there is room for, the smallest need first, a few at a time."""
        room = self.limit - self.used
        for holder in nsmallest(RESUMED_MAX, self._waiting, key=self._waiting.__getitem__):
            needed = self._waiting[holder]
            if needed > room and self._favoured is not None:
                return
            if needed > room:
                self._favoured = holder
            room -= needed
            del self._waiting[holder]
            holder.go_on_with_room()
            if self._favoured is holder and not holder.held_bytes:
                self._favoured = None  # it needed nothing any more

    def shed(self, now_ms: int) -> int:
        """While memory is short, free the memory of stalled connections, the oldest first.

        Return their number. If memory is no longer short and others still wait, the connection that
        went on beyond the limit is in their way.
        """
        holders, used_least = self.holders, self.limit // 2
        if not self.is_short:
            holders, used_least = [self._favoured] if self._waiting and self._favoured else [], 0
        shed = 0
        for holder in holders:
            if self.used < used_least:
                break
            if holder not in self._waiting and now_ms - holder.moved_ms >= STALL_MS:
                holder.shed()
                shed += 1
        if self._waiting:
            self.wake()
        return shed
