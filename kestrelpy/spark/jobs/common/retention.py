"""Check retention: no done item that is retained has gone before an older one.

    snapshot   retained 1 to 90; only 7 is still needed
    segments   [ 1 .. 20 ]        gap         [ 41 .. 60 ][ 61 .. 90 ]
               no item in it is needed: while it stays, the segments after it stay

No record says how long a queue retains done items, but segments go oldest first; a segment with an
item that is needed may stay longer. So the queue did not make a gap after a segment that stays only
by retention.

One rule: only a segment without a needed item, as of the older snapshot, shows that retention was
not over for the segments after it.
"""

from __future__ import annotations

import os

from journal.files import Files
from journal.sets import IdSet
from journal.snapshot import Snapshot, SnapshotDamaged, snapshot_name
from kestrelpy.spark.files import Range, Split, plan_events


def missing_retained(
    files: Files, folder: str, newest: Snapshot | None, older_lsn: int
) -> tuple[Range, ...]:
    """Return done items that the `newest` snapshot retains and whose segments are missing.

    `older_lsn`: of the snapshot before it; 0: there is none, so segments go only from the front.
    """
    if newest is None or newest.retained is None or not older_lsn:
        return ()
    path = os.path.join(folder, snapshot_name(older_lsn))
    try:
        needed = Snapshot.decode(files.read(path), path).needed()
    except (SnapshotDamaged, OSError):
        return ()
    history = plan_events([folder], files)
    splits = [p for journal in history.journals for p in journal.splits if p.item_first]
    first = next((p.item_last for p in splits if _stays(p, needed, older_lsn)), 0)
    done, found = newest.retained.without(newest.needed()), []
    for low_lsn, high_lsn in (gap for journal in history.journals for gap in journal.lsn_gaps):
        before = [p.item_last for p in splits if p.lsn_last < low_lsn]
        after = [p.item_first for p in splits if p.lsn_first > high_lsn]
        if not first or not before or not after:
            continue
        gone = [*done.between(max(*before, first) + 1, min(after) - 1)]
        if gone:
            found.append((gone[0], gone[-1]))
    return tuple(found)


def _stays(split: Split, needed: IdSet, older_lsn: int) -> bool:
    """True if the segment could have gone, and stays only for its done items."""
    is_settled = not split.is_compacted and split.lsn_last <= older_lsn
    return is_settled and not needed.count_between(split.item_first, split.item_last)
