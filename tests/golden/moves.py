"""The golden journal of a queue to which items are moved, and from which they go, laid out by hand.

    1 and 2 are copies, 1 with its origin settled at once; 3 expired, 4 died: both go elsewhere;
    5 died and is redriven, without its expiry

One rule: no clock, no randomness, no environment.
"""

from __future__ import annotations

from journal.format.checkpoint import Checkpoint
from journal.format.kinds import Kind, Tag
from journal.format.meta import Meta, ended
from journal.format.out_of_order import PlacedEntry
from journal.format.segment import Tally
from journal.format.subscription_state import DeadEntry
from journal.format.transfer import Origin, moved, settled
from journal.sets.id_counts import IdCounts
from journal.snapshot.snapshot import Snapshot
from tests.golden.layout import SERVER, TIME_MS, SegmentBuilder, draft, ids

GENERATION = 1_767_323_000


def moves() -> list[SegmentBuilder | Snapshot]:
    """One segment, and snapshots of its middle and its end."""
    opening = Checkpoint(b"moves", server=SERVER, generation=1)
    one = SegmentBuilder(1, 4096, 1, opening)
    first = Origin(SERVER, b"jobs", 7, GENERATION, 5)
    other = Origin(SERVER, b"a:b", 1 << 40, GENERATION, 6)
    made: Meta = {Tag.ORIGIN: first.name, Tag.GENERATION: GENERATION}
    late: Meta = {
        Tag.EXPIRES_MS: TIME_MS + 9000, Tag.ORIGIN: other.name, Tag.GENERATION: GENERATION,
    }  # fmt: skip
    died: Meta = {Tag.REASON: b"expired", Tag.BYTES: 5}
    buried: Meta = {Tag.REASON: b"abort", Tag.BYTES: 4}
    written = one.batch(
        draft(Kind.PUT, 1, 1, 3, b"first", made),
        settled(1, first, TIME_MS + 1),
        draft(Kind.PUT, 2, 2, 0, b"second", late),
        draft(Kind.PUT, 3, 3, 0, b"third", {Tag.EXPIRES_MS: TIME_MS + 10}),
        draft(Kind.PUT, 4, 4, 0, b"four"),
        draft(Kind.DONE, 2, TIME_MS + 5, ended(1, 6)[0], time_ms=TIME_MS + 6),
        draft(Kind.DEAD, 3, 0, 0, meta=died, time_ms=TIME_MS + 10),
        draft(Kind.DEAD, 4, TIME_MS + 7, 1, meta=buried, time_ms=TIME_MS + 11),
    )
    tally = Tally()
    tally.see_all(written)
    between = Snapshot(
        8, 1, one.at, Checkpoint(b"moves", 5, 5, 1, 4, 3, 1, SERVER, as_of=8),
        ids(1, 3, 4), 14, IdCounts(),
        [DeadEntry(3, 1, 0, b"expired", TIME_MS + 10, 5),
         DeadEntry(4, 2, 1, b"abort", TIME_MS + 11, 4)],
        [], tally, origins={2: other},
    )  # fmt: skip
    written = one.batch(
        moved(3, 5, Origin(SERVER, b"late", 1, GENERATION).as_target, TIME_MS + 12, True),
        moved(4, 4, Origin(SERVER, b"failed", 9, GENERATION).as_target, TIME_MS + 13, False),
        settled(2, other, TIME_MS + 14),
        # As of a body of 16 MiB.
        moved(1, 1 << 24, Origin(SERVER, b"late", 2, GENERATION).as_target, TIME_MS + 15, True),
        draft(Kind.PUT, 5, 5, 0, b"five", {Tag.EXPIRES_MS: TIME_MS + 5000}, time_ms=TIME_MS + 16),
        draft(Kind.DEAD, 5, TIME_MS + 17, 1, meta=buried, time_ms=TIME_MS + 18),
        draft(Kind.REDRIVEN, 5, 6, meta={Tag.EXPIRES_MS: 0}, time_ms=TIME_MS + 19),
        synced=8,
    )
    tally = tally.copy()
    tally.see_all(written)
    after = Snapshot(
        15, 1, one.at, Checkpoint(b"moves", 7, 7, 1, 5, 1, 1, SERVER, as_of=15),
        ids(5), 4, IdCounts(), [], [], tally, placed=[PlacedEntry(5, 6, 5, 4)], ageless=ids(5),
    )  # fmt: skip
    one.batch(synced=15)
    return [one, between, after]
