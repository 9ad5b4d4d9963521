"""What an operator may know of a fleet, and ask of it.

One rule: nothing here changes what a slice has.
"""

from __future__ import annotations

from journal.engine.facts import Facts
from journal.engine.object_store.bucket import ObjectBucket
from journal.engine.object_store.made_store import STORE_VERSION, layout_of
from journal.engine.object_store.object_store_engine import ObjectStoreEngine
from journal.engine.object_store.slice_log import SlicePlace
from journal.engine.object_store.takeovers import takeovers


def look(bucket: ObjectBucket) -> Facts:
    """Return what is known of a fleet; raise EngineAway. Ages are by the clock of this machine."""
    engine = ObjectStoreEngine(bucket)
    sizes = dict[str, int]()
    for each in bucket.listed("slices"):
        kind = each.key.split("/")[2]  # slices/1/log/...
        sizes[kind] = sizes.get(kind, 0) + each.size
    owners = engine.owners()
    return Facts(
        "", STORE_VERSION, owners, engine.members(), None, sizes, layout_of(bucket).slices,
        takeovers(bucket),
    )  # fmt: skip


def ask_release(bucket: ObjectBucket, number: int, epoch: int) -> bool:
    """Ask the owner of this epoch to release the slice; False: it owns it no more. Raise
    EngineAway."""
    owner = ObjectStoreEngine(bucket).owners().get(number)
    if owner is None or owner.epoch != epoch or owner.has_released:
        return False
    bucket.put(SlicePlace(number).asked(epoch), b"release")
    return True
