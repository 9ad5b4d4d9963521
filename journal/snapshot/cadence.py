"""How often snapshots are taken: when a new one makes the next start much shorter.

    records after the newest snapshot  ≥ RECORDS_MAX, and ≥ the leases by token that it has    due
    a segment was sealed               and the journal has more than SEGMENTS_MIN of them      due
      on an engine instead: bytes after it ≥ `Sizes.snapshot_bytes`, and ≥ those of its file   due

On an engine a start reads each byte over the network; a local disk gives a segment at once.

One rule: the cadence counts records and bytes, never time: an idle queue has no new snapshot.
"""

from __future__ import annotations

from typing import Final

# A start reads the records after the newest snapshot: this many take about half a second.
RECORDS_MAX: Final = 50_000
# A journal of this many segments is read whole.
SEGMENTS_MIN: Final = 2


def is_due(records: int, leased: int, segments: int) -> bool:
    """True if a snapshot is due, by the records or the segments.

    `records` are those after the newest snapshot, `leased` its leases by token: each is a record
    of the snapshot, so with many leases it comes after as many records. `segments`: those of a
    journal that has sealed one since then, 0 if it has not.
    """
    return records >= max(RECORDS_MAX, leased) or segments > SEGMENTS_MIN
