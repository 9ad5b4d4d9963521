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
import time
from collections.abc import Callable
from enum import Enum
from typing import Final
from urllib.parse import quote

from kestrelpy.client.settings import Duration, duration_ms
from kestrelpy.wire.answers import ReceivedItem

# Limits of the protocol: a whole key, and a reason in it.
_KEY_BYTES_MAX: Final = 250
_REASON_BYTES_MAX: Final = 200
_UNESCAPED: Final = "!$&'()*+,:;=@?"
_SHOWN_BYTES: Final = 40  # of a body, in a repr


class LeaseLost(Exception):
    """The lease is over: the item went back, and another worker may have it."""


class ItemState(Enum):
    """The state of an item."""

    LEASED = "leased"
    CONFIRMED = "confirmed"
    ABORTED = "given back"
    DEFERRED = "deferred"
    BURIED = "buried"
    LOST = "lost"


# Ends that are retried until the lease is over; the others happen when it ends.
INSISTENT: Final = (ItemState.CONFIRMED, ItemState.BURIED)


class LeasedItem:
    """One leased item: its facts and its state. `WorkerItem` and `AsyncItem` add the ends."""

    __slots__ = (
        "_calls", "_lease_ends", "_limit_at", "_lock", "_renew_at", "_state", "_stopping",
        "_stored_ms", "attempts", "body", "flags", "id", "key", "queue", "token",
    )  # fmt: skip

    def __init__(self, queue: str, found: ReceivedItem) -> None:
        self.queue: Final = queue
        self.body: Final = found.body
        self.flags: Final = found.flags
        self.token: Final = found.token
        self.attempts: Final = found.attempts
        self.key: Final = found.key
        self.id: Final = found.id
        self._stored_ms: Final = found.stored_ms
        self._lock: Final = threading.Lock()
        self._state = ItemState.LEASED
        self._stopping = False
        self._calls: list[Callable[[], object]] = []
        self._lease_ends = self._renew_at = 0.0
        self._limit_at: float | None = None

    def __repr__(self) -> str:
        facts = [f"token={self.token}", self._state.value, f"attempts={self.attempts}"]
        facts += [f"key={self.key}"] if self.key else []
        body = repr(self.body[:_SHOWN_BYTES])
        more = f" and {len(self.body) - _SHOWN_BYTES} bytes" * (len(self.body) > _SHOWN_BYTES)
        return f"<{type(self).__name__} of {self.queue}: {' '.join(facts)} body={body}{more}>"

    @property
    def age(self) -> float:
        """The seconds since the item was stored, by the clocks of the server and this machine."""
        return max(time.time() - self._stored_ms / 1000, 0.0)

    @property
    def is_lost(self) -> bool:
        """True if the lease is known to be over: the item may be handled a second time."""
        return self._state is ItemState.LOST

    @property
    def should_stop(self) -> bool:
        """True if the item is lost, or has been leased for `work_limit`."""
        return self._stopping or self._state is ItemState.LOST

    def when_stop(self, call: Callable[[], object]) -> None:
        """Call this once when `should_stop` becomes true; a `Worker` calls from another thread.

        The call comes at once if it is true already, and never after the item has ended.
        """
        with self._lock:
            if not self.should_stop:
                self._calls.append(call)
                return
        call()

    # -- for the worker and its renewal -----------------------------------------------------

    def _bury_words(self, reason: str) -> str:
        room = _KEY_BYTES_MAX - len(f"{self.queue}/abort/dead=/token={self.token}")
        why = quoted(reason, room)
        return f"abort/dead={why}" if why else "abort/dead"

    def _end_once(self, state: ItemState) -> bool:
        """Move from LEASED to another state; False: the item has ended already."""
        with self._lock:
            if self._state is not ItemState.LEASED:
                return False
            self._state = state
            calls, self._calls = self._calls, []
        if state is ItemState.LOST:
            _call_all(calls)
        return True

    def _ask_to_stop(self) -> None:
        with self._lock:
            self._stopping = True
            calls, self._calls = self._calls, []
        _call_all(calls)

    def _refuse_second_end(self, state: ItemState) -> None:
        """Raise for an end that comes after another one; return if it does not matter."""
        if self._state is not ItemState.LOST:
            raise ValueError(f"{self.queue}: this item was {self._state.value} already")
        if state in INSISTENT:
            raise LeaseLost(f"{self.queue}: the lease of this item is over, it went back")


class WorkerItem(LeasedItem):
    """One leased item of a `Worker`."""

    __slots__ = ("_end", "_find_number", "_number")

    def __init__(
        self, queue: str, found: ReceivedItem, end: End, find_number: Callable[[WorkerItem], int]
    ) -> None:
        """`end` sends the request that ends the item."""
        super().__init__(queue, found)
        self._end: Final = end
        self._find_number: Final = find_number
        self._number = 0

    @property
    def number(self) -> int:
        """The item's number in its queue, as in `kestrelpy item show`.

        The first use asks the server, in the worker's own thread. Raises LeaseLost if the lease is
        over, or no answer comes in time.
        """
        if not self._number:
            self._number = self._find_number(self)
        return self._number

    def confirm(self) -> None:
        """End the item as done; return when the server has recorded it. Raises LeaseLost."""
        self._end(self, ItemState.CONFIRMED, "close")

    def abort(self, delay: Duration = "") -> None:
        """Give the item back for another try; this delivery counts as an attempt.

        With a delay, "30s" or seconds, it comes back after that; without one the queue's settings
        decide.
        """
        self._end(self, ItemState.ABORTED, "abort" + delay_word(delay))

    def defer(self, delay: Duration = "") -> None:
        """Give the item back without counting an attempt; with a delay, it comes after that."""
        self._end(self, ItemState.DEFERRED, "defer" + delay_word(delay))

    def bury(self, reason: str) -> None:
        """Make the item a dead letter: no worker can handle it. Raises LeaseLost.

        `kestrelpy dead ls` shows the reason, cut to 200 bytes.
        """
        self._end(self, ItemState.BURIED, self._bury_words(reason))


# Ends an item: moves it to a state, with the words of the request.
End = Callable[[WorkerItem, ItemState, str], None]


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


def delay_word(delay: Duration) -> str:
    """Return the option of a delay; raise ValueError before the item has ended."""
    delay_ms = duration_ms(delay) if delay else 0
    return f"/delay={delay_ms}ms" if delay_ms else ""


def _call_all(calls: list[Callable[[], object]]) -> None:
    for call in calls:
        call()
