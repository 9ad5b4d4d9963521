"""The meta of a record: what only some records have, as tag, length, value. No I/O.

     0     1        3
     +-----+--------+---------+-----+--------+-- -
     | tag | length | value   | tag | length | ..     a number is a u64, text is bytes
     +-----+--------+---------+-----+--------+-- -

One rule: writers give tags in rising order, and readers take them in any.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from journal.errors import NewerFormat
from journal.format.kinds import NUMBER_TAGS, TAGS, TEXT_TAGS, Tag

_U64: Final = struct.Struct("<Q")
TEXT_TAG: Final = struct.Struct("<BH")  # a tag and how long its value is, which follows
NUMBER_TAG: Final = struct.Struct("<BHQ")  # a tag, 8, and its value
# A tag by its own name costs a look-up in the enumeration each time.
_EXPIRES: Final = Tag.EXPIRES_MS
_KEY: Final = Tag.KEY
_ID: Final = Tag.ID
_new: Final = tuple.__new__  # half the cost of calling a named tuple

Meta = dict[Tag, int | bytes]
ItemTexts = tuple[tuple[Tag, bytes], ...]  # those that an item has, by rising tag; none is empty
_TEXT_TAGS: Final = frozenset(TEXT_TAGS)


def encode_meta(meta: Meta) -> bytes:
    """Return tag, length, value for each, in the order given (writers give tags in rising order).
    """
    out = []
    for tag, value in meta.items():
        data = _U64.pack(value) if isinstance(value, int) else value
        out.append(TEXT_TAG.pack(tag, len(data)))
        out.append(data)
    return b"".join(out)


def decode_meta(data: bytes) -> Meta:
    """Do the inverse of `encode_meta`.

    Raises NewerFormat for an unknown tag below 128, ValueError for bytes that are no meta.
    """
    meta: Meta = {}
    at = 0
    while at < len(data):
        if at + TEXT_TAG.size > len(data):
            raise ValueError("meta ends within a tag")
        tag, size = TEXT_TAG.unpack_from(data, at)
        at += TEXT_TAG.size
        value = data[at : at + size]
        at += size
        if at > len(data):
            raise ValueError(f"meta ends within tag {tag}")
        known = TAGS.get(tag)
        if known is None:
            if tag >= 128:
                continue
            raise NewerFormat(f"meta tag {tag} is not known to this version")
        if known in NUMBER_TAGS:
            if size != _U64.size:
                raise ValueError(f"meta tag {tag} is a number and has {size} bytes")
            meta[known] = _U64.unpack(value)[0]
        else:
            meta[known] = value
    return meta


class PutMeta(NamedTuple):
    """Fields of an item from the meta of its put. `expires_ms` 0: never; b"": there is none."""

    expires_ms: int = 0
    key: bytes = b""
    dedupe_id: bytes = b""
    texts: ItemTexts = ()


def said_of_put(meta: bytes, said: Meta | None = None) -> PutMeta:
    """Return what the meta of a put says; `said` is the meta decoded, if the caller has that."""
    said = decode_meta(meta) if said is None else said
    expires_ms, key = said.get(_EXPIRES, 0), said.get(_KEY, b"")
    id_ = said.get(_ID, b"")
    return _new(PutMeta, (
        expires_ms if isinstance(expires_ms, int) else 0,
        key if isinstance(key, bytes) else b"",
        id_ if isinstance(id_, bytes) else b"",
        texts_of_item(said),
    ))  # fmt: skip


def texts_of_item(said: Meta) -> ItemTexts:
    """Return the texts that the meta of a put has."""
    if _TEXT_TAGS.isdisjoint(said):  # nearly always
        return ()
    found = ((tag, said.get(tag)) for tag in TEXT_TAGS)
    return tuple((tag, text) for tag, text in found if isinstance(text, bytes) and text)


def text_tagged(texts: ItemTexts, tag: Tag) -> bytes:
    """Return the text with this tag; b"": the item has none."""
    for each, text in texts:
        if each == tag:
            return text
    return b""


# DONE, EXPIRED, DISCARDED, CANCELLED and MOVED say in `small` how large the body was that they
# end: the lower 8 bits are which delivery it was (255: that or a later one), the others the bytes.
# A body that does not fit says so in meta (BYTES).
DELIVERY_MAX: Final = 255
_ENDED_BYTES_MAX: Final = (1 << 24) - 1


def ended(delivery: int, body_bytes: int) -> tuple[int, bytes]:
    """Return `small` and meta of a record that ends an item."""
    if body_bytes > _ENDED_BYTES_MAX:
        return min(delivery, DELIVERY_MAX), encode_meta({Tag.BYTES: body_bytes})
    return min(delivery, DELIVERY_MAX) | body_bytes << 8, b""


def ended_bytes(small: int, meta: bytes) -> int:
    """Return the size of the body that such a record ends."""
    if meta and not small >> 8:
        found = decode_meta(meta).get(Tag.BYTES, 0)
        return found if isinstance(found, int) else 0
    return small >> 8
