"""Items become dead letters, and dead letters leave for another queue.

      past its expiry, `expire_to` is set ──▶ DEAD, of `expired` ──┐
      attempts used up, or by request ──────▶ DEAD ────────────────┴──▶ `outgoing`

The broker takes them from `outgoing` at the next tick (`transfers`).

One rule: the log records a death before the item moves. So a restart finds the items that have not
left yet among the dead letters, and sends them on.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kestrelpy.core.item import Item
from kestrelpy.core.log import records
from kestrelpy.core.policy import Policy
from kestrelpy.core.subscription.state import SubscriptionState

EXPIRED: Final = b"expired"
# An item with this number of attempts is worth a line in the log.
ATTEMPTS_NOTED: Final = 10
AT_ONCE_MS: Final = 0  # due at the next tick


def onward(policy: Policy, reason: bytes) -> bytes:
    """Return the queue that receives dead letters with this `reason`; empty: they stay."""
    return (reason == EXPIRED and policy.expire_to) or policy.dead_letter_to


class Outbox:
    """The outbox of one subscription: to its dead letters, and from there to another queue."""

    __slots__ = ("_state",)

    def __init__(self, state: SubscriptionState) -> None:
        self._state = state

    def send_on(self, dead: Iterable[int]) -> None:
        """Send these dead letters to another queue, if the policy names one."""
        state = self._state
        if state.policy.expire_to or state.policy.dead_letter_to:
            state.outgoing += dead
            state.alarm.need(AT_ONCE_MS)

    def dead_letter(
        self, item: Item, attempts: int, began_ms: int, unix_ms: int, reason: bytes,
        has_room: bool = False,
    ) -> int:  # fmt: skip
        """Make a dead letter of an item that is out of the list; return the record to wait for.

        On a full disk the death is recorded only if its record `has_room` of its own: the rest of
        the room is for confirms. Without the record a restart finds the item where it was before.
        """
        state = self._state
        state._apply_dead(item.id, attempts, reason, unix_ms, item.size)
        state.counters.dead += 1
        state.markers.remember(item.id, item.marker)
        state.dead.store(item, state.log.read_ahead is None)
        self.send_on((item.id,))
        if state.log.is_full and not has_room:
            state.dead.unlogged.add(item.id)
            return state.log.lsn_appended
        return state.append(records.dead(item, attempts, began_ms, unix_ms, reason))

    def note_attempts(self, id_: int) -> None:
        """Log an item after ATTEMPTS_NOTED attempts, so that an operator sees it before it dies."""
        state = self._state
        most = state.policy.max_attempts
        ends = "max_attempts is none" if most is None else f"at max_attempts = {most} it is dead"
        name = state.name.decode("ascii", "replace")
        state.notes.append(f"queue {name}: item {id_} came back {ATTEMPTS_NOTED} times; {ends}")
        state.schedule_read()
