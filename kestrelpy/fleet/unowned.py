"""A slice that no daemon owns, claimed by a tool.

One rule: an owner that has committed within its `takeover` keeps its slice.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from journal.engine import SLICE, Claim, Engine, Fenced, Member, Owner
from kestrelpy.fleet.member import OwnerSeen, look

_LOOK_SECONDS: Final = 0.1


class SliceOwned(Exception):
    """A daemon or another tool owns the slice; the text names it, with the remedy."""


def claim_unowned(
    engine: Engine, member: Member, takeover_s: float, number: int = SLICE, *,
    may_resume: bool = False, clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], object] = time.sleep,
) -> Claim:  # fmt: skip
    """Claim the slice when its owner has released it, or has been silent for its `takeover`.

    `may_resume`: claim it even if an import of a data directory has not ended. Raise SliceOwned or
    OSError.
    """
    seen: OwnerSeen | None = None
    while True:
        owner = engine.owners().get(number)
        before, now_s = seen, clock()
        seen = look(seen, owner, now_s)
        if owner is not None and owner.is_importing and not may_resume:
            raise SliceOwned(
                f"a data directory is being moved in by {owner.member.name}; if that was "
                "interrupted, `kestrelpy fleet import` goes on with it, and with "
                "--give-up removes it"
            )
        if owner is not None and not owner.has_released:
            if before is not None and seen.since_s == now_s:
                raise _owned(owner)
            if now_s - seen.since_s < max(takeover_s, owner.takeover_s):
                pause(_LOOK_SECONDS)
                continue
        try:
            return engine.claim(number, member, 0 if owner is None else owner.epoch)
        except Fenced:
            now = engine.owners().get(number)
            raise _owned(now or owner) from None


def _owned(owner: Owner | None) -> SliceOwned:
    if owner is None:
        return SliceOwned("another process has claimed the slice")
    at = f" at {owner.member.address}" if owner.member.address else ""
    return SliceOwned(f"{owner.member.name}{at} owns the slice; stop it, and all that wait for it")
