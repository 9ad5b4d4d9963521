"""When the log counts anew what the subscriptions of a queue with many children need.

    a flush, a removed child, a step of `upto` ──▶ few children: counted with the record itself
                                                └▶ many: counted once for all such records of a
                                                   while, with a record of its own
    the end of an item for one subscription ──▶ one of a few children needs it: nothing to count
                                             └▶ it is not known: counted in the same way

A count looks at every child. If thousands of children were removed one after the other, with a
count each, every removal would look at all children that are left.

One rule: between such a record and the count, items that no subscription needs count as needed:
their segments stay a little longer, and no segment goes too early.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Final

from journal.format import RawDraft
from journal.sets import IdSet
from kestrelpy.core.log import records
from kestrelpy.core.queue.record_reserve import FEW_CHILDREN
from kestrelpy.core.queue.state import QueueState
from kestrelpy.core.subscription import AT_ONCE_MS
from kestrelpy.core.timers import NEVER_MS

# A count takes a microsecond for each child. It is put off by a millisecond for each group of this
# many children, so counting takes a hundredth of the time.
CHILDREN_A_MS: Final = 10
# Children that are asked at the end of an item whether they need it.
ASKED_MAX: Final = 16


class Recount:
    """The counts of one queue; `due_ms` is when the next one is due, NEVER_MS: none is."""

    __slots__ = ("_is_wanted", "_needed", "_queue", "due_ms")

    def __init__(self, queue: QueueState, needed: Callable[[], IdSet]) -> None:
        """`needed` returns the items that any subscription needs, as a set that stays as it is."""
        self._queue = queue
        self._needed = needed
        self._is_wanted = False  # True if a count is to be planned at the next tick
        self.due_ms = NEVER_MS

    def append(self, draft: RawDraft, now_ms: int) -> int:
        """Append a record after which some items may not be needed any more; return its lsn."""
        queue = self._queue
        children = len(queue.children)
        if children <= FEW_CHILDREN or queue.log.failure is not None:
            self.due_ms = NEVER_MS
            return queue.log.append_recounted(draft, self._needed)
        self._plan(now_ms)
        return queue.log.append(draft)

    def _plan(self, now_ms: int) -> None:
        if self.due_ms == NEVER_MS:
            self.due_ms = now_ms + len(self._queue.children) // CHILDREN_A_MS
            self._queue.alarm.need(self.due_ms)

    def is_needed(self, id_: int, most: int | None = None) -> bool:
        """True if any subscription still needs this item. With `most`: ask that many children, and
        if more may need it, have the log count soon."""
        queue = self._queue
        is_for_all = queue.unseen is None or not queue.unseen.is_passed(id_)
        # The children that are asked first end first.
        for child in islice(reversed(queue.children.values()), most):
            if (is_for_all and id_ > child.taken) or id_ in child.live:
                return True
        if id_ in queue.reader.live:
            return True
        if most is None or len(queue.children) <= most:
            return False
        self._is_wanted = True
        queue.alarm.need(AT_ONCE_MS)
        return True

    def look(self, now_ms: int) -> None:
        """Count if it is due. Any record will do: this one repeats the limit of the tokens, which
        holds already. `RecordReserve` has room for it: the record before counts there for more."""
        if self._is_wanted:
            self._is_wanted = False
            self._plan(now_ms)
        if self.due_ms <= now_ms:
            self.due_ms = NEVER_MS
            queue = self._queue
            if queue.log.failure is None:
                unix_ms = now_ms + queue.clock.offset_ms
                draft = records.tokens(queue.reader.tokens_below, unix_ms)
                queue.log.append_recounted(draft, self._needed)
