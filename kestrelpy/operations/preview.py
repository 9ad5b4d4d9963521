"""A preview of a redrive, purge or move: how many items would go, and which refusals there are.

    ids ──▶ dead? leased? readable? ──▶ small enough for the target? room there? ──▶ would go
                └──────────── a refusal, counted by its sentence ─────────────┘

One rule: it changes nothing and reads no body, so a key that the target would not find is not seen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from kestrelpy.core import AnyQueue, Broker


class Preview:
    """Counts the items that would go to `target`; None: removed, or back into their own queue."""

    __slots__ = ("_bytes_left", "_count_left", "_item_bytes", "_queue", "_target", "go", "refused")

    def __init__(self, queue: AnyQueue, broker: Broker, target: bytes | None) -> None:
        self._queue = queue
        self._target = target.decode("ascii") if target is not None else ""
        self.go = 0
        self.refused: Counter[str] = Counter()
        self._item_bytes = self._count_left = self._bytes_left = float("inf")
        if target is not None:
            self._know(broker.queues.get(target), broker, target)

    def _know(self, there: AnyQueue | None, broker: Broker, target: bytes) -> None:
        """Take the limits of the target; a queue that is not there yet has those of its name."""
        policy = there.policy if there is not None else broker.policy_of(target, b"")
        self._item_bytes = policy.max_item_bytes
        if there is not None and there.passes_on:
            return  # its children have limits of their own
        if policy.bounded and not policy.discard_old_when_full:
            held = (0, 0)
            if there is not None:
                ready, delays = there.reader.ready, there.reader.delays
                held = ready.count + delays.count, ready.bytes + delays.bytes
            if policy.max_items is not None:
                self._count_left = max(policy.max_items - held[0], 0)
            if policy.max_bytes is not None:
                self._bytes_left = max(policy.max_bytes - held[1], 0)

    def look(self, ids: Iterable[int]) -> None:
        """Count these dead letters in."""
        reader = self._queue.reader
        for id_ in ids:
            death = reader.dead.deaths.get(id_)
            if death is None:
                self.refused["it is no dead letter"] += 1
            elif id_ in reader.leases:
                self.refused["it is leased"] += 1
            elif self._target and reader.dead.is_hidden(id_):
                self.refused["its body cannot be read"] += 1
            else:
                self._take(death.body_bytes)

    def look_at_ready(self, count: int) -> None:
        """Count the next ready items in; their sizes are not looked at."""
        fits = int(min(count, self._count_left))
        self.go += fits
        if fits < count:
            self.refused[f"queue {self._target} is full"] += count - fits

    def _take(self, size: int) -> None:
        if size > self._item_bytes:
            self.refused[f"it is larger than max_item_size of queue {self._target}"] += 1
        elif self._count_left < 1 or self._bytes_left < size:
            self.refused[f"queue {self._target} is full"] += 1
        else:
            self._count_left -= 1
            self._bytes_left -= size
            self.go += 1
