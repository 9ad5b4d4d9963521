"""Items on the wire: the VALUE line, the body, and with `full` all that is known.

    VALUE <key> <flags> <bytes>[ <number>[ <stored ms> <expires ms> <attempts> <state> <key> <id>]]

One rule: an absent value is `-`; keys and ids are percent-encoded, so that a line splits at blanks.
"""

from __future__ import annotations

from journal.format import in_words
from journal.store import Put
from kestrelpy.core import Item
from kestrelpy.operations import quoted


class Shape:
    """The format of the items in one reply to a browse."""

    __slots__ = ("full", "key", "numbered")

    def __init__(self, key: bytes, numbered: bool, full: bool) -> None:
        self.key = key
        self.numbered = numbered
        self.full = full

    def lines(self, puts: list[Put]) -> list[bytes]:
        """Return each item as it is sent; with `full` only the VALUE line, without its end:
        the expiry, attempts, state and the body follow."""
        key = self.key
        if self.full:
            return [
                b"VALUE %b %d %d %d %d " % (
                    key, put.flags, len(put.body), put.marker, put.stored_ms
                )
                for put in puts
            ]
        if self.numbered:
            return [
                b"VALUE %b %d %d %d\r\n%b\r\n" % (
                    key, put.flags, len(put.body), put.marker, put.body
                )
                for put in puts
            ]  # fmt: skip
        return [
            b"VALUE %b %d %d\r\n%b\r\n" % (key, put.flags, len(put.body), put.body)
            for put in puts
        ]


def state_words(state: bytes, attempts: int, key: bytes = b"", id_: bytes = b"") -> bytes:
    """Return `<attempts> <state> <key> <id>`; the key is canonical, and said in words."""
    return b"%d %b %b %b" % (
        attempts, state, in_words(key).encode("ascii") or b"-", quoted(id_).encode("ascii") or b"-"
    )  # fmt: skip


def full_value(
    key: bytes, item: Item, end: bytes, number: int, state: bytes, attempts: int
) -> bytes:
    """Return an item with all that is known about it."""
    body = item.body
    return b"VALUE %b %d %d %d %d %b %b\r\n%b\r\n%b" % (
        key, item.flags, len(body), number, item.stored_ms, date_words(item.expires_ms),
        state_words(state, attempts, item.key, item.header.id if item.header is not None else b""),
        body, end,
    )  # fmt: skip


def value(key: bytes, item: Item, end: bytes, number: int) -> bytes:
    """Return an item, with its number unless that is 0."""
    body = item.body
    if number:
        return b"VALUE %b %d %d %d\r\n%b\r\n%b" % (key, item.flags, len(body), number, body, end)
    return b"VALUE %b %d %d\r\n%b\r\n%b" % (key, item.flags, len(body), body, end)


def date_words(unix_ms: int) -> bytes:
    """Return a time on the wall clock in ms; 0: there is none."""
    return b"%d" % unix_ms if unix_ms else b"-"
