"""Moves between two journals as records: what either side must know to end one after a crash.

    source                                     target
    the item is taken: lent to nobody else
                                               PUT with ORIGIN and GENERATION: the origin is open
    MOVED, when that is on disk: gone here
                                               SETTLED, when that is on disk: the origin is closed

Whatever a crash leaves of these, one of the two says what becomes of the item: with an open origin
the copy counts, and a source that still has the item says MOVED; without one the source has it.

One rule: an origin stays open until the source's MOVED is on disk, be the copy long gone.
"""

from __future__ import annotations

from typing import NamedTuple

from journal.record import Draft, Kind, Tag, decode_meta, encode_meta, ended


class Origin(NamedTuple):
    """What an item was made of: an item of a queue, in one generation of it, on one server.

    `body_bytes` is how large it is, `lsn` that of the put which says so (0: not known, as after a
    start, or not put yet).
    """

    server: bytes
    queue: bytes
    item: int
    generation: int
    body_bytes: int = 0
    lsn: int = 0

    @property
    def name(self) -> bytes:
        """As records and people have it: `server:queue:id`."""
        return b"%b:%b:%d" % (self.server, self.queue, self.item)

    @property
    def meta(self) -> bytes:
        """What the records of its copy say of it."""
        return encode_meta({Tag.ORIGIN: self.name, Tag.GENERATION: self.generation})


def origin_of(meta: bytes, body_bytes: int = 0) -> Origin | None:
    """What this meta says of an origin; None: nothing that names one.

    `body_bytes` is how large the item is, where meta does not say it.
    """
    said = decode_meta(meta)
    name, generation = said.get(Tag.ORIGIN), said.get(Tag.GENERATION, 0)
    if not isinstance(name, bytes) or not isinstance(generation, int):
        return None
    server, _, rest = name.partition(b":")
    queue, _, number = rest.rpartition(b":")  # a queue's name may have colons
    item = int(number) if number.isdigit() else 0
    size = said.get(Tag.BYTES, body_bytes)
    return Origin(server, queue, item, generation, size if isinstance(size, int) else 0)


def opened(item: int, origin: Origin, time_ms: int) -> Draft:
    """In a snapshot: the origin of this item is open."""
    meta = origin.meta + encode_meta({Tag.BYTES: origin.body_bytes})
    return Draft(Kind.OPEN, item, 0, 0, time_ms, meta, b"", 0, 0)


def settled(item: int, origin: Origin, time_ms: int) -> Draft:
    """The origin of this item is not open any more."""
    return Draft(Kind.SETTLED, item, 0, 0, time_ms, origin.meta, b"", 0, 0)


def moved(item: int, body_bytes: int, target: Origin, time_ms: int, has_room: bool) -> Draft:
    """This item is elsewhere now, as `target`; where there is little room it is not said where.

    It ends the item as a confirm does.
    """
    small, meta = ended(0, body_bytes)
    if has_room:
        meta = encode_meta({Tag.TARGET: target.name, Tag.GENERATION: target.generation}) + meta
    return Draft(Kind.MOVED, item, 0, small, time_ms, meta, b"", 0, 1)
