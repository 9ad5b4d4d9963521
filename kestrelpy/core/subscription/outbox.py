"""What shall go on to another queue: the dead, and what expired where that is to be kept.

      past its expiry, `expire_to` is set ──▶ DEAD, of `expired` ──┐
      attempts used up, or buried ──────────▶ DEAD ────────────────┴──▶ `Reader.outgoing`

The broker takes them from there at the next tick (`moves`).

One rule: death is in the log before anything moves; so a restart finds in the dead line what has
not gone yet, and sends it on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kestrelpy.core.item import Item
from kestrelpy.core.policy import Policy

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kestrelpy.core.subscription.subscription import Reader

EXPIRED: Final = b"expired"
# At so many attempts an item is worth a line in the log.
ATTEMPTS_NOTED: Final = 10
AT_ONCE_MS: Final = 0  # due at the next tick


def onward(policy: Policy, reason: bytes) -> bytes:
    """Where what died of this goes by itself; empty: it stays."""
    return (reason == EXPIRED and policy.expire_to) or policy.dead_letter_to


def send_on(reader: Reader, dead: Iterable[int]) -> None:
    """These dead items go to another queue, where the policy says so."""
    if reader.policy.expire_to or reader.policy.dead_letter_to:
        reader.outgoing += dead
        reader.alarm.need(AT_ONCE_MS)


def bury(
    reader: Reader, item: Item, attempts: int, began_ms: int, wall_ms: int, reason: bytes
) -> int:
    """It is out of the line and in the dead line; returns the record to wait for."""
    reader._apply_dead(item.id, attempts, reason, wall_ms, item.size)
    reader.marks.keep(item.id, item.marker)
    reader.dead.keep(item, reader.log.backlog is None)
    send_on(reader, (item.id,))
    if reason == EXPIRED and reader.log.is_full:
        return 0  # a restart finds it in the line, past its expiry
    return reader.log.dead(item, attempts, began_ms, wall_ms, reason)


def note_attempts(reader: Reader, id_: int) -> None:
    """It came back so often that somebody should look, long before it is dead."""
    most = reader.policy.max_attempts
    ends = f"at max_attempts = {most} it is dead" if most is not None else "max_attempts is none"
    name = reader.name.decode("ascii", "replace")
    reader.notes.append(f"queue {name}: item {id_} came back {ATTEMPTS_NOTED} times; {ends}")
    reader.ask()
