"""The golden journal of what is retained, laid out by hand like the others (`layout`).

    1 done · 2 delayed, 3 its marker, done · 4 delayed and cancelled · 5 ready · 6 done

One rule: no clock, no randomness, no environment.
"""

from __future__ import annotations

from journal.format.checkpoint import Checkpoint
from journal.format.kinds import Kind, Tag
from journal.format.meta import ended
from journal.format.out_of_order import PlacedEntry
from journal.format.segment import Tally
from journal.sets.id_counts import IdCounts
from journal.snapshot.snapshot import SegmentState, Snapshot
from tests.golden.layout import SERVER, TIME_MS, SegmentBuilder, draft, ids


def retained() -> list[SegmentBuilder | Snapshot]:
    """A sealed segment without live items, the next segment, and a snapshot between the two."""
    first = SegmentBuilder(1, 2048, 1, Checkpoint(b"retained", server=SERVER, generation=1))
    first.batch(
        draft(Kind.PUT, 1, 1, 0, b"one"),
        draft(Kind.PUT, 2, 0, 0, b"later", {Tag.DUE_MS: TIME_MS + 20}),
        draft(Kind.DONE, 1, TIME_MS + 5, ended(1, 3)[0], time_ms=TIME_MS + 9),
        draft(Kind.RELEASED, 2, 3, time_ms=TIME_MS + 20),
        draft(Kind.DONE, 2, TIME_MS + 25, ended(1, 5)[0], time_ms=TIME_MS + 29),
        draft(Kind.PUT, 4, 0, 0, b"never", {Tag.DUE_MS: TIME_MS + 90_000}),
        draft(Kind.CANCELLED, 4, 0, 5 << 8, time_ms=TIME_MS + 30),
    )
    first.seal(live=0)
    opening = Checkpoint(b"retained", 5, 5, 1, 3, 0, 1, SERVER, as_of=7)
    second = SegmentBuilder(2, 2048, first.lsn, opening, time_ms=TIME_MS + 1000)
    written = second.batch(draft(Kind.PUT, 5, 5, 0, b"ready", time_ms=TIME_MS + 1000), synced=7)
    tally = Tally()
    tally.see_all(written)
    between = Snapshot(
        8, 2, second.at, Checkpoint(b"retained", 6, 6, 1, 4, 1, 1, SERVER, as_of=8),
        ids(5), 5, IdCounts(), [], [SegmentState(1, 1, 4, 0, 0)], tally,
        placed=[PlacedEntry(2, 0, 3, 0), PlacedEntry(4, 0, 0, 0)], retained=ids(1, 2, 4, 5),
    )  # fmt: skip
    second.batch(
        draft(Kind.PUT, 6, 6, 0, b"six", time_ms=TIME_MS + 1001),
        draft(Kind.DONE, 6, TIME_MS + 1002, ended(1, 3)[0], time_ms=TIME_MS + 1003),
        synced=8,
    )
    second.batch(synced=10)
    return [first, second, between]
