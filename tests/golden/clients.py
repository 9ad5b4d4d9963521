"""The golden journal of a queue with metadata, whose producers name themselves, laid out by hand.

    1 of one client, leased and confirmed; 2 of another, leased: it lives longer than its put says

One rule: no clock, no randomness, no environment.
"""

from __future__ import annotations

from journal.format.checkpoint import Checkpoint
from journal.format.declared import declared_draft
from journal.format.kinds import Kind, Tag
from journal.format.lease import LeaseEntry
from journal.format.meta import ended
from journal.format.segment import Tally
from journal.sets.id_counts import IdCounts
from journal.snapshot.snapshot import Snapshot
from tests.golden.layout import SERVER, TIME_MS, SegmentBuilder, draft, ids

MINUTE_MS = 60_000
SETTINGS, METADATA = b"max_attempts = 3\n", b'{"_max_claim_count":3,"team":"mail"}'


def clients() -> list[SegmentBuilder | Snapshot]:
    """One segment, and a snapshot of its middle."""
    one = SegmentBuilder(1, 4096, 1, Checkpoint(b"clients", server=SERVER, generation=1))
    expires_ms, deadline_ms = TIME_MS + 2 * MINUTE_MS, TIME_MS + 5 * MINUTE_MS
    leased = LeaseEntry(
        2, 1 << 20, 1, TIME_MS + 3, 3, TIME_MS + 3, deadline_ms, expiry_ms=deadline_ms + MINUTE_MS,
        runs_ms=deadline_ms,
    )
    renewed = leased.until(
        TIME_MS + 9, deadline_ms + 9, deadline_ms + MINUTE_MS + 9, deadline_ms + 9
    )
    written = one.batch(
        declared_draft(b"", b"{}", TIME_MS),
        declared_draft(SETTINGS, METADATA, TIME_MS),
        draft(Kind.PUT, 1, 1, 0, b"one", {Tag.CLIENT: b"a" * 32}),
        draft(Kind.PUT, 2, 2, 0, b"two", {Tag.EXPIRES_MS: expires_ms, Tag.CLIENT: b"b" * 32}),
        draft(Kind.TOKENS, number=1 << 21),
        leased.leased(),
    )
    tally = Tally()
    tally.see_all(written)
    between = Snapshot(
        6, 1, one.at, Checkpoint(b"clients", 3, 3, 1 << 21, 2, 2, 1, SERVER, as_of=6), ids(1, 2),
        6, IdCounts(), [], [], tally, [leased], standing=[declared_draft(SETTINGS, METADATA, 0)],
    )  # fmt: skip
    one.batch(
        renewed.renewal(),
        draft(Kind.DONE, 1, TIME_MS + 4, ended(1, 3)[0], time_ms=TIME_MS + 10),
        synced=6,
    )
    one.batch(synced=8)
    return [one, between]
