"""What all connections together hold in memory of requests that come in and answers that go out.

    used       0 ───────────────── limit ───────────── 2 x limit
    small      go on ────────────────────────────────▶ wait
    large      go on ─────────────▶ wait, those that need least first; one goes on beyond it

A connection holds what it has sent and is not carried out yet, and what it was answered and has not
read. Large is a body, or an answer, of more than `SMALL_BYTES`. A connection that waits is not read
from, or its answer is not made; one that moves nothing while memory is short loses what it holds.

One rule: there is always one connection that may go on, so that waiting ends.
"""

from __future__ import annotations

from heapq import nsmallest
from typing import Final, Protocol, cast

from kestrelpy.protocol.ports import Talk

# A request or an answer of this size does not wait for another connection's large one.
SMALL_BYTES: Final = 64 << 10
# Less than that is not counted: nearly all connections hold nothing most of the time.
UNCOUNTED_BYTES: Final = 4 << 10
# So many go on at once: those behind them a moment later.
WOKEN_MAX: Final = 100
# So long a connection may move nothing while memory is short.
STALL_MS: Final = 5000


class Holder(Protocol):
    """A connection, as far as its memory goes."""

    held_bytes: int
    moved_ms: int

    def reserve(self, size: int) -> bool:
        """Return whether it may be given so large an answer now."""

    def release(self) -> None:
        """Give back what was reserved."""

    def go_on_with_room(self) -> None:
        """Read on, or have the answer made that there is room for now."""

    def shed(self) -> None:
        """Let go of what it holds."""


class ConnectionMemory:
    """One budget for all connections, in bytes. `is_short`: what is large has to wait; `peak`: the
    most that was used since somebody looked.
    """

    __slots__ = ("_favoured", "_holders", "_waiting", "is_short", "limit", "peak", "used")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = self.peak = 0
        self.is_short = False
        self._holders: dict[Holder, None] = {}  # the oldest first
        self._waiting: dict[Holder, int] = {}  # with how much each still needs
        self._favoured: Holder | None = None  # goes on beyond the limit

    @property
    def holders(self) -> list[Holder]:
        """Those that hold anything, the oldest first."""
        return [*self._holders]

    def hold(self, holder: Holder, held_bytes: int) -> None:
        """Take note of how much it holds now."""
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

    def may_go_on(self, holder: Holder, needed: int) -> bool:
        """Return whether it may hold so much more; else it waits, and is told when it may."""
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
        """Return whether there is room for so large an answer; else `talk.wants_bytes` is set, and
        is 0 again when there is.
        """
        if cast(Holder, talk.shell).reserve(size):
            return True
        talk.wants_bytes = size
        return False

    def release(self, talk: Talk) -> None:
        """Give back what was reserved for an answer that is not made now."""
        cast(Holder, talk.shell).release()

    def is_waiting(self, holder: Holder) -> bool:
        """True while it waits for room."""
        return holder in self._waiting

    def change_limit(self, limit: int) -> None:
        """Take over another limit, and go on with those there is room for."""
        self.limit = limit
        self.is_short = self.used >= limit
        self.wake()

    def leave(self, holder: Holder) -> None:
        """Forget a connection that is gone."""
        self._waiting.pop(holder, None)
        if self._favoured is holder:
            self._favoured = None
        self.hold(holder, 0)
        self.wake()

    def wake(self) -> None:
        """Have those go on that there is room for, those that need least first; a few at a time."""
        room = self.limit - self.used
        for holder in nsmallest(WOKEN_MAX, self._waiting, key=self._waiting.__getitem__):
            needed = self._waiting[holder]
            if needed > room and self._favoured is not None:
                return
            if needed > room:
                self._favoured = holder
            room -= needed
            del self._waiting[holder]
            holder.go_on_with_room()
            if self._favoured is holder and not holder.held_bytes:
                self._favoured = None  # it wanted nothing any more

    def shed(self, now_ms: int) -> int:
        """While memory is short, let go what stalled connections hold, the oldest first.

        Return how many there were. Where memory is not short any more and others still wait, the
        one that went on beyond the limit is in their way.
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
