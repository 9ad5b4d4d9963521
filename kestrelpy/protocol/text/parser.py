"""Bytes to requests: the text protocol, with limits.

    get jobs 500 LF|CRLF               a command is a line
    put jobs 60000: LF|CRLF            the lines up to an empty one are items
    one LF|CRLF two LF|CRLF LF|CRLF

A put is executed when all of it has come, so one that breaks off stores nothing. Then each of its
items is a set of its own, and the first that is refused ends it.

One rule: after any input the parser knows where the next command begins, or says that the
connection must end. Its memory is bounded by one line, or by one put.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from typing import Final

from kestrelpy.errors import ClientError, Refused
from kestrelpy.operations import check_name, readable
from kestrelpy.protocol.parse import (
    FOREIGN,
    LINE_BYTES_MAX,
    Bad,
    Command,
    Confirm,
    Delete,
    Formed,
    Plain,
    Requests,
    Store,
    StoreLine,
    Target,
    bad,
    is_http,
    refuse_foreign,
    refuse_http,
)
from kestrelpy.protocol.text.form import PutForm, TextForm
from kestrelpy.protocol.text.requests import Next, OpenBatch, PutBegin, PutEnd, Shutdown

PUT_ITEMS_MAX: Final = 1024  # Kestrel's
# The items of one put together, unless its queue takes a larger item.
PUT_BYTES_MAX: Final = 8 << 20
# The rest of a put may have any size: the connection asks for room piece by piece.
_PIECE_BYTES: Final = 64 << 10
_END_OF_PUT: Final = re.compile(rb"\n\r?\n")
_END_BYTES_KEPT: Final = 2  # the most of it that can come without its last byte
_NUMBER_DIGITS_MAX: Final = 10


class TextParser(Requests):
    """The parser of Kestrel's text protocol."""

    __slots__ = ("_at", "_data", "_form", "_item_bytes", "_items", "_limit_of", "_line", "_pending",
                 "_searched")  # fmt: skip

    def __init__(self, limit_of: Callable[[bytes], int]) -> None:
        """`limit_of` returns a queue's item limit in bytes."""
        self._limit_of = limit_of
        self._data = bytearray()
        self._at = 0
        self._searched = 0
        self._pending: StoreLine | Bad | None = None  # the put whose items come in
        self._line: StoreLine | None = None  # the put whose items are executed
        self._form: PutForm | None = None
        self._items: deque[bytes] = deque()
        self._item_bytes = 0

    def feed(self, data: bytes) -> None:
        """Add bytes."""
        self.forget()
        self._data += data

    def take_rest(self) -> bytes:
        """Return the bytes that are not parsed yet, and drop them: another parser gets them."""
        rest = bytes(self._data[self._at :])
        self.clear()
        return rest

    @property
    def buffered(self) -> int:
        """Bytes taken in and not yet parsed, and at least 1 while a put is executed."""
        return len(self._data) - self._at + self._item_bytes + (self._form is not None)

    @property
    def held_bytes(self) -> int:
        """Bytes held in memory."""
        return len(self._data) - self._at + self._item_bytes

    @property
    def is_in_body(self) -> bool:
        """True while a put is coming in."""
        return self._pending is not None

    @property
    def is_skipping(self) -> bool:
        """True while a put comes in that is refused, and dropped."""
        return isinstance(self._pending, Bad)

    @property
    def missing_bytes(self) -> int:
        """Bytes of a put that may come next: where it ends is not known."""
        return _PIECE_BYTES

    def drop_body(self, refusal: Refused) -> bool:
        """Drop a put that is coming in: it is refused when it is complete.

        Return whether there was one.
        """
        if not isinstance(self._pending, StoreLine):
            return False
        self._pending = bad(refusal)
        self._skip()
        self.forget()
        return True

    def clear(self) -> None:
        """Drop everything: the client is gone."""
        self._data.clear()
        self._at = self._searched = self._item_bytes = 0
        self._pending = self._line = self._form = None
        self._items.clear()

    def forget(self) -> None:
        """Drop the parsed bytes."""
        if self._at:
            del self._data[: self._at]
            self._searched = max(self._searched - self._at, 0)
            self._at = 0

    def next(self) -> Command | None:
        """Return the next command; None if it is not complete yet."""
        if self._form is not None:
            return self._next_of_put(self._form)
        if self._pending is not None:
            return self._finish_put(self._pending)
        data, at = self._data, self._at
        if at >= len(data):
            return None
        end = data.find(b"\n", max(self._searched, at))
        if data[at] in FOREIGN and (end < 0 or end - at > LINE_BYTES_MAX):
            return refuse_foreign(data[at])
        if (len(data) if end < 0 else end) - at > LINE_BYTES_MAX:
            return Bad(b"CLIENT_ERROR line too long (limit 8192 bytes)", closes=True)
        if end < 0:
            self._searched = len(data)
            return None
        line = bytes(data[at:end])
        self._at = self._searched = end + 1
        if line[:1] and line[0] in FOREIGN:
            return refuse_foreign(line[0])
        words = line.split()
        if not words:
            return Bad(b"CLIENT_ERROR Unknown command: an empty line")
        if is_http(words):
            return refuse_http("text")
        if words[0].lower() in (b"put", b"put:"):
            self._at = self._searched = end  # an empty line after it ends the put
            try:
                self._pending = _parse_put(line.rstrip())
            except Refused as refused:
                self._pending = bad(refused)
            return self._finish_put(self._pending)
        try:
            return _parse(words)
        except Refused as refused:
            return bad(refused)

    # -- put --------------------------------------------------------------------------------

    def drop_put(self) -> bytes:
        """Drop the put that is to be executed; return the name of its queue."""
        assert self._line is not None
        name = self._line.target.name
        self._line = self._form = None
        self._items.clear()
        self._item_bytes = 0
        return name

    def _finish_put(self, pending: StoreLine | Bad) -> Command | None:
        """Return the put if its items have come; else it waits for the rest."""
        data, at = self._data, self._at
        found = _END_OF_PUT.search(data, max(self._searched, at))
        begin, end = found.span() if found is not None else (len(data), 0)
        if isinstance(pending, StoreLine):
            pending = self._unless_too_large(pending, begin - at)
        if not end:
            self._pending = pending
            if isinstance(pending, Bad):
                self._skip()
            self._searched = max(self._at, len(data) - _END_BYTES_KEPT)
            return None
        self._at = self._searched = end
        self._pending = None
        if isinstance(pending, Bad):
            return pending
        body = bytes(data[at + 1 : begin])
        items = body.split(b"\n") if body else []
        if len(items) > PUT_ITEMS_MAX:
            return Bad(
                b"CLIENT_ERROR too many items in one put (%d, limit %d): nothing was stored"
                % (len(items), PUT_ITEMS_MAX)
            )
        if b"\r" in body:
            items = [item.removesuffix(b"\r") for item in items]
        self._items.extend(items)
        self._item_bytes = sum(map(len, items))
        self._line, self._form = pending, PutForm()
        pending.form = self._form
        return PutBegin()

    def _unless_too_large(self, line: StoreLine, size: int) -> StoreLine | Bad:
        if size <= PUT_BYTES_MAX:
            return line
        limit = max(self._limit_of(line.target.name), PUT_BYTES_MAX)
        if size <= limit:
            return line
        return Bad(b"CLIENT_ERROR put too large (limit %d bytes): nothing was stored" % limit)

    def _skip(self) -> None:
        """Keep of a refused put only what may be the beginning of its end."""
        self._at = max(self._at, len(self._data) - _END_BYTES_KEPT)

    def _next_of_put(self, form: PutForm) -> Command:
        if form.refusal is not None:
            self._items.clear()
            self._item_bytes = 0
        if self._items and self._line is not None:
            store = Store(self._line)
            store.body = self._items.popleft()
            self._item_bytes -= len(store.body)
            return store
        self._line = self._form = None
        return PutEnd(form)


