"""The header of an item in its put, apart from expiry, due time and key: its id, version, origin.

    PUT  ... ID SCOPE EPOCH        the id it was stored under, in a scope's epoch or in none
             OF_KEY                the id counts for its key alone, not for the queue
             VERSION PREVIOUS      its version under its key, and the number of the item before it
             ORIGIN GENERATION     the item it was made of
             CLIENT ...            the texts of `ITEM_TEXTS` that its producer gave

They are in the record of the item itself, so each is true if and only if the item was stored.

One rule: a reader of a put remembers its id and its version, even if the item is done; and an
origin is open from its put on.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from journal.format.kinds import Tag
from journal.format.meta import (
    NUMBER_TAG,
    TEXT_TAG,
    ItemTexts,
    Meta,
    decode_meta,
    encode_meta,
    text_tagged,
    texts_of_item,
)
from journal.format.transfer import Origin, origin_of

# The meta of a put with nothing but an expiry has this size: there are many, and each is looked at.
_EXPIRY_META_BYTES: Final = 11
_EXPIRES: Final = int(Tag.EXPIRES_MS)
_ID: Final = int(Tag.ID)
_SCOPE: Final = int(Tag.SCOPE)
_EPOCH: Final = int(Tag.EPOCH)
_VERSION: Final = int(Tag.VERSION)
_PREVIOUS: Final = int(Tag.PREVIOUS)
_OF_KEY: Final = int(Tag.OF_KEY)
_VERSION_TAGS: Final = Struct("<BHQBHQ")  # a version and a previous, as two number tags


class ItemHeader(NamedTuple):
    """The header of one item. `id` b"": none, else `scope` and `epoch` are its; `version` 0: the
    item has no key; `previous` 0: no item under that key before it is remembered; `texts` are those
    that its producer gave; `of_key`: the id counts for the key of the item alone.
    """

    id: bytes = b""
    scope: bytes = b""
    epoch: int = 0
    version: int = 0
    previous: int = 0
    origin: Origin | None = None
    texts: ItemTexts = ()
    of_key: bool = False

    @property
    def client(self) -> bytes:
        """The producer, as it names itself; b"": it does not."""
        return text_tagged(self.texts, Tag.CLIENT)

    @property
    def meta(self) -> bytes:
        """Its tags in a record, after the lower ones."""
        return self.said(self.origin.body_bytes if self.origin is not None else 0)

    def said(self, body_bytes: int) -> bytes:
        """Return `meta` of an item with this body size; the body of its origin may have another."""
        id_, scope, epoch, version, previous, origin, texts, of_key = self
        if version and not id_ and origin is None and not texts:  # most of those that have a key
            tags = _VERSION_TAGS.pack(_VERSION, 8, version, _PREVIOUS, 8, previous)
            return tags if previous else tags[: NUMBER_TAG.size]
        if origin is not None and not (id_ or version or texts):
            return origin.said(body_bytes)  # of what is handed off, mostly
        meta = b""
        if id_:
            meta = TEXT_TAG.pack(_ID, len(id_)) + id_
            if scope:
                meta += TEXT_TAG.pack(_SCOPE, len(scope)) + scope
                meta += NUMBER_TAG.pack(_EPOCH, 8, epoch)
        if version:
            meta += NUMBER_TAG.pack(_VERSION, 8, version)
        if origin is not None:
            meta += origin.said(body_bytes)
        for tag, text in texts:
            meta += TEXT_TAG.pack(tag, len(text)) + text
        if previous:
            meta += NUMBER_TAG.pack(_PREVIOUS, 8, previous)
        if of_key:
            meta += NUMBER_TAG.pack(_OF_KEY, 8, 1)
        if texts and (origin is not None or texts[-1][0] > _PREVIOUS):  # their tags interleave
            meta = encode_meta(dict(sorted(decode_meta(meta).items())))
        return meta


def says_only_expiry(meta: bytes) -> bool:
    """True if the meta has nothing but the expiry, or nothing at all."""
    return not meta or (len(meta) == _EXPIRY_META_BYTES and meta[0] == _EXPIRES)


def item_header_of(meta: bytes, body_bytes: int = 0, said: Meta | None = None) -> ItemHeader | None:
    """Do the inverse; None: the put has none of these. `body_bytes`: the size of the item.

    `said` is the meta decoded, if the caller has that.
    """
    if says_only_expiry(meta):
        return None
    said = decode_meta(meta) if said is None else said
    id_, version = said.get(Tag.ID, b""), said.get(Tag.VERSION, 0)
    origin = origin_of(meta, body_bytes) if Tag.ORIGIN in said else None
    texts = texts_of_item(said)
    if not (id_ or version or origin or texts):
        return None
    scope = said.get(Tag.SCOPE, b"") if id_ else b""  # else it is the name of a schedule
    epoch = said.get(Tag.EPOCH, 0) if scope else 0
    previous = said.get(Tag.PREVIOUS, 0)
    return ItemHeader(_text(id_), _text(scope), _number(epoch), _number(version), _number(previous),
                 origin, texts, bool(id_ and said.get(Tag.OF_KEY, 0)))  # fmt: skip


def _text(value: int | bytes) -> bytes:
    return value if isinstance(value, bytes) else b""


def _number(value: int | bytes) -> int:
    return value if isinstance(value, int) else 0
