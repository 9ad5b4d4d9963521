"""Mistakes in the retention of done items, planted like all others.

One rule: as in `plants`, each is a mistake of a tired person, in place of the real code.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from itertools import count
from typing import Any, Final
from unittest import mock

from journal.write.retention import Retention
from kestrelpy.core.index.markers import MarkerIndex
from kestrelpy.core.index.retained_ids import RetainedIds
from kestrelpy.core.queue.browse import Browse
from kestrelpy.core.replay import replay
from kestrelpy.core.subscription.subscription import Subscription
from kestrelpy.core.subscription.where import READY
from kestrelpy.operations.reading import Page
from tests.simulation.plants import Around, around

_SOMETIMES: Final = 11


def one_is_not_retained() -> Any:
    calls = count(1)

    def make(real: Around) -> Around:
        def up_to(retained: RetainedIds, last: int) -> Any:
            is_new = last > retained._seen
            ids = real(retained, last)
            if is_new and next(calls) % _SOMETIMES == 0:
                ids.discard(last)
            return ids

        return up_to

    return around(RetainedIds, "up_to", make)


def a_restart_drops_what_is_retained() -> Any:
    return mock.patch.object(replay, "found", lambda snapshot, met, live, segments: live.copy())


def a_segment_takes_an_item_of_the_next_along() -> Any:
    def make(real: Around) -> Around:
        def lose(retained: RetainedIds, first: int, last: int, needed: Any) -> None:
            real(retained, first, last + 1, needed)

        return lose

    return around(RetainedIds, "lose", make)


def retained_for_half_of_the_time() -> Any:
    def make(real: Around) -> Around:
        def over(retention: Retention, segments: Any, unix_ms: int) -> int:
            return int(real(retention, segments, unix_ms + (retention.ms or 0) // 2))

        return over

    return around(Retention, "over", make)


def retained_up_to_a_tenth_of_the_size() -> Any:
    def make(real: Around) -> Around:
        def change(retention: Retention, ms: int | None, bytes_most: int) -> None:
            real(retention, ms, bytes_most // 10)

        return change

    return around(Retention, "change", make)


def marker_of_what_is_done_forgotten_by_a_restart() -> Any:
    def make(real: Around) -> Around:
        def restore(index: MarkerIndex, given: list[tuple[int, int]]) -> None:
            real(index, given[1:])

        return restore

    return around(MarkerIndex, "restore", make)


def markers_of_what_went_back_after_a_restart() -> Any:
    def make(real: Around) -> Around:
        def lose(index: MarkerIndex, first: int, last: int, live: Any) -> None:
            if first > 1:
                real(index, first, last, live)

        return lose

    return around(MarkerIndex, "lose", make)


def gap_not_counted() -> Any:
    return mock.patch.object(Browse, "note_gap", lambda browse, after, shown: None)


def hole_counted_as_a_gap() -> Any:
    def note_gap(browse: Browse, after: int, shown: int) -> None:
        browse._reader.counters.gaps += 0 < after < shown - 1

    return mock.patch.object(Browse, "note_gap", note_gap)


def what_is_done_called_ready() -> Any:
    return mock.patch.object(Subscription, "state_of", lambda reader, id_: (READY, 0))


def one_left_out_of_many() -> Any:
    def make(real: Around) -> Around:
        def add(page: Page, puts: list[Any], lines: list[bytes]) -> bool:
            return bool(real(page, puts[:3] + puts[4:], lines[:3] + lines[4:]))

        return add

    return around(Page, "add", make)


PLANTS_RETAINED: Final[tuple[Callable[[], contextlib.AbstractContextManager[object]], ...]] = (
    one_is_not_retained, a_restart_drops_what_is_retained,
    a_segment_takes_an_item_of_the_next_along, retained_for_half_of_the_time,
    retained_up_to_a_tenth_of_the_size, marker_of_what_is_done_forgotten_by_a_restart,
    markers_of_what_went_back_after_a_restart, gap_not_counted, hole_counted_as_a_gap,
    what_is_done_called_ready, one_left_out_of_many,
)  # fmt: skip
