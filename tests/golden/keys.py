"""The golden journal of keys, laid out by hand like the others (`layout`).

    1 A,B delayed, 5 its place · 2 A,B waits · 3 typed values, leased by token · 4 no key

One rule: no clock, no randomness, no environment.
"""

from __future__ import annotations

from journal.format.checkpoint import Checkpoint
from journal.format.key import join, text_of, value_of
from journal.format.kinds import Kind, Tag
from journal.format.lease import LeaseEntry
from journal.format.meta import Meta
from journal.format.out_of_order import PlacedEntry
from journal.format.segment import Tally
from journal.sets.id_counts import IdCounts
from journal.snapshot.snapshot import Snapshot
from tests.golden.layout import SERVER, TIME_MS, SegmentBuilder, draft, ids

PAIR = join([text_of(b"A"), text_of(b"B")], False)
TYPED = join(map(value_of, ("\u00e9", 7, 1.5, True, None, b"\0")), False)


def keys() -> list[SegmentBuilder | Snapshot]:
    """One segment, and a snapshot of its middle, when 1 is available again."""
    one = SegmentBuilder(1, 4096, 1, Checkpoint(b"keys", server=SERVER, generation=1))
    token, due_ms = 1 << 20, TIME_MS + 90
    off: Meta = {Tag.DUE_MS: due_ms, Tag.KEY: PAIR, Tag.REASON: b"defer", Tag.BYTES: 5}
    expiring: Meta = {Tag.EXPIRES_MS: TIME_MS + 60_000, Tag.KEY: PAIR}
    leased = LeaseEntry(
        3, token, 1, TIME_MS + 30, 5, TIME_MS + 30, TIME_MS + 60_000, TYPED
    )
    written = one.batch(
        draft(Kind.PUT, 1, 1, 0, b"first", {Tag.KEY: PAIR}),
        draft(Kind.PUT, 2, 2, 0, b"after", expiring),
        draft(Kind.PUT, 3, 3, 0, b"typed", {Tag.KEY: TYPED}),
        draft(Kind.PUT, 4, 4, 0, b"free"),
        draft(Kind.RETURNED, 1, TIME_MS + 10, 0, meta=off),
        leased.leased(),
        draft(Kind.RELEASED, 1, 5, time_ms=due_ms),
    )
    tally = Tally()
    tally.see_all(written)
    between = Snapshot(
        7, 1, one.at, Checkpoint(b"keys", 6, 6, 1 << 21, 4, 4, 1, SERVER, as_of=7),
        ids(1, 2, 3, 4), 19, IdCounts(), [], [], tally, [leased],
        placed=[PlacedEntry(1, 5, 1, 5)], held={1: PAIR},
    )  # fmt: skip
    one.batch(
        draft(Kind.DONE, 1, TIME_MS + 100, 1 | 5 << 8, time_ms=TIME_MS + 101),
        draft(Kind.DONE, 3, TIME_MS + 30, 1 | 5 << 8, time_ms=TIME_MS + 102),
        synced=7,
    )
    one.batch(synced=9)
    return [one, between]
