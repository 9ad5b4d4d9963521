"""Transfers between two journals as records: what either side must know to end one after a crash.

    source                                     target
    the item is taken: not leased any more
                                               PUT with ORIGIN and GENERATION: the origin is open
    MOVED, when that is on disk: gone here
                                               SETTLED, when that is on disk: the origin is closed

    one journal, of a queue that is both: PUT with ORIGIN alone ends that item; MOVED follows at
    once, for readers that count, and may be lost

Whatever a crash leaves of these, one side decides: with an open origin the copy counts, and a
source that still has the item writes MOVED; without one the source has it.

One rule: an origin stays open until the source's MOVED is on disk, even if the copy is done.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Final, NamedTuple

from journal.format.kinds import Kind, Tag
from journal.format.meta import NUMBER_TAG, TEXT_TAG, decode_meta, encode_meta, ended
from journal.format.record import Draft, Record

_MOVED: Final = int(Kind.MOVED)
_SETTLED: Final = int(Kind.SETTLED)
_ORIGIN: Final = int(Tag.ORIGIN)
_TARGET: Final = int(Tag.TARGET)
_GENERATION: Final = int(Tag.GENERATION)
# Of this many queues the names of items are cached.
_QUEUES_KNOWN: Final = 1024
_DIGITS_MAX: Final = 20  # of a number in 64 bits
_new: Final = tuple.__new__  # half the cost of calling a named tuple


class Origin(NamedTuple):
    """The item that another one was made of: of a queue, in one generation of it, on one server.

    `body_bytes` is its size, `lsn` that of its put (0: not known, as after a start, or not put
    yet).
    """

    server: bytes
    queue: bytes
    item: int
    generation: int
    body_bytes: int = 0
    lsn: int = 0

    @property
    def name(self) -> bytes:
        """Its name in records and for people: `server:queue:id`."""
        return b"%b:%b:%d" % (self.server, self.queue, self.item)

    @property
    def meta(self) -> bytes:
        """Its tags in the records of its copy."""
        return self._as(_ORIGIN)

    @property
    def as_target(self) -> bytes:
        """Its tags in the record that ends the item it was made of."""
        return self._as(_TARGET)

    def _as(self, tag: int) -> bytes:
        """Name and generation; as `encode_meta` would have it, in a fraction of the time."""
        server, queue, item, generation, _, _ = self
        heads, tail = _around(tag, server, queue, generation)
        number = b"%d" % item
        return heads[len(number)] + number + tail

    def said(self, body_bytes: int) -> bytes:
        """Return its tags in the put of its copy, whose body has this size."""
        meta = self._as(_ORIGIN)
        if body_bytes == self.body_bytes:
            return meta
        return meta + encode_meta({Tag.BYTES: self.body_bytes})

    def put_by(self, lsn: int) -> Origin:
        """Return the same, with the lsn of its put."""
        server, queue, item, generation, body_bytes, _ = self
        return _new(Origin, (server, queue, item, generation, body_bytes, lsn))

    def is_of(self, queue: bytes) -> bool:
        """True if it was an item of this very queue, or if one is a child of the other. One log has
        both.
        """
        return have_one_log(self.queue, queue)


@lru_cache(maxsize=_QUEUES_KNOWN)
def have_one_log(one: bytes, other: bytes) -> bool:
    """True if these names are of one queue, or one is a child of the other, or both of a third."""
    return one.partition(b"+")[0] == other.partition(b"+")[0]


@lru_cache(maxsize=_QUEUES_KNOWN)
def _around(
    tag: int, server: bytes, queue: bytes, generation: int
) -> tuple[tuple[bytes, ...], bytes]:
    """Return the bytes before an item's number, by its number of digits, and those after it."""
    name = b"%b:%b:" % (server, queue)
    sizes = range(len(name), len(name) + _DIGITS_MAX + 1)
    heads = tuple(TEXT_TAG.pack(tag, size) + name for size in sizes)
    return heads, NUMBER_TAG.pack(_GENERATION, 8, generation)


def origin_of(meta: bytes, body_bytes: int = 0) -> Origin | None:
    """Return the origin in this meta; None: there is none.

    `body_bytes` is the size of the item, if meta does not say it.
    """
    return _named(Tag.ORIGIN, meta, body_bytes)


def target_of(meta: bytes) -> Origin | None:
    """Return the item that another one is now, by the meta of the record that ended it; None: it
    does not say.
    """
    return _named(Tag.TARGET, meta, 0)


def _named(tag: Tag, meta: bytes, body_bytes: int) -> Origin | None:
    said = decode_meta(meta)
    name, generation = said.get(tag), said.get(Tag.GENERATION, 0)
    if not isinstance(name, bytes) or not isinstance(generation, int):
        return None
    server, _, rest = name.partition(b":")
    queue, _, number = rest.rpartition(b":")  # a queue's name may have colons
    item = int(number) if number.isdigit() else 0
    size = said.get(Tag.BYTES, body_bytes)
    return Origin(server, queue, item, generation, size if isinstance(size, int) else 0)


def opened(item: int, origin: Origin, time_ms: int) -> Draft:
    """Return the record of a snapshot by which the origin of this item is open."""
    meta = origin.meta + encode_meta({Tag.BYTES: origin.body_bytes})
    return Draft(Kind.OPEN, item, 0, 0, time_ms, meta, b"", 0, 0)


def settled_many(items: list[int], time_ms: int) -> Draft:
    """Return the record that closes the origins of all of these: the first, and those in the body.
    """
    body = struct.pack(f"<{len(items) - 1}Q", *items[1:])
    return Draft(_SETTLED, items[0], 0, len(items) - 1, time_ms, b"", body, 0, 0)


def settled_by(record: Record) -> tuple[int, ...]:
    """Return the items whose origins this record closes."""
    if not record.small:
        return (record.item,)
    return (record.item, *struct.unpack_from(f"<{len(record.body) // 8}Q", record.body))


def settled(item: int, origin: Origin, time_ms: int) -> Draft:
    """Return the record that closes the origin of this item."""
    return Draft(_SETTLED, item, 0, 0, time_ms, origin.meta, b"", 0, 0)


def moved(
    item: int, body_bytes: int, target: bytes, time_ms: int, has_room: bool, delivery: int = 0,
    began_ms: int = 0,
) -> Draft:  # fmt: skip
    """Return the record by which this item is another one now, `as_target`; with little room that
    is left out.

    It ends the item as a confirm does: that delivery, if one was handed off (0: none).
    """
    small, meta = ended(delivery, body_bytes)
    if has_room:
        meta = target + meta
    return _new(Draft, (_MOVED, item, began_ms, small, time_ms, meta, b"", 0, 1))
