"""How many records of a queue must find room on the disk, whatever else is refused.

    returns of leases by token, releases of delayed items, settlements of open origins, and, where
    several readers are at work, confirms

With many children, counting takes milliseconds, and each write asks. So the last count is used
again, with what may have come since: three for each record, and one for each number that was given
and each child at work. It is counted anew when that may be far too many, and when a child begins
its work.

One rule: never too few.
"""

from __future__ import annotations

from typing import Final

from kestrelpy.core.queue.state import QueueState

# With so few children, counting takes next to no time.
FEW_CHILDREN: Final = 16
_EACH_RECORD: Final = 3  # an item: its release, its confirm, the settlement of its origin
# What is reserved too much: so many records, items for every child at work, or a part of the whole.
_RECORDS_MORE: Final = 256
_ITEMS_MORE: Final = 16
_PART_MORE: Final = 8


class RecordReserve:
    """Of one queue."""

    __slots__ = ("_at_work", "_count", "_is_known", "_lsn", "_number", "_queue")

    def __init__(self, queue: QueueState) -> None:
        self._queue = queue
        self._is_known = False
        self._count = 0
        self._at_work = 0  # children that somebody took from
        self._lsn = 0
        self._number = 0

    def forget(self) -> None:
        """Count anew: more may come than a record says."""
        self._is_known = False

    def count(self) -> int:
        """At least as many as there are, and few more."""
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

    @property
    def more_at_most(self) -> int:
        """By how many `count` may be above what there are."""
        return max(_RECORDS_MORE, _ITEMS_MORE * self._at_work, self._count // _PART_MORE)

    def exact(self) -> int:
        """Those that there are.

        Confirms that may come before they empty a segment are those of all readers but the last
        one, which gives back the room for its own. Children that nobody took from do not count.
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
        for child in queue.children.values():
            count += len(child.leases.entries) + child.delays.entry_count
            if child.counters.opened:
                self._at_work += 1
                own = len(child.live) + last - child.taken
                confirms += own
                most = max(most, own)
        return count + confirms - most
