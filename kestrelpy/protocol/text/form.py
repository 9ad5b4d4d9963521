"""Replies in the words of the text protocol. They end in LF alone, as Kestrel's do.

    END                              +0, or * where items were asked for, or +n for a confirm
    VALUE jobs 0 5 | hello | END     :hello
    CLIENT_ERROR <why>               -<why>

One rule: an item with a line end in it is refused, since its second line would be taken for the
next reply.
"""

from __future__ import annotations

from typing import Final

from kestrelpy.protocol.verbs import OPEN_FIRST, STORED

DONE: Final = b"+0\n"
NOTHING: Final = b"*\n"
_END: Final = b"END\r\n"
_ITEM: Final = b"VALUE "
_WORDS: Final = {
    b"DELETED\r\n": DONE,
    b"NOT_FOUND\r\n": DONE,  # Kestrel's delete answers the same in both cases
    b"ERROR\r\n": b"-Not that many transactions open.\n",
}
_ERRORS: Final = (b"CLIENT_ERROR ", b"SERVER_ERROR ")
_VERSION: Final = b"VERSION "


class TextForm:
    """The form of one reply; `end` stands for memcache's END."""

    __slots__ = ("_end", "unix_ms")

    def __init__(self, end: bytes = DONE) -> None:
        self._end = end
        self.unix_ms = 0

    def reply(self, data: bytes) -> bytes:
        """Return the reply in the words of this protocol."""
        if data.startswith(_ITEM):
            return self._item(data)
        if data == _END:
            return self._end
        for error in _ERRORS:
            if data.startswith(error):
                return b"-%b\n" % self._error(data[len(error) : -2])
        word = _WORDS.get(data)
        if word is not None or not data:
            return word or b""
        return b":%b\n" % data[:-2].removeprefix(_VERSION)

    def _item(self, data: bytes) -> bytes:
        raise AssertionError("no item was asked for")

    def _error(self, text: bytes) -> bytes:
        return text


class ItemForm(TextForm):
    """The form of items. `is_unfit` is set when an item could not be shown."""

    __slots__ = ("_limit", "_name", "is_unfit")

    def __init__(self, name: bytes, limit: int) -> None:
        """`limit` is `max_open_reads`."""
        super().__init__(NOTHING)
        self._name = name
        self._limit = limit
        self.is_unfit = False

    def _item(self, data: bytes) -> bytes:
        end = data.index(b"\r\n")
        size = int(data[:end].split(b" ")[3])
        body = data[end + 2 : end + 2 + size]
        if b"\n" not in body:
            return b":%b\n" % body
        self.is_unfit = True
        return (
            b"-the next item of %b has a line end in it, and items are lines here: fetch it on the "
            b"memcache port\n" % self._name
        )

    def _error(self, text: bytes) -> bytes:
        if text == OPEN_FIRST.encode():
            return (
                b"Too many open transactions; limit=%d. Confirm items of other queues first"
                % self._limit
            )
        return text


class PutForm(TextForm):
    """Counts the items of one put. `refusal` is the reply to the first that was not stored."""

    __slots__ = ("refusal", "stored")

    def __init__(self) -> None:
        super().__init__()
        self.stored = 0
        self.refusal: bytes | None = None

    def reply(self, data: bytes) -> bytes:
        """Note the reply to one item; the put is answered as a whole."""
        if data == STORED:
            self.stored += 1
        elif self.refusal is None:
            self.refusal = data
        return b""

    def total(self) -> bytes:
        """Return the reply to the put: the number of its items that were stored, or the reason why
        none was."""
        refusal = self.refusal
        if self.stored or refusal is None or not refusal.startswith(_ERRORS):
            return b"+%d\n" % self.stored
        return super().reply(refusal)
