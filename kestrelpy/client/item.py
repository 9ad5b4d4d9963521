"""One leased item, and its ends.

    LEASED ── confirm ──▶ done, it never comes back
      ├────── abort ────▶ back, one attempt counted        delay=: not before then
      ├────── defer ────▶ back, no attempt counted         delay=: not before then
      ├────── bury ─────▶ a dead letter, with a reason
      └────── LOST: its lease is over ──▶ back; confirm and bury raise LeaseLost

One rule: the first end counts. The thread that renews the lease may find it lost, but never changes
an item that has ended.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from enum import Enum
from typing import Final
from urllib.parse import quote

from kestrelpy.durations import parse_duration_ms

# Limits of the protocol: a whole key, and a reason in it.
_KEY_BYTES_MAX: Final = 250
_REASON_BYTES_MAX: Final = 200
_UNESCAPED: Final = "!$&'()*+,:;=@?"


class LeaseLost(Exception):
    """The lease is over: the item went back, and another worker may have it."""


class State(Enum):
    """The state of an item."""

    LEASED = "leased"
    CONFIRMED = "confirmed"
    ABORTED = "given back"
    DEFERRED = "deferred"
    BURIED = "buried"
    LOST = "lost"


# Ends an item: moves it to a state, with the words of the request.
End = Callable[["Item", State, str], None]


class Item:
    """One leased item."""

    __slots__ = (
        "_calls", "_end", "_lease_ends", "_limit_at", "_lock", "_queue", "_renew_at", "_state",
        "_stopping", "body", "flags", "token",
    )  # fmt: skip

    def __init__(self, queue: str, end: End, body: bytes, flags: int, token: int) -> None:
        """`end` sends the request that ends the item."""
        self.body: Final = body
        self.flags: Final = flags
        self.token: Final = token
        self._queue: Final = queue
        self._end: Final = end
        self._lock: Final = threading.Lock()
        self._state = State.LEASED
        self._stopping = False
        self._calls: list[Callable[[], object]] = []
        self._lease_ends = self._renew_at = 0.0
        self._limit_at: float | None = None

    @property
    def is_lost(self) -> bool:
        """True if the lease is known to be over: the item may be handled a second time."""
        return self._state is State.LOST

    @property
    def should_stop(self) -> bool:
        """True if the item is lost, or has been leased for `work_limit`."""
        return self._stopping or self._state is State.LOST

    def when_stop(self, call: Callable[[], object]) -> None:
        """Call this once, from another thread, when `should_stop` becomes true.

        The call comes at once if it is true already, and never after the item has ended.
        """
        with self._lock:
            if not self.should_stop:
                self._calls.append(call)
                return
        call()

    def confirm(self) -> None:
        """End the item as done; return when the server has recorded it. Raises LeaseLost."""
        self._end(self, State.CONFIRMED, "close")

    def abort(self, delay: str = "") -> None:
        """Give the item back for another try; this delivery counts as an attempt.

        With a delay, like "30s", it comes back after that; without one the queue's settings decide.
        """
        self._end(self, State.ABORTED, "abort" + _delay(delay))

    def defer(self, delay: str = "") -> None:
        """Give the item back without counting an attempt; with a delay, it comes after that."""
        self._end(self, State.DEFERRED, "defer" + _delay(delay))

    def bury(self, reason: str) -> None:
        """Make the item a dead letter: no worker can handle it. Raises LeaseLost.

        `kestrelpy dead ls` shows the reason, cut to 200 bytes.
        """
        room = _KEY_BYTES_MAX - len(f"{self._queue}/abort/dead=/token={self.token}")
        why = quoted(reason, room)
        self._end(self, State.BURIED, f"abort/dead={why}" if why else "abort/dead")

    # -- for the worker and its renewal -----------------------------------------------------

    def _end_once(self, state: State) -> bool:
        """Move from LEASED to another state; False: the item has ended already."""
        with self._lock:
            if self._state is not State.LEASED:
                return False
            self._state = state
            calls, self._calls = self._calls, []
        if state is State.LOST:
            _call_all(calls)
        return True

    def _ask_to_stop(self) -> None:
        with self._lock:
            self._stopping = True
            calls, self._calls = self._calls, []
        _call_all(calls)


def quoted(text: str, room_bytes: int) -> str:
    """Percent-encode a text for a key, cut at whole characters: to the room, and to 200 bytes."""
    taken: list[str] = []
    plain_left, room_left = _REASON_BYTES_MAX, room_bytes
    for character in " ".join(text.split()):
        encoded = quote(character, safe=_UNESCAPED, errors="replace")
        plain_left -= len(character.encode(errors="replace"))
        room_left -= len(encoded)
        if plain_left < 0 or room_left < 0:
            break
        taken.append(encoded)
    return "".join(taken)


def _delay(text: str) -> str:
    # A wrong duration raises here, before the item has ended.
    return f"/delay={text}" if text and parse_duration_ms(text) else ""


def _call_all(calls: list[Callable[[], object]]) -> None:
    for call in calls:
        call()
