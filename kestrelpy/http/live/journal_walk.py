"""The totals of all journals for the page: counted whole at first, then renewed in slices.

    first look ──▶ all queues, slice by slice
    each tick  ──▶ the next three slices ──▶ round over? ──▶ the new totals

One rule: a tick looks at a bounded number of queues and segments, however many there are.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final, NamedTuple

from kestrelpy.core import Broker
from kestrelpy.http.call import Call
from kestrelpy.operations import SegmentTotals, Totals, survey, survey_segments

SLICES_PER_TICK: Final = 3  # each of 200 queues, or of 1,000 queues and segments
# Totals that no page has watched for this long are counted anew, whole.
_STALE_MS: Final = 60_000


class JournalTotals(NamedTuple):
    """The totals of all queues, of their segments, and when the last backup was finished."""

    queues: Totals
    segments: SegmentTotals
    last_backup_ms: int | None


class JournalWalk:
    """The walk over all journals of one server."""

    __slots__ = ("_found", "_seen_ms", "_steps", "_tick")

    def __init__(self) -> None:
        self._found: JournalTotals | None = None
        self._seen_ms = 0  # of the last look
        self._steps: Generator[bytes, None, tuple[Totals, SegmentTotals]] | None = None
        self._tick = 0  # of the last step

    async def totals(self, call: Call, tick: int) -> JournalTotals:
        """Return the totals of the last whole round; take the next steps if this tick is new."""
        now_ms = call.now_ms()
        found = self._found
        if found is None or now_ms - self._seen_ms >= _STALE_MS:
            self._steps, self._tick = None, tick
            counted = await call.run(_steps(call.broker, now_ms))
            found = self._found = JournalTotals(*counted, await call.host.last_backup_ms())
        elif tick != self._tick:
            self._tick = tick
            counted_now = self._next(call.broker, now_ms)
            if counted_now is not None:
                found = JournalTotals(*counted_now, await call.host.last_backup_ms())
                self._found = found
        self._seen_ms = now_ms
        return found

    def _next(self, broker: Broker, now_ms: int) -> tuple[Totals, SegmentTotals] | None:
        """Take the steps of one tick; return the totals if that ends a round."""
        steps = self._steps = self._steps or _steps(broker, now_ms)
        try:
            for _ in range(SLICES_PER_TICK):
                next(steps)
        except StopIteration as end:
            self._steps = None
            counted: tuple[Totals, SegmentTotals] = end.value
            return counted
        return None


def _steps(broker: Broker, now_ms: int) -> Generator[bytes, None, tuple[Totals, SegmentTotals]]:
    totals = yield from survey(broker, now_ms)
    return totals, (yield from survey_segments(broker))
