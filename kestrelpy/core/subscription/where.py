"""The places of an item in one subscription.

    READY, in the ready list or blocked ──┬──▶ IN_MEMORY   with its body
                                          └──▶ LOGGED      only the log has it

One rule: an item has one place. `Subscription.where` finds it, and `take_out` empties it.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

READY: Final = b"ready"
LEASED: Final = b"lent"
DEAD: Final = b"dead"
DELAYED: Final = b"delayed"
DONE: Final = b"done"


class Where(Enum):
    """Where an item is."""

    IN_MEMORY = "ready, and in memory"
    LOGGED = "ready, and only the log has it"
    LOST = "ready by the records, and the log cannot be read there"
    DELAYED = "not due yet"
    LEASED = "leased, dead or not"
    DEAD = "a dead letter that is not leased"
    GONE = "confirmed, expired, removed, or never here"


# In the words of `stats`.
WORDS: Final = {
    Where.IN_MEMORY: READY, Where.LOGGED: READY, Where.LOST: READY, Where.DELAYED: DELAYED,
    Where.LEASED: LEASED, Where.DEAD: DEAD, Where.GONE: DONE,
}  # fmt: skip
