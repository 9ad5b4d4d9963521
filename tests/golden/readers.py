"""A queue with children: one that is read, one that begins with what was there, one that is gone.

One rule: no clock, no randomness, no environment.
"""

from __future__ import annotations

from journal.format.checkpoint import Checkpoint
from journal.format.kinds import Kind, Tag
from journal.format.lease import LeaseEntry
from journal.format.meta import ended
from journal.format.out_of_order import DelayedEntry, PlacedEntry
from journal.format.segment import Tally
from journal.format.subscription_state import STOPS, TAKES, Beginning, DeadEntry, ReaderState, named
from journal.sets.id_counts import IdCounts
from journal.snapshot.snapshot import Snapshot
from tests.golden.layout import SERVER, TIME_MS, SegmentBuilder, draft, ids

AUDIT, LATE, GONE = 1, 2, 3


def readers() -> list[SegmentBuilder | Snapshot]:
    """In one segment; a snapshot in between knows two children, and what each of them has."""
    opening = Checkpoint(name=b"orders", server=SERVER, generation=1)
    one = SegmentBuilder(1, 8192, 1, opening)
    due_ms, token = TIME_MS + 60_000, 1 << 20
    begins = Beginning(
        ids(2, 3, 4), 13, [PlacedEntry(2, 5, 5, 0)],
        [DelayedEntry(4, due_ms, 5, b"", due_ms + 1000)],
    )
    leased = LeaseEntry(3, token, 1, TIME_MS + 30, 3, TIME_MS + 30, TIME_MS + 60_000)
    written = one.batch(
        draft(Kind.PUT, 1, 1, 0, b"before"),
        named(AUDIT, b"audit", 1, TAKES, TIME_MS),
        draft(Kind.PUT, 2, 0, 0, b"later", {Tag.DUE_MS: TIME_MS + 10}),
        draft(Kind.PUT, 3, 3, 0, b"all"),
        draft(Kind.PUT, 4, 0, 0, b"delay", {Tag.DUE_MS: due_ms, Tag.RUNS_MS: due_ms + 1000}),
        draft(Kind.RELEASED, 2, 5, time_ms=TIME_MS + 11),
        named(LATE, b"late", 1, TAKES, TIME_MS + 12, begins),
        named(GONE, b"gone", 5, TAKES, TIME_MS + 13),
        draft(Kind.PUT, 6, 6, 0, b"mine", reader=AUDIT),
        draft(Kind.TOKENS, number=token << 1),
        leased.leased()._replace(reader=AUDIT),
        draft(Kind.DEAD, 2, TIME_MS + 20, 1, meta={Tag.REASON: b"abort", Tag.BYTES: 5},
              reader=AUDIT, time_ms=TIME_MS + 21),
        draft(Kind.RETURNED, 3, TIME_MS + 22, 1, meta={Tag.REASON: b"abort"}, reader=LATE),
        draft(Kind.PAUSED, small=1, reader=LATE),
        named(GONE, b"gone", 5, STOPS, TIME_MS + 23),
        named(0, b"", 6, STOPS, TIME_MS + 24),
    )  # fmt: skip
    tally = Tally()
    tally.see_all(written)
    once = IdCounts()
    once.set(3, 1)
    delayed = [DelayedEntry(4, due_ms, 5, b"", due_ms + 1000)]
    between = Snapshot(
        16, 1, one.at, Checkpoint(b"orders", 7, 7, token << 1, 4, 4, 1, SERVER, as_of=16),
        ids(1, 2, 3, 4), 19, IdCounts(), [], [], tally,
        delayed=delayed, placed=[PlacedEntry(2, 5, 5, 5), PlacedEntry(4, 0, 4, 0)],
        passes_on=True,
        readers=[
            ReaderState(
                AUDIT, b"audit", 1, 4, ids(2, 3, 4, 6), 17, IdCounts(),
                [DeadEntry(2, 1, 1, b"abort", TIME_MS + 21, 5)], [leased], False, delayed,
                [PlacedEntry(2, 0, 5, 0)],
            ),
            ReaderState(
                LATE, b"late", 1, 3, ids(2, 3, 4), 13, once, [], [], True, delayed,
                [PlacedEntry(2, 5, 5, 5)], ageless=ids(2),
            ),
        ],
    )  # fmt: skip
    one.batch(
        draft(Kind.PUT, 7, 7, 0, b"for the children"),
        draft(Kind.DONE, 3, TIME_MS + 30, ended(1, 3)[0], reader=AUDIT, time_ms=TIME_MS + 31),
        draft(Kind.DISCARDED, 7, 0, ended(0, 16)[0], reader=AUDIT, time_ms=TIME_MS + 32),
        draft(Kind.UPTO, 0, 5, meta={Tag.BYTES: 21}, reader=LATE, time_ms=TIME_MS + 33),
        draft(Kind.FLUSHED, 7, 5, 0, reader=AUDIT, time_ms=TIME_MS + 34),
        synced=16,
    )
    one.batch(synced=21)
    return [one, between]
