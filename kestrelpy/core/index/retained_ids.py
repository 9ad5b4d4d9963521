"""What a queue that retains keeps: the ids of all whose puts are in its log, done or not.

    log      [ 1 2 3 ][ 4 6 7 ][ 8 9 12 | active ]      5, 10 and 11 are places: no item has them
    retained            4 6 7    8 9 12                  the first segment went: 1 to 3 are gone

A put costs nothing here: the numbers that were given since the last look are added in one piece.

One rule: which segments are there says what is kept; nothing else takes an id out.
"""

from __future__ import annotations

from journal.sets.id_set import IdSet


class RetainedIds:
    """Of one queue. `look_ms`: when to look at the time again; None: that makes no difference."""

    __slots__ = ("_ids", "_seen", "look_ms")

    def __init__(self, ids: IdSet, last_number: int) -> None:
        """`last_number` was given last: what is not in `ids` up to there is not kept."""
        self._ids = ids
        self._seen = last_number
        self.look_ms: int | None = None

    def up_to(self, last_number: int) -> IdSet:
        """All that is kept; this number was given last."""
        if last_number > self._seen:
            self._ids.add_range(self._seen + 1, last_number)
            self._seen = last_number
        return self._ids

    def skip(self, place: int) -> None:
        """This number is given to no item."""
        self.up_to(place - 1)
        self._seen = place

    def lose(self, first: int, last: int, needed: IdSet) -> None:
        """Of the items from `first` to `last` only those that are needed are in the log now."""
        self.up_to(last)
        there = self._ids.between(first, last)  # what a child alone was given is not
        self._ids.discard_range(first, last, needed.between(first, last).both(there))
