"""One item: its body, its header, and the numbers that identify it.

One rule: an item is the same for every subscription. Each subscription itself records the item's
place in the ready list, its lease and its attempts.
"""

from __future__ import annotations

from typing import Final

from journal.format import NUMBER_TAG, TEXT_TAG, ItemHeader, ItemTexts, Origin, Tag
from journal.store import Put

_EXPIRES: Final = int(Tag.EXPIRES_MS)
_DUE: Final = int(Tag.DUE_MS)
_KEY: Final = int(Tag.KEY)
_new: Final = tuple.__new__  # half the cost of calling a named tuple


class Item:
    """`id` names the item in its queue for good; `marker` is its first place in the ready list.

    `stored_ms` and `expires_ms` (0: never) are wall clock. `lsn` is that of the item's put, 0 in a
    memory queue. `size` is the body's size in bytes, whether or not the body is in memory.
    `is_whole` is False while only the log has the body; after a restart such an item has only its
    id, size and key in memory. `key` is canonical (`journal.format.key`), b"" for none. `header` is
    the item header: the rest of the item's put record.
    """

    __slots__ = (
        "body",
        "expires_ms",
        "flags",
        "header",
        "id",
        "is_whole",
        "key",
        "lsn",
        "marker",
        "size",
        "stored_ms",
    )  # fmt: skip

    def __init__(
        self,
        id: int,  # noqa: A002 - the spec's word for it
        marker: int,
        body: bytes,
        flags: int,
        stored_ms: int,
        expires_ms: int,
        lsn: int = 0,
        key: bytes = b"",
        header: ItemHeader | None = None,
    ) -> None:
        self.id = id
        self.marker = marker
        self.body = body
        self.flags = flags
        self.stored_ms = stored_ms
        self.expires_ms = expires_ms
        self.lsn = lsn
        self.key = key
        self.header = header
        self.size = len(body)
        self.is_whole = True

    @property
    def origin(self) -> Origin | None:
        """The item that this one was transferred from; None: it was put here directly."""
        return self.header.origin if self.header is not None else None

    @property
    def texts(self) -> ItemTexts:
        """The texts that its producer gave."""
        return self.header.texts if self.header is not None else ()

    @property
    def put(self) -> Put:
        """The item in the form that a read of the log returns."""
        return _new(Put, (
            self.id, self.marker, self.flags, self.stored_ms, self.body, self.expires_ms, self.key,
            self.header.id if self.header is not None else b"", self.texts,
        ))  # fmt: skip

    def said(self, due_ms: int = 0, nominal: bytes = b"") -> bytes:
        """Return the meta of the item's put record; `due_ms` 0: the item is not delayed.

        `nominal` is the meta that names the schedule and the time that the item is put for.
        """
        meta = NUMBER_TAG.pack(_EXPIRES, 8, self.expires_ms) if self.expires_ms else b""
        if due_ms:
            meta += NUMBER_TAG.pack(_DUE, 8, due_ms)
        if key := self.key:
            meta += TEXT_TAG.pack(_KEY, len(key)) + key
        if nominal:
            meta += nominal
        header = self.header
        return meta + header.said(self.size) if header is not None else meta

    def ending(self, expires_ms: int) -> Item:
        """Return the same item, expiring at `expires_ms`."""
        return Item(
            self.id, self.marker, self.body, self.flags, self.stored_ms, expires_ms, self.lsn,
            self.key, self.header,
        )  # fmt: skip

    def without_body(self) -> Item:
        """Return the same item without its body: only the log has that."""
        bare = Item(
            self.id, self.marker, b"", self.flags, self.stored_ms, self.expires_ms, self.lsn,
            self.key, self.header,
        )  # fmt: skip
        bare.size = self.size
        bare.is_whole = not self.size
        return bare


def bare_item(id_: int, body_bytes: int, marker: int = 0, key: bytes = b"") -> Item:
    """Return an item whose other fields are unknown until it is read from the log again."""
    item = Item(id_, marker or id_, b"", 0, 0, 0, 1, key)
    item.size = body_bytes
    item.is_whole = False
    return item
