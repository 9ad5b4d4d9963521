"""The sweep ends items that are past their expiry, wherever they wait.

    in memory, ready or blocked ──▶ watch ──▶ ended
    delayed, or a disk reference ──▶ ends ──▶ ended: its put need not be read
    blocked, without its body ──▶ ends ──▶ its key is read from the log ──▶ ends again ──▶ ended

An item that is leased does not expire, and a dead letter never does. An item in its place beyond
the frontier has no entry: it expires when it is read.

One rule: the end of an item frees its key, its room and its place in the same step.
"""

from __future__ import annotations

from typing import Final

from kestrelpy.core.item import bare_item
from kestrelpy.core.subscription.key_gate import KeyGate
from kestrelpy.core.subscription.state import SubscriptionState

# Blocked items whose keys are read at once; the sweep stops there until it has them.
SOUGHT_MAX: Final = 64


class ExpirySweep:
    """The expired items of one subscription."""

    __slots__ = ("_gate", "_state")

    def __init__(self, state: SubscriptionState, gate: KeyGate) -> None:
        self._state = state
        self._gate = gate

    def next_due(self) -> int | None:
        """Return when the next item expires, wall clock in ms; None: none does, or the next one is
        being read."""
        due, state = self._state.watch.next_due(), self._state
        if state.ends.entry_count and self._may_seek():
            ends = state.ends.next_due()
            if ends is not None:
                due = ends if due is None else min(due, ends)
        return due

    def sweep(self, now_ms: int, steps: int) -> int:
        """End expired items in at most `steps` steps; return the steps taken."""
        state = self._state
        unix_ms = now_ms + state.clock.offset_ms
        taken = 0
        while taken < steps:
            item = state.watch.pop_due(unix_ms)
            if item is None:
                break
            taken += 1
            if item.id not in state.leases:
                if item.id not in self._gate.whole:
                    state.ready.remove(item)
                self._gate.expire(item, unix_ms)
        while taken < steps and self._may_seek():
            found = state.ends.pop_due(unix_ms)
            if found is None:
                break
            taken += 1
            if found[0]:
                self._end(*found, unix_ms)
        return taken

    def _may_seek(self) -> bool:
        """True if the log is read for few enough keys; those that are known only wait to end."""
        sought = self._state.sought_keys
        return len(sought) < SOUGHT_MAX or list(sought.values()).count(None) < SOUGHT_MAX

    def _end(self, id_: int, size: int, unix_ms: int) -> None:
        """End an item that is past this expiry, if it waits outside the ready list in memory."""
        state, gate = self._state, self._gate
        disk_refs, key = state.ready.disk_refs, state.sought_keys.pop(id_, None)
        if id_ not in state.live or id_ in state.leases or id_ in state.dead.deaths:
            return
        if (expires_ms := state.expiries.get(id_, 0)) > unix_ms:
            state.ends.add(id_, expires_ms, size)  # a lease has put it off
            return
        item = state.delays.items.get(id_)
        if id_ in state.delays:
            state.delays.leave(id_, size)
            key = state.held_keys.get(id_, b"")
        elif id_ in gate.whole or not (id_ in disk_refs.ids or id_ in gate.keys.blocked):
            return  # in memory, and watched
        else:
            key = state.held_keys.get(id_) if key is None else key
            if key is None and len(gate.keys):
                state.sought_keys[id_] = None
                state.look_up(id_)
                return
            disk_refs.remove(id_, size)
        if item is None:
            item = bare_item(id_, size, key=key or b"")
            item.marker = state.markers.of(id_, 0)
        gate.expire(item, unix_ms)
