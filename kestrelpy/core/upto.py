"""Everything of one reader up to a marker is confirmed, with one record: a cursor moves on.

    marker   1     2     3     4     5     6          delete q+cursor/upto=4
             ready lent  dead  ready ready delayed    ──▶  3 (dead), 5, 6 (delayed)

Who holds one of them is refused when he ends it, as if his lease were over.

One rule: what is delayed or dead stays, whatever its marker; so does what has none yet, and what is
on its way to another queue: it ends when that has it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import TYPE_CHECKING, NoReturn

from journal.record import Draft, Kind, Tag, encode_meta
from kestrelpy.errors import ClientError

if TYPE_CHECKING:
    from kestrelpy.core.queue import Queue
    from kestrelpy.core.reader import Reader


def confirm_up_to(queue: Queue, marker: int, now_ms: int) -> int:
    """Of this queue, or child, everything up to the marker; returns the record to wait for.

    Raises ClientError beyond the latest number, ServerError when the journal has failed.
    """
    if queue.log.failure is not None:
        queue.raise_failed()
    reader, latest = queue.reader, queue.last_number
    if marker > latest:
        refuse_beyond(queue.name, marker, latest)
    delayed = reader.delays.ids.between(1, marker)
    moving = {lease.item.id for lease in reader.leases if lease.is_moving and not lease.dead}
    stay = {*delayed, *reader.dead.deaths, *reader.marks.behind(marker), *moving}
    live_bytes = _leave_line(reader, marker, stay)
    apply_upto(reader, marker, stay, live_bytes)
    spared = sorted(id_ for id_ in {*reader.delays.unlogged, *moving} if id_ <= marker)
    lsn = reader.log.write_recounted(
        Draft(
            Kind.UPTO, 0, marker, 0, now_ms + reader.wall.offset_ms,
            encode_meta({Tag.BYTES: reader.live_bytes}),
            struct.pack(f"<{len(spared)}Q", *spared), 0, 0,
        ),
        queue.kept_now,
    )  # fmt: skip
    queue.note_less()
    if reader.waiters:
        reader.serve(now_ms)  # a key, or a lease, may be free
    return lsn


def refuse_beyond(name: bytes, marker: int, latest: int) -> NoReturn:
    """Say that nothing has this marker yet."""
    raise ClientError(
        f"option upto: {marker} is beyond the latest marker of {name.decode('ascii')}, {latest}"
    )


def apply_upto(reader: Reader, marker: int, stay: Iterable[int], live_bytes: int) -> None:
    """Of all items up to the marker these stay; as many bytes of bodies are there after it."""
    live, hidden = reader.live, reader.marks.hidden
    spared = [id_ for id_ in stay if id_ <= marker and id_ in live]
    live.keep_only(spared, marker)
    for id_ in [id_ for id_, _ in reader.attempts.items() if id_ <= marker and id_ not in live]:
        reader.attempts.set(id_, 0)
    apart = reader.elsewhere
    apart.keep_only([id_ for id_ in spared if id_ in apart], min(marker, apart.last))
    for id_ in [*hidden.between(1, marker)]:
        if id_ not in live:
            reader.marks.forget(id_)
    for id_ in [id_ for id_ in reader.keyed.held if id_ not in live]:
        del reader.keyed.held[id_]
    reader.live_bytes = live_bytes if live else 0


def _leave_line(reader: Reader, marker: int, stay: set[int]) -> int:
    """Out of the line and out of hands, all but these; the bytes of what is left.

    Of what only the log has these are a guess; none where there is a limit: a reader is not full
    by a guess.
    """
    ready, keyed, left = reader.ready, reader.keyed, reader.live_bytes
    left -= keyed.drop_parked(marker, stay)
    if ready.beyond and ready.frontier <= marker:
        count = reader.line.count_unlent(ready.frontier, min(marker, reader.live.last))
        share = count if reader.policy.max_bytes is None else ready.beyond
        size = ready.beyond_bytes * share // ready.beyond
        left -= size
        ready.drop_beyond(size, count)
        ready.advance(marker + 1)
        if reader.log.backlog is not None:
            reader.log.backlog.reset()
    for lease in [each for each in reader.leases if not each.dead]:
        if lease.item.id <= marker and lease.item.id not in stay:
            if not lease.by_token:
                lease.holder.overdue.append(reader)
            item = reader.end(lease)
            left -= item.size
            keyed.drop(item)
    for item in [each for each in ready if each.id <= marker and each.id not in stay]:
        ready.remove(item)
        reader.line.forget_expiry(item.id)
        left -= item.size
        keyed.drop(item)
    for _, id_, size in [*ready.stubs]:
        if id_ <= marker and id_ not in stay and ready.stubs.remove(id_, size):
            left -= size
            keyed.drop_unread(id_, size)
    return max(left, 0)
