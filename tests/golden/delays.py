"""The golden journal of what is delayed and released, laid out by hand like the others (`layout`).

    1 plain, given back with a delay; 2 put with a delay; 3, released, is the place of 2 ...
    1 and 4 were delayed by a duration, 2 and 6 until a date

One rule: no clock, no randomness, no environment.
"""

from __future__ import annotations

from journal.format.checkpoint import Checkpoint
from journal.format.kinds import Kind, Tag
from journal.format.lease import LeaseEntry
from journal.format.meta import Meta
from journal.format.out_of_order import DelayedEntry, PlacedEntry
from journal.format.segment import Tally
from journal.sets.id_counts import IdCounts
from journal.snapshot.snapshot import Snapshot
from tests.golden.layout import SERVER, TIME_MS, SegmentBuilder, draft, ids

DUE_MS = TIME_MS + 90_000
RUNS_MS = DUE_MS + 86_400_000  # the wall clock was set back by a day


def delays() -> list[SegmentBuilder | Snapshot]:
    """One segment, and a snapshot of its middle."""
    opening = Checkpoint(b"delays", server=SERVER, generation=1)
    one = SegmentBuilder(1, 4096, 1, opening)
    token, minute = 1 << 20, 60_000
    off: Meta = {Tag.DUE_MS: DUE_MS, Tag.REASON: b"abort", Tag.BYTES: 5, Tag.RUNS_MS: RUNS_MS}
    leased = LeaseEntry(
        4, token, 1, TIME_MS + 30, 5, TIME_MS + 30, TIME_MS + minute, runs_ms=RUNS_MS
    )
    other: Meta = {Tag.EXPIRES_MS: DUE_MS, Tag.DUE_MS: TIME_MS + 25}
    written = one.batch(
        draft(Kind.PUT, 1, 1, 0, b"plain"),
        draft(Kind.PUT, 2, 0, 0, b"later", {Tag.DUE_MS: TIME_MS + 20}),
        draft(Kind.RELEASED, 2, 3, time_ms=TIME_MS + 20),
        draft(Kind.PUT, 4, 0, 0, b"other", other | {Tag.RUNS_MS: RUNS_MS - minute}),
        draft(Kind.RELEASED, 4, 5, time_ms=TIME_MS + 25),
        draft(Kind.PUT, 6, 0, 0, b"last", {Tag.DUE_MS: DUE_MS}),
        draft(Kind.RETURNED, 1, TIME_MS + 10, 1, meta=off),
        leased.leased(),
    )
    tally = Tally()
    tally.see_all(written)
    attempts = IdCounts()
    attempts.set(1, 1)
    between = Snapshot(
        8, 1, one.at, Checkpoint(b"delays", 7, 7, 1 << 21, 4, 4, 1, SERVER, as_of=8),
        ids(1, 2, 4, 6), 19, attempts, [], [], tally, [leased],
        delayed=[
            DelayedEntry(1, DUE_MS, 5, b"\x01\x01\x00\x00\x00A", RUNS_MS),
            DelayedEntry(6, DUE_MS, 4),
        ],
        placed=[PlacedEntry(1, 0, 1, 5), PlacedEntry(2, 3, 3, 5), PlacedEntry(4, 5, 5, 5)],
    )  # fmt: skip
    one.batch(
        draft(Kind.RELEASED, 1, 7, time_ms=DUE_MS),
        draft(Kind.DONE, 2, TIME_MS + 40, 1 | 5 << 8, time_ms=TIME_MS + 41),
        draft(Kind.CANCELLED, 6, 0, 4 << 8, time_ms=TIME_MS + 42),
        draft(Kind.PUT, 8, 8, 0, b"plain again", time_ms=DUE_MS),
        synced=8,
    )
    one.batch(synced=12)
    return [one, between]
