"""A reader's line is emptied: everything ready or delayed is gone, what is lent or dead stays.

Its functions are methods of `Reader`, which names them.

One rule: it is one record, however many items go; so it says which stay, by their numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from journal.ids import IdCounts

if TYPE_CHECKING:
    from kestrelpy.core.reader import Reader


def flush(reader: Reader, last_id: int, now_ms: int) -> int:
    """Everything ready is gone; what is lent or dead stays. Returns the record to wait for."""
    stay = [(lease.item.id, lease.item.size) for lease in reader.leases if not lease.dead]
    spared = [id_ for id_, _ in stay]
    stay += [(id_, death.body_bytes) for id_, death in reader.dead.deaths.items()]
    reader._apply_flushed(spared, last_id, sum(size for _, size in stay))
    reader.line.clear()
    reader.delays.clear()
    reader.keyed.clear(spared)
    reader.counters.flushes += 1
    return reader.log.flushed(
        last_id, spared, stay, reader.live_bytes, now_ms + reader.wall.offset_ms
    )


def apply_flushed(reader: Reader, spared: list[int], last_id: int, live_bytes: int) -> None:
    """Of all items up to `last_id` these and the dead stay, with so many bytes of bodies."""
    stay = [*spared, *reader.dead.deaths]
    kept = IdCounts()
    for id_ in stay:
        kept.set(id_, reader.attempts.get(id_))
    reader.attempts = kept
    reader.live.keep_only(stay, last_id)
    apart = reader.elsewhere
    apart.keep_only([i for i in stay if i in apart], apart.last)
    reader.marks.keep_only(stay)
    reader.keyed.keep_held(spared)
    reader.live_bytes = live_bytes
