"""What is to be moved from one queue to another, and how far that has got.

      by itself    the dead of one queue that go to one target, for as long as there are any
      asked for    these dead items, or so many of those that wait; it ends, and is answered

One rule: what a target refuses stays where it was. What moves by itself is tried again, later each
time, and an item that the target never takes holds up no other; what somebody asked for ends there.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from kestrelpy.core.queue.queue import Queue
from kestrelpy.core.subscription.outbox import onward

REST_MS: Final = 1000
REST_MS_MAX: Final = 60_000
# Items tried in a row that the target takes at no time: each of them may have to be read.
PASSED_MAX: Final = 16


class TransferRequest:
    """`ids` are dead items; without any (`of_dead` False) `left` of those that wait are meant.

    `moved` counts those that are elsewhere, on disk, `under_way` those that are not yet.
    """

    __slots__ = (
        "by_itself", "ids", "is_over", "is_resting", "left", "moved", "of_dead", "owner",
        "passed", "refusal", "rest_ms", "source", "target", "told", "under_way",
    )  # fmt: skip

    def __init__(
        self, source: Queue, target: bytes, ids: deque[int] | None, left: int = 0,
        by_itself: bool = False, owner: object = None,
    ) -> None:  # fmt: skip
        """`owner` is the shell's own: it is told when the order `is_over`."""
        self.source = source
        self.target = target
        self.of_dead = ids is not None
        self.ids: deque[int] = ids if ids is not None else deque()
        self.left = left
        self.by_itself = by_itself
        self.owner = owner
        self.moved = 0
        self.under_way = 0
        self.passed = 0
        self.refusal = ""
        self.told: set[int] = set()  # items whose refusal was said
        self.rest_ms = REST_MS
        self.is_resting = False
        self.is_over = False

    @property
    def is_done(self) -> bool:
        """Is there nothing more to begin, or to wait for?"""
        return not (self.ids or self.left or self.under_way or self.is_resting)

    def wants(self, id_: int) -> bool:
        """Is it dead still, readable, held by nobody, and does it still go there?"""
        reader = self.source.reader
        death = reader.dead.deaths.get(id_)
        if death is None or id_ in reader.leases or reader.dead.is_hidden(id_):
            return False
        return not self.by_itself or onward(reader.policy, death.reason) == self.target

    def give_up(self, reason: str) -> None:
        """Nothing more of it is begun."""
        self.ids.clear()
        self.left = 0
        self.refusal = self.refusal or reason

    def skip(self) -> bool:
        """The first is not taken and goes behind all others: is the next one tried now?"""
        self.ids.rotate(-1)
        self.passed += 1
        return self.passed < min(len(self.ids), PASSED_MAX)

    def is_news(self, reason: str, item: int) -> bool:
        """Was it not said yet that nothing, or not this `item`, is taken?"""
        if item:
            was_said = item in self.told
            self.told.add(item)
            return not was_said
        was, self.refusal = self.refusal, reason
        return not was

    def rest(self) -> int:
        """Begin nothing for a while: how long, in milliseconds."""
        self.is_resting, self.passed = True, 0
        if len(self.told) > 2 * len(self.ids) + PASSED_MAX:
            self.told.intersection_update(self.ids)  # the others went another way
        rest_ms, self.rest_ms = self.rest_ms, min(self.rest_ms * 2, REST_MS_MAX)
        return rest_ms

    def stored(self) -> None:
        """Its target takes items."""
        self.rest_ms, self.passed = REST_MS, 0
        if self.by_itself:
            self.refusal = ""
