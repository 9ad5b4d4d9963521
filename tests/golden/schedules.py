"""The golden journal of what schedules put, laid out by hand like the others (`layout`).

One rule: no clock, no randomness, no environment.
"""

from __future__ import annotations

from journal.format.checkpoint import Checkpoint
from journal.format.kinds import Kind, Tag
from journal.format.meta import encode_meta
from journal.format.schedule import Watermark
from journal.format.segment import Tally
from journal.sets.id_counts import IdCounts
from journal.snapshot.snapshot import Snapshot
from tests.golden.layout import SERVER, TIME_MS, SegmentBuilder, draft, ids

MINUTE_S = TIME_MS // 60_000 * 60


def schedules() -> list[SegmentBuilder | Snapshot]:
    """One segment, and a snapshot of its middle."""
    one = SegmentBuilder(1, 2048, 1, Checkpoint(b"schedules", server=SERVER, generation=1))
    expires = encode_meta({Tag.EXPIRES_MS: TIME_MS + 3_600_000})
    tick, tock = Watermark(b"tick", MINUTE_S), Watermark(b"tock", MINUTE_S - 3600)
    written = one.batch(
        tick.draft(TIME_MS),
        tock.draft(TIME_MS),
        draft(Kind.PUT, 1, 1, 0, b"go")._replace(meta=tick._replace(epoch=MINUTE_S + 60).meta),
    )
    tally = Tally()
    tally.see_all(written)
    between = Snapshot(
        3, 1, one.at, Checkpoint(b"schedules", 2, 2, 1, 1, 1, 1, SERVER, as_of=3), ids(1), 2,
        IdCounts(), [], [], tally, watermarks={b"tick": MINUTE_S + 60, b"tock": MINUTE_S - 3600},
    )  # fmt: skip
    latest = tick._replace(epoch=MINUTE_S + 120)
    one.batch(
        draft(Kind.DONE, 1, TIME_MS + 5, 1 | 2 << 8, time_ms=TIME_MS + 9),
        draft(Kind.PUT, 2, 2, 0, b"go")._replace(meta=expires + latest.meta),
        latest.draft(TIME_MS + 120_000),  # said again, so that the segment of its put may go
        synced=3,
    )
    one.batch(synced=6)
    return [one, between]
