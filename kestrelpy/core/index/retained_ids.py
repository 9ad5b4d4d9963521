"""The ids that a queue with retention retains: every item with a put in the log, done or not.

    log      [ 1 2 3 ][ 4 6 7 ][ 8 9 12 | active ]      5, 10 and 11 are places: no item has them
    retained            4 6 7    8 9 12                  the first segment went: 1 to 3 are gone

A put costs nothing here: each look adds the numbers given since the look before it as one range.

One rule: only the removal of a segment takes an id out.
"""

from __future__ import annotations

from journal.sets import IdSet


class RetainedIds:
    """The retained ids of one queue. `look_ms`: when to check the retention time; None: never."""

    __slots__ = ("_ids", "_seen", "look_ms")

    def __init__(self, ids: IdSet, last_number: int) -> None:
        """`last_number` was given last; numbers up to it that are not in `ids` are not retained."""
        self._ids = ids
        self._seen = last_number
        self.look_ms: int | None = None

    def up_to(self, last_number: int) -> IdSet:
        """Return all retained ids; `last_number` was given last."""
        if last_number > self._seen:
            self._ids.add_range(self._seen + 1, last_number)
            self._seen = last_number
        return self._ids

    def skip(self, place: int) -> None:
        """Leave out a number that is given to no item."""
        self.up_to(place - 1)
        self._seen = place

    def lose(self, first: int, last: int, needed: IdSet) -> None:
        """Drop the ids from `first` to `last` that are not in `needed`: the log lost them."""
        self.up_to(last)
        there = self._ids.between(first, last)  # an item given to a child alone is not
        self._ids.discard_range(first, last, needed.between(first, last).both(there))
