"""Transfer requests: the items to move from one queue to another, and their progress.

      by itself    the dead letters of one queue that go to one target; lasts until none is left
      asked for    given dead letters, or a number of ready items; it ends, and gets a reply

One rule: an item that the target refuses stays where it was. A request `by_itself` tries it again,
after longer and longer rests, and an item that the target never takes holds up no other. A client's
request ends at the first refusal.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from kestrelpy.core.queue import AnyQueue
from kestrelpy.core.queue_life import QueueLife
from kestrelpy.core.subscription import onward
from kestrelpy.errors import Refused

REST_MS: Final = 1000
REST_MS_MAX: Final = 60_000
# Refused items tried in a row before the request rests: each of them may have to be read back.
PASSED_MAX: Final = 16


class TransferRequest:
    """One request. `ids` are dead letters; with `of_dead` False, it is for `left` ready items.

    `moved` counts the items whose transfer is complete on disk, `under_way` those in transfer.
    """

    __slots__ = (
        "_life", "by_itself", "has_shuffled", "ids", "is_over", "is_resting", "left", "logged",
        "moved", "of_dead", "owner", "passed", "refusal", "refused", "rest_ms", "source", "target",
        "under_way",
    )  # fmt: skip

    def __init__(
        self, source: AnyQueue, target: bytes, ids: deque[int] | None, left: int = 0,
        by_itself: bool = False, owner: object = None,
    ) -> None:  # fmt: skip
        """`owner` belongs to the shell, which notifies it when the request `is_over`."""
        self.source = source
        self._life = QueueLife.of(source)
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
        self.refused: Refused | None = None
        self.logged: set[int] = set()  # items whose refusal was logged
        self.rest_ms = REST_MS
        self.is_resting = False
        self.is_over = False
        self.has_shuffled = False  # True if an item came back to `ids` out of its order

    @property
    def is_done(self) -> bool:
        """True if there is nothing more to begin, or to wait for."""
        return not (self.ids or self.left or self.under_way or self.is_resting)

    @property
    def is_lost(self) -> bool:
        """True if the source is deleted; for a client also if it was made again since."""
        return self.source.deleted or (not self.by_itself and self._life.is_over)

    def wants(self, id_: int) -> bool:
        """True if the item is still dead, readable, not leased, and bound for this target."""
        reader = self.source.reader
        death = reader.dead.deaths.get(id_)
        if death is None or id_ in reader.leases or reader.dead.is_hidden(id_):
            return False
        return not self.by_itself or onward(reader.policy, death.reason) == self.target

    def give_up(self, reason: str, refused: Refused | None = None) -> None:
        """Begin no more items of the request, because of `reason`: the target `refused` one."""
        self.ids.clear()
        self.left = 0
        if not self.refusal:
            self.refusal, self.refused = reason, refused

    def skip(self) -> bool:
        """Put the refused first item after all others; True if the next one is tried now."""
        self.ids.rotate(-1)
        self.passed += 1
        return self.passed < min(len(self.ids), PASSED_MAX)

    def sort(self) -> None:
        """Put the dead letters into the order of their deaths again."""
        deaths = self.source.reader.dead.deaths
        known = [id_ for id_ in self.ids if id_ in deaths]
        self.ids = deque(sorted(known, key=lambda id_: deaths[id_].order))
        self.has_shuffled = False

    def is_news(self, reason: str, item: int) -> bool:
        """True if the refusal of this `item` (0: of all items) was not logged yet."""
        if item:
            was_said = item in self.logged
            self.logged.add(item)
            return not was_said
        was, self.refusal = self.refusal, reason
        return not was

    def rest(self) -> int:
        """Begin nothing for a while; return for how long, in milliseconds."""
        self.is_resting, self.passed = True, 0
        if len(self.logged) > 2 * len(self.ids) + PASSED_MAX:
            self.logged.intersection_update(self.ids)  # the others have left
        rest_ms, self.rest_ms = self.rest_ms, min(self.rest_ms * 2, REST_MS_MAX)
        return rest_ms

    def stored(self) -> None:
        """Note that the target took an item."""
        self.rest_ms, self.passed = REST_MS, 0
        if self.by_itself:
            self.refusal = ""
