"""One item: what was stored, and the numbers it is known by.

One rule: an item is the same for every reader; who may have it next, who has it and how often it
came back is each reader's own knowledge.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from journal.moving import Origin
from journal.record import Meta, Tag, encode_meta

if TYPE_CHECKING:
    from journal.gather import Put


class Item:
    """`id` names it in its queue for good; `marker` is its first place in the ready line.

    `stored_ms` and `expires_ms` (0: never) are wall clock; `lsn` is that of its put, 0 in a
    memory queue. `size` is that of the body in bytes, be it in memory or let go. It `is_whole`
    unless only the log has the body, and after a restart all but its number, size and key.
    `key` is canonical (`journal.canonical`), b"" for none.
    """

    __slots__ = (
        "body", "expires_ms", "flags", "id", "is_whole", "key", "lsn", "marker", "size",
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
    ) -> None:
        self.id = id
        self.marker = marker
        self.body = body
        self.flags = flags
        self.stored_ms = stored_ms
        self.expires_ms = expires_ms
        self.lsn = lsn
        self.key = key
        self.size = len(body)
        self.is_whole = True

    @property
    def origin(self) -> Origin | None:
        """What it was made of, if it was moved here."""
        return None

    @property
    def put(self) -> Put:
        """Itself as the log would tell it."""
        return (
            self.id, self.marker, self.flags, self.stored_ms, self.expires_ms, self.body, self.key
        )  # fmt: skip

    def said(self, due_ms: int = 0) -> bytes:
        """What its put says of it beside its numbers and its body; `due_ms` 0: it is available."""
        meta: Meta = {}
        if self.expires_ms:
            meta[Tag.EXPIRES_MS] = self.expires_ms
        if due_ms:
            meta[Tag.DUE_MS] = due_ms
        if self.key:
            meta[Tag.KEY] = self.key
        return encode_meta(meta)

    def without_body(self) -> Item:
        """The same item, whose body only the log has."""
        bare = self._again()
        bare.size = self.size
        bare.is_whole = not self.size
        return bare

    def _again(self) -> Item:
        return Item(
            self.id, self.marker, b"", self.flags, self.stored_ms, self.expires_ms, self.lsn,
            self.key,
        )  # fmt: skip


class MovedItem(Item):
    """One that was made of an item of another queue."""

    __slots__ = ("_origin",)

    def __init__(
        self,
        id: int,  # noqa: A002 - the spec's word for it
        marker: int,
        body: bytes,
        flags: int,
        stored_ms: int,
        expires_ms: int,
        origin: Origin,
        lsn: int = 0,
        key: bytes = b"",
    ) -> None:
        super().__init__(id, marker, body, flags, stored_ms, expires_ms, lsn, key)
        self._origin = origin

    @property
    def origin(self) -> Origin:
        """What it was made of."""
        return self._origin

    def _again(self) -> MovedItem:
        return MovedItem(
            self.id, self.marker, b"", self.flags, self.stored_ms, self.expires_ms, self._origin,
            self.lsn, self.key,
        )  # fmt: skip


def bare_item(id_: int, body_bytes: int, marker: int = 0, key: bytes = b"") -> Item:
    """An item of which one knows no more, until it is read from the log again."""
    item = Item(id_, marker or id_, b"", 0, 0, 0, 1, key)
    item.size = body_bytes
    item.is_whole = False
    return item
