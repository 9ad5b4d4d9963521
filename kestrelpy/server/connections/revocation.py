"""A reload takes rights from clients: their waits and leases end, some clients in each turn.

    the reload is taken ──▶ barred, all at once: no wait of theirs is served any more
                               └──▶ ended, a few in each turn: leases go back, waits are refused

Thousands of clients may wait or hold leases, and an end takes up to some milliseconds.

One rule: from the moment of the reload nothing is handed out to a client without the right to it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from kestrelpy.protocol import Conversation
from kestrelpy.server import clock

# One turn ends clients for this long; other requests are answered before the next one.
SLICE_SECONDS: Final = 0.004
# Requests over HTTP in one turn: each has a task of its own, which answers in the next.
CALLS_MAX: Final = 8


class Revocable(Protocol):
    """A request over HTTP."""

    def bar(self) -> bool:
        """Bar this request if a reload took the rights for it; return whether it did."""

    def refuse(self) -> None:
        """Let this request answer that it is refused."""


class Revocation:
    """The clients of one reload that have lost their rights."""

    def __init__(self, touch: Callable[[Conversation], None]) -> None:
        """`touch` lets a caller go on in the next turn."""
        self._touch = touch
        self._talks: deque[Conversation] = deque()
        self._calls: deque[Revocable] = deque()

    def bar(self, talks: Iterable[Conversation | None], calls: Iterable[Revocable]) -> None:
        """Bar those of these clients that have lost their rights: it takes 2 µs for each."""
        self._talks += (talk for talk in talks if talk is not None and talk.bar())
        self._calls += (call for call in calls if call.bar())

    def go_on(self, now_ms: int) -> bool:
        """End the waits and leases of some of the clients; return True if none is left."""
        until, calls = clock.elapsed() + SLICE_SECONDS, CALLS_MAX
        while self._calls and calls:
            self._calls.popleft().refuse()
            calls -= 1
        while self._talks:
            talk = self._talks.popleft()
            if talk.revoke(now_ms):
                self._touch(talk)
            if clock.elapsed() >= until:
                break
        return not (self._talks or self._calls)