def _parse_put(line: bytes) -> StoreLine:
    """Parse `put <queue> [expiry_ms]:`; raise ClientError."""
    form = "put <queue> [expiry_ms]:"
    words = line.removesuffix(b":").split()
    name = _name(words, form)
    if not line.endswith(b":"):
        raise ClientError(f"put needs a colon at the end of its line: {form}")
    if len(words) > 3:
        raise ClientError(f"put takes a queue and an expiration time: {form}")
    lifetime_ms = _number("expiration time", words[2]) if len(words) > 2 else 0
    if lifetime_ms < 0:
        raise ClientError("Error parsing expiration time. 0 (never) or more milliseconds from now")
    target = Target(name, name)
    made = StoreLine(target, b"set", 0, -(-lifetime_ms // 1000), 0, False, None)
    made.lifetime_ms = lifetime_ms
    return made


def _parse(words: list[bytes]) -> Command:
    """Parse a line; raise ClientError."""
    verb, count = words[0].lower(), len(words)
    if verb in (b"get", b"peek"):
        form = f"{verb.decode()} <queue> [timeout_ms]"
        name = _name(words, form)
        _refuse_more(words, 3, form)
        wait_ms = _number("timeout", words[2]) if count > 2 else 0
        return Next(name, max(wait_ms, 0), verb == b"peek")
    if verb == b"monitor":
        form = "monitor <queue> <timeout_ms>"
        name = _name(words, form, "Queue name & timeout required", 3)
        _refuse_more(words, 3, form)
        return OpenBatch(name, max(_number("timeout", words[2]), 0))
    if verb == b"confirm":
        form = "confirm <queue> <count>"
        name = _name(words, form, "Queue name & count required", 3)
        _refuse_more(words, 3, form)
        number = max(_number("count", words[2]), 0)
        return Formed(Confirm(name, number, False), TextForm(b"+%d\n" % number))
    if verb in (b"flush", b"delete"):
        form = f"{verb.decode()} <queue>"
        name = _name(words, form)
        _refuse_more(words, 2, form)
        return Plain(verb, [name]) if verb == b"flush" else Delete(name, 0, False)
    if verb == b"status":
        _refuse_more(words, 2, "status [status]")
        return Plain(verb, words[1:])
    if verb in (b"version", b"quit", b"shutdown"):
        _refuse_more(words, 1, verb.decode())
        return Shutdown() if verb == b"shutdown" else Plain(verb, [])
    raise ClientError(
        f"Unknown command: {readable(words[0][:100])}. Known are put get peek monitor confirm "
        "flush delete status version shutdown quit"
    )


def _name(
    words: list[bytes], form: str, missing: str = "Queue name required", least: int = 2
) -> bytes:
    if len(words) < least:
        raise ClientError(f"{missing}. The form is {form}")
    name = words[1]
    check_name(name.partition(b"/")[0])
    if b"/" in name:
        raise ClientError(f"the text port has no options, and {readable(name)} has one: {form}")
    return name


def _refuse_more(words: list[bytes], most: int, form: str) -> None:
    if len(words) > most:
        raise ClientError(f"too many words. The form is {form}")


def _number(what: str, word: bytes) -> int:
    digits = word.removeprefix(b"-")
    if not digits.isdigit() or len(digits) > _NUMBER_DIGITS_MAX:
        unit = "" if what == "count" else " of milliseconds"
        raise ClientError(
            f"Error parsing {what}. A whole number{unit} of at most {_NUMBER_DIGITS_MAX} digits is "
            "allowed"
        )
    return int(word)
