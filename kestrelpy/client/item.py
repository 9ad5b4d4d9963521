"""One item in hand, and how it ends.

    HELD ── confirm ──▶ done, it never comes back
      ├──── abort ────▶ back, one attempt counted          delay=: not before then
      ├──── defer ────▶ back, no attempt counted           delay=: not before then
      ├──── bury ─────▶ to the dead line, with a reason
      └──── LOST: its lease is over ──▶ back; confirm and bury raise LeaseLost

One rule: an item ends once, by whoever says so first; the thread that renews its lease may find
that it is lost, and changes nothing that was ended.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from enum import Enum
from typing import Final
from urllib.parse import quote

from kestrelpy.durations import parse_duration_ms

# What the wire holds: a whole key, and a reason in it.
_KEY_BYTES_MAX: Final = 250
_REASON_BYTES_MAX: Final = 200
_UNESCAPED: Final = "!$&'()*+,:;=@?"


class LeaseLost(Exception):
    """The item is not ours any more: it went back, and somebody else may have it."""


class State(Enum):
    """What became of an item."""

    HELD = "held"
    CONFIRMED = "confirmed"
    ABORTED = "given back"
    DEFERRED = "deferred"
    BURIED = "buried"
    LOST = "lost"


# Takes an item out of our hands, to a state, with the words of the request that does it.
End = Callable[["Item", State, str], None]


class Item:
    """One item in hand."""

    __slots__ = (
        "_calls", "_end", "_lease_ends", "_limit_at", "_lock", "_queue", "_renew_at", "_state",
        "_stopping", "body", "flags", "token",
    )  # fmt: skip

    def __init__(self, queue: str, end: End, body: bytes, flags: int, token: int) -> None:
        """`end` ends the item as the worker does."""
        self.body: Final = body
        self.flags: Final = flags
        self.token: Final = token
        self._queue: Final = queue
        self._end: Final = end
        self._lock: Final = threading.Lock()
        self._state = State.HELD
        self._stopping = False
        self._calls: list[Callable[[], object]] = []
        self._lease_ends = self._renew_at = 0.0
        self._limit_at: float | None = None

    @property
    def is_lost(self) -> bool:
        """Is the lease known to be gone? Then whatever is done now may be done twice."""
        return self._state is State.LOST

    @property
    def should_stop(self) -> bool:
        """Is it lost, or has it been in hand for as long as `work_limit` allows?"""
        return self._stopping or self._state is State.LOST

    def when_stop(self, call: Callable[[], object]) -> None:
        """Have this called once when `should_stop` becomes true, from another thread.

        It is called at once if that is true already, and never after the item has ended.
        """
        with self._lock:
            if not self.should_stop:
                self._calls.append(call)
                return
        call()

    def confirm(self) -> None:
        """Done; returns when the server has written that down. Raises LeaseLost."""
        self._end(self, State.CONFIRMED, "close")

    def abort(self, delay: str = "") -> None:
        """Give it back, for somebody to try again; this delivery counts as an attempt.

        With a delay, like "30s", not before then; without one the queue's settings say when.
        """
        self._end(self, State.ABORTED, "abort" + _delay(delay))

    def defer(self, delay: str = "") -> None:
        """Give it back without counting an attempt; with a delay, like "30s", not before then."""
        self._end(self, State.DEFERRED, "defer" + _delay(delay))

    def bury(self, reason: str) -> None:
        """To the dead line now: nobody can do this one. Raises LeaseLost.

        The reason stands in `kestrelpy dead ls`, cut short to 200 bytes.
        """
        room = _KEY_BYTES_MAX - len(f"{self._queue}/abort/dead=/token={self.token}")
        why = quoted(reason, room)
        self._end(self, State.BURIED, f"abort/dead={why}" if why else "abort/dead")

    # -- for the worker and its renewal -----------------------------------------------------

    def _leave_hand(self, state: State) -> bool:
        """From HELD to another state, once; False: it is not held any more."""
        with self._lock:
            if self._state is not State.HELD:
                return False
            self._state = state
            calls, self._calls = self._calls, []
        if state is State.LOST:
            _call_all(calls)
        return True

    def _tell_to_stop(self) -> None:
        with self._lock:
            self._stopping = True
            calls, self._calls = self._calls, []
        _call_all(calls)


def quoted(text: str, room_bytes: int) -> str:
    """Percent-encoded for a key, cut at whole characters: to the room there, and to 200 bytes."""
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
    # A bad one is refused here, before the item leaves our hand.
    return f"/delay={text}" if text and parse_duration_ms(text) else ""


def _call_all(calls: list[Callable[[], object]]) -> None:
    for call in calls:
        call()
