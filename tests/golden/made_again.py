"""A queue with a child that was deleted and made again: in one segment, with a snapshot after it.

One rule: no clock, no randomness, no environment.
"""

from __future__ import annotations

from journal.format.checkpoint import Checkpoint
from journal.format.kinds import Kind
from journal.format.segment import Tally
from journal.format.subscription_state import AGAIN, GONE, TAKES, ReaderState, named
from journal.sets.id_counts import IdCounts
from journal.snapshot.snapshot import Snapshot
from tests.golden.layout import SERVER, TIME_MS, SegmentBuilder, draft, ids


def made_again() -> list[SegmentBuilder | Snapshot]:
    """The child has an item of the deleted queue and those put since; its queue has only these."""
    opening = Checkpoint(name=b"orders", server=SERVER, generation=1)
    one = SegmentBuilder(1, 4096, 1, opening)
    written = one.batch(
        named(1, b"audit", 0, TAKES, TIME_MS),
        draft(Kind.PUT, 1, 1, 0, b"before"),
        named(0, b"", 1, GONE, TIME_MS + 1),
        named(0, b"", 1, AGAIN, TIME_MS + 2),
        draft(Kind.PUT, 2, 2, 0, b"after"),
    )
    tally = Tally()
    tally.see_all(written)
    after = Snapshot(
        5, 1, one.at, Checkpoint(b"orders", 3, 3, 1, 2, 1, 1, SERVER, as_of=5),
        ids(2), 5, IdCounts(), [], [], tally, floor=1,
        readers=[ReaderState(1, b"audit", 0, 2, ids(1, 2), 11)],
    )  # fmt: skip
    one.batch(draft(Kind.PUT, 3, 3, 0, b"later"), synced=5)
    one.batch(synced=6)
    return [one, after]
