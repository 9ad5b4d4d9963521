"""How many records of a queue must find room on the disk, whatever else is refused.

    nacks of leases by token, releases of delayed items, settlements of open origins, and, where
    there are several subscriptions, confirms

With many children a count takes milliseconds, and each write needs one. So the reserve uses the
last count again and adds what may have come since: three for each record, and for each number that
was given one per child at work. It counts anew when the sum may be far too high, and when a child
begins its work.

One rule: the count is never too low.
"""

from __future__ import annotations

from typing import Final

from kestrelpy.core.queue.state import QueueState

# Up to this number of children, a count takes next to no time.
FEW_CHILDREN: Final = 16
_EACH_RECORD: Final = 3  # an item: its release, its confirm, the settlement of its origin
# The count may be too high by the largest of these: a number of records, a number of items for each
# child at work, or one part in eight of the whole.
_RECORDS_MORE: Final = 256
_ITEMS_MORE: Final = 16
_PART_MORE: Final = 8


class RecordReserve:
    """The reserve of one queue."""

    __slots__ = ("_at_work", "_count", "_is_known", "_lsn", "_number", "_queue")

    def __init__(self, queue: QueueState) -> None:
        self._queue = queue
        self._is_known = False
        self._count = 0
        self._at_work = 0  # children with a consumer that took an item
        self._lsn = 0
        self._number = 0

    def forget(self) -> None:
        """Count anew next time: more may come than the records since the last count say."""
        self._is_known = False

    def count(self) -> int:
        """Return at least the number of records that `exact` counts, and little more."""
        queue = self._queue
        if len(queue.children) <= FEW_CHILDREN:
            return self.exact()
        more = (queue.log.lsn_appended - self._lsn) * _EACH_RECORD
        more += (queue.last_number - self._number) * self._at_work
        if not self._is_known or more > self.more_at_most:
            self._count, more = self.exact(), 0
            self._lsn, self._number = queue.log.lsn_appended, queue.last_number
            self._is_known = True
        return self._count + more

    def workers(self) -> int:
        """Return how many children confirm the items, as of the last count."""
        return self._at_work

    def scattered(self) -> int:
        """Return how many items have a place of their own: delayed ones, and those that came back
        late. With many children it does not look at the children."""
        queue = self._queue
        reader = queue.reader
        count = reader.out_of_order.count - reader.ready.blocked
        if queue.children and len(queue.children) <= FEW_CHILDREN:
            for child in queue.children.values():
                count += child.out_of_order.count - child.ready.blocked
        return max(count, 0)

    @property
    def more_at_most(self) -> int:
        """The most by which `count` may be above `exact`."""
        return max(_RECORDS_MORE, _ITEMS_MORE * self._at_work, self._count // _PART_MORE)

    def exact(self) -> int:
        """Count the records that must find room.

        The confirms of all subscriptions but one may come without emptying a segment; those of the
        last one free the room that they need. A child without a consumer that took an item does not
        count, but while there is such a child, no confirms of others empty a segment.
        """
        queue = self._queue
        count = len(queue.reader.leases.entries) + queue.reader.delays.entry_count
        count += len(queue.origins)
        if queue.unseen is not None:
            count += queue.unseen.due.count
        self._at_work = 0
        if not queue.children:
            return count
        last = queue.last_number
        confirms = most = len(queue.reader.live)
        is_pinned = False
        for child in queue.children.values():
            count += len(child.leases.entries) + child.delays.entry_count
            if child.counters.opened:
                self._at_work += 1
                own = len(child.live) + last - child.taken
                confirms += own
                most = max(most, own)
            else:
                is_pinned = True
        if is_pinned:
            most = 0
        return count + confirms - most
