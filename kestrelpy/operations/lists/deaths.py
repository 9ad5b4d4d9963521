"""The dead letters of a queue: pages of them, groups by reason, and those that match a filter.

    all dead letters, by id ──▶ after the cursor ──▶ filter ──▶ a page, its cursor

One rule: each call looks at a bounded number of dead letters, and says where it stopped.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final, NamedTuple

from journal.format import DeadEntry
from kestrelpy.core import AnyQueue
from kestrelpy.operations.ports import PAUSE

# A look at one dead letter takes about 2 us.
LOOKED_MAX: Final = 1000
COUNTED_MAX: Final = 200_000
# Slices of a page whose filter matches few: 10,000 dead letters, 20 ms.
_PAGE_SLICES: Final = 10
REASONS_MAX: Final = 10_000

_Bytes = bytes  # where a field of that name hides the type


class DeathFilter(NamedTuple):
    """A filter of dead letters. Times are on the wall clock; 0 and None: any."""

    reason: bytes | None = None
    died_from_ms: int = 0
    died_before_ms: int | None = None
    attempts_least: int = 0

    def matches(self, death: DeadEntry) -> bool:
        """True if this dead letter is meant."""
        if self.reason is not None and death.reason != self.reason:
            return False
        if death.died_ms < self.died_from_ms or death.attempts < self.attempts_least:
            return False
        return self.died_before_ms is None or death.died_ms < self.died_before_ms


class ListedDeath(NamedTuple):
    """A dead letter in a list."""

    id: int
    attempts: int
    reason: _Bytes
    died_ms: int  # on the wall clock
    bytes: int
    is_leased: bool


class DeathGroup(NamedTuple):
    """The dead letters of one reason. Times are on the wall clock; `sample` died last."""

    reason: _Bytes
    items: int
    first_ms: int
    last_ms: int
    sample: int


class Deaths:
    """The dead letters of one queue."""

    __slots__ = ("_queue",)

    def __init__(self, queue: AnyQueue) -> None:
        self._queue = queue

    def some(self, wanted: DeathFilter, after: int, most: int) -> tuple[list[int], int]:
        """Return the next ids that match, and the cursor to go on from; 0: there is no more."""
        dead, found, id_ = self._queue.reader.dead, list[int](), after
        for _ in range(LOOKED_MAX):
            id_ = dead.ids.first_from(id_ + 1)
            if not id_:
                return found, 0
            if wanted.matches(dead.deaths[id_]):
                found.append(id_)
            if len(found) == most:
                break
        return found, id_

    def page(
        self, wanted: DeathFilter, after: int, most: int
    ) -> Generator[bytes, None, tuple[list[int], int]]:
        """Return the same as `some`, after a longer search: it may end with a page that is not
        full and a cursor."""
        found, cursor = list[int](), after
        for _ in range(_PAGE_SLICES):
            some, cursor = self.some(wanted, cursor, most - len(found))
            found += some
            if not cursor or len(found) == most:
                break
            yield PAUSE
        return found, cursor

    def facts(self, ids: list[int]) -> list[ListedDeath]:
        """Return the facts of these dead letters, without those that are gone."""
        reader = self._queue.reader
        deaths = (reader.dead.deaths.get(id_) for id_ in ids)
        return [
            ListedDeath(
                death.item, death.attempts, death.reason, death.died_ms, death.body_bytes,
                death.item in reader.leases,
            )
            for death in deaths if death is not None
        ]  # fmt: skip

    def reasons(self) -> Generator[bytes, None, tuple[list[DeathGroup], bool]]:
        """Return the groups by reason, the largest first, and whether they have all dead letters.

        The oldest COUNTED_MAX are counted; reasons after the first REASONS_MAX are left out.
        """
        dead, groups, id_, is_complete = self._queue.reader.dead, dict[bytes, list[int]](), 0, True
        for looked in range(1, COUNTED_MAX + 1):
            id_ = dead.ids.first_from(id_ + 1)
            if not id_:
                break
            death = dead.deaths[id_]
            group = groups.get(death.reason)
            if group is not None:
                group[0] += 1
                if death.died_ms >= group[2]:
                    group[2:] = [death.died_ms, id_]
                elif death.died_ms < group[1]:
                    group[1] = death.died_ms
            elif len(groups) < REASONS_MAX:
                groups[death.reason] = [1, death.died_ms, death.died_ms, id_]
            else:
                is_complete = False
            if not looked % LOOKED_MAX:
                yield PAUSE
        is_complete = is_complete and not (id_ and dead.ids.first_from(id_ + 1))
        found = [DeathGroup(reason, *figures) for reason, figures in groups.items()]
        return sorted(found, key=lambda each: (-each.items, each.reason)), is_complete
