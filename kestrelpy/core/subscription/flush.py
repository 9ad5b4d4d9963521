"""A reader's line is emptied: everything ready or delayed is gone, what is lent or dead stays.

Its functions are methods of `Reader`, which names them.

One rule: it is one record, however many items go; so it says which stay, by their numbers. Whole
structures are replaced, and sets of ids made of sets: nothing here looks at one item after the
other but at what connections hold, and at what was given back for later and has a key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from journal.sets.id_set import IdSet

if TYPE_CHECKING:
    from kestrelpy.core.subscription.subscription import Reader


def flush(reader: Reader, last_id: int, now_ms: int) -> int:
    """Everything ready is gone; what is lent or dead stays. Returns the record to wait for."""
    leases, dead, trash = reader.leases, reader.dead, reader.residency.trash
    items = [lease.item for lease in leases.without_token() if not lease.dead]
    held = IdSet.of(item.id for item in items)
    spared = IdSet.union([leases.token_ids, held])
    size = leases.token_bytes + sum(item.size for item in items) + dead.bytes
    ids = [id_ for id_ in leases.entries if id_ not in dead.deaths]
    ids += held
    reader._apply_flushed(spared, last_id, size)
    reader.line.clear()
    reader.delays.clear(trash)
    reader.keyed.clear(spared)
    reader.tidy()
    reader.counters.flushes += 1
    return reader.log.flushed(
        last_id, ids, IdSet.union([spared, dead.ids]), size, now_ms + reader.wall.offset_ms
    )


def apply_flushed(reader: Reader, spared: IdSet, last_id: int, live_bytes: int) -> None:
    """Of all items up to `last_id` these and the dead stay, with so many bytes of bodies."""
    stay, apart = IdSet.union([spared, reader.dead.ids]), reader.elsewhere
    reader.attempts.keep_only(stay, last_id)
    reader.live.discard_range(1, last_id, stay)
    apart.discard_range(1, apart.last, stay.both(apart))
    reader.marks.keep_only(stay)
    reader.keyed.keep_held(spared)
    reader.live_bytes = live_bytes
