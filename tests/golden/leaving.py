"""The golden journal of a queue whose items leave for another server, laid out by hand.

    1 leaves, and has moved; 2 leaves, and stays; 3, a dead letter, leaves; 4, leased by token, is
    handed off; nothing is known yet of these two

One rule: no clock, no randomness, no environment.
"""

from __future__ import annotations

from journal.format.checkpoint import Checkpoint
from journal.format.kinds import Kind, Tag
from journal.format.lease import LeaseEntry
from journal.format.meta import Meta
from journal.format.segment import Tally
from journal.format.subscription_state import DeadEntry
from journal.format.transfer import Origin, moved
from journal.sets.id_counts import IdCounts
from journal.snapshot.snapshot import Snapshot
from tests.golden.layout import SERVER, TIME_MS, SegmentBuilder, draft, ids

_OTHER = b"server-2"
_TARGET = _OTHER + b":later"


def leaving() -> list[SegmentBuilder | Snapshot]:
    """One segment, and a snapshot of its end."""
    opening = Checkpoint(b"leaving", server=SERVER, generation=1)
    one = SegmentBuilder(1, 4096, 1, opening)
    token = 1 << 20
    died: Meta = {Tag.REASON: b"abort", Tag.BYTES: 5}

    def begun(item: int, size: int, at_ms: int) -> LeaseEntry:
        return LeaseEntry(item, 0, 1, at_ms, size, at_ms, at_ms, target=_TARGET)

    by_token = LeaseEntry(4, token, 1, TIME_MS + 4, 4, TIME_MS + 4, TIME_MS + 60_000, b"", 0, 77)
    handed = by_token._replace(target=_TARGET)
    third = begun(3, 5, TIME_MS + 7)
    written = one.batch(
        *(draft(Kind.PUT, n, n, 0, body)
          for n, body in enumerate((b"one", b"two", b"three", b"four"), 1)),
        draft(Kind.TOKENS, number=token << 1),
        by_token.leased(),
        begun(1, 3, TIME_MS + 5).leased(),
        begun(2, 3, TIME_MS + 5).leased(),
        moved(1, 3, Origin(_OTHER, b"later", 9, 2).as_target, TIME_MS + 6, True),
        draft(Kind.RETURNED, 2, 0, 0, meta={Tag.REASON: b"defer"}, time_ms=TIME_MS + 6),
        draft(Kind.DEAD, 3, TIME_MS + 6, 1, meta=died, time_ms=TIME_MS + 7),
        third.leased(),
        handed.leased(),
    )  # fmt: skip
    tally = Tally()
    tally.see_all(written)
    end = Snapshot(
        13, 1, one.at, Checkpoint(b"leaving", 5, 5, token << 1, 4, 3, 1, SERVER, as_of=13),
        ids(2, 3, 4), 12, IdCounts(), [DeadEntry(3, 1, 1, b"abort", TIME_MS + 7, 5)], [], tally,
        leased=[third, handed],
    )  # fmt: skip
    one.batch(draft(Kind.PUT, 5, 5, 0, b"five"), synced=13)
    return [one, end]
