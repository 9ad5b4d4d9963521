"""A page of the keys that items hold: the holder, and how many items wait.

One rule: a page looks at a bounded number of keys. Its cursor is a position, so keys that come and
go between two pages move the others.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from journal.format import in_words
from kestrelpy.core import AnyQueue

LOOKED_MAX: Final = 10_000
_PER_LOOK: Final = 500


class KeyFacts(NamedTuple):
    """One key. `holder` is its first item; `lease_holder` has leased that item, if any has."""

    key: str
    holder: int
    holder_state: str
    lease_holder: str | None
    waiting: int


class KeyPage(NamedTuple):
    """The keys of one page; `next` is its cursor, None on the last page."""

    keys: list[KeyFacts]
    next: int | None


def list_keys(queue: AnyQueue, after: int, most: int, *, only_blocked: bool) -> KeyPage:
    """Return the next keys after this position; `only_blocked`: those that an item waits for."""
    reader, found, at = queue.reader, list[KeyFacts](), after
    locks = reader.key_gate.keys
    while at - after < LOOKED_MAX:
        some = locks.some(at, _PER_LOOK)
        for value, holder, waiting in some:
            at += 1
            if not holder or (only_blocked and not waiting):
                continue
            lease = reader.leases.of(holder)
            state = reader.state_of(holder)[0]
            found.append(KeyFacts(
                in_words(value), holder, "leased" if lease else state.decode("ascii"),
                lease.holder.name if lease is not None else None, waiting,
            ))  # fmt: skip
            if len(found) == most:
                return KeyPage(found, at if at < len(locks) else None)
        if len(some) < _PER_LOOK:
            return KeyPage(found, None)
    return KeyPage(found, at)
