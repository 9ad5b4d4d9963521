"""What a queue retains is there: of what is done, nothing younger went before something older.

    snapshot   retained 1 to 90, of which 7 is needed
    segments   [ 1 .. 20 ]        hole        [ 41 .. 60 ][ 61 .. 90 ]
               nothing in it is needed: while it stays, what is behind it stays

No record says how long a queue retains what is done, but segments go oldest first; one in which
something is needed may stay longer. So a hole behind one that stays for nothing else was not made
by the queue.

One rule: only a segment in which nothing was needed as of the older snapshot shows that nothing
behind it was over.
"""

from __future__ import annotations

import os

from journal.files import Files
from journal.sets.id_set import IdSet
from journal.snapshot.snapshot import Snapshot, SnapshotDamaged, snapshot_name
from kestrelpy.spark.files.plan_events import plan_events
from kestrelpy.spark.files.split import Range, Split


def missing_retained(
    files: Files, folder: str, newest: Snapshot | None, older_lsn: int
) -> tuple[Range, ...]:
    """Done items that are retained, by the `newest` snapshot, and whose segments are not there.

    `older_lsn`: of the snapshot before it; 0: there is none, so nothing goes but from the front.
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
    for low_lsn, high_lsn in (hole for journal in history.journals for hole in journal.lsn_gaps):
        before = [p.item_last for p in splits if p.lsn_last < low_lsn]
        behind = [p.item_first for p in splits if p.lsn_first > high_lsn]
        if not first or not before or not behind:
            continue
        gone = [*done.between(max(*before, first) + 1, min(behind) - 1)]
        if gone:
            found.append((gone[0], gone[-1]))
    return tuple(found)


def _stays(split: Split, needed: IdSet, older_lsn: int) -> bool:
    """Could it have gone, and is there for what is done in it?"""
    is_settled = not split.is_survivors and split.lsn_last <= older_lsn
    return is_settled and not needed.count_between(split.item_first, split.item_last)
