"""Connections to the slices: one request at a time on each, and those that are free wait for more.

    head, body ──▶ SliceLink ──▶ slice ──▶ httptools ──▶ status, headers, parts of the body

A part that the reader has not taken stops the slice, and a slice that does not read stops the
writer.

One rule: a request is sent once; a slice that ends after that leaves open whether it was carried
out.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final, cast

import httptools

from journal.engine import Member
from kestrelpy.http.slices.ports import SlicesPort

HELD_BYTES_MAX: Final = 256 << 10
# A slice closes a connection that was free for KEEP_ALIVE_SECONDS of its listener, which are more.
FREE_SECONDS: Final = 10.0
FREE_MAX: Final = 32  # to each slice
# A request behind the one that waits ends the wait. Its own answer is not read.
_HURRY: Final = b"HEAD /page/style.css HTTP/1.1\r\nhost: localhost\r\n\r\n"
Headers = list[tuple[bytes, bytes]]


class SliceEnded(Exception):
    """The slice hung up before its answer was whole."""


class SliceLink(asyncio.Protocol):
    """One connection to a slice. After `begin`: `status` and `headers` of the answer."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._parser: httptools.HttpResponseParser | None = None
        self._is_head = self._is_full = self._has_answer = self._is_hurried = False
        self._parts: list[bytes] = []
        self._held = 0
        self._news = asyncio.Event()
        self.status = 0
        self.headers: Headers = []
        self.is_whole = False  # True if all of the answer has come
        self.is_open = False
        self.may_go_on = True  # False if no other request may follow
        self.free_since = 0.0
        self.owner: Member | None = None  # of the slice, as this connection was made

    # -- from the socket --------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have the methods of asyncio.Transport without being one.
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=HELD_BYTES_MAX)
        self.is_open = True

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self.is_open = self.may_go_on = False
        self._news.set()

    def data_received(self, data: bytes) -> None:
        if self._parser is None or self.is_whole:  # nobody has asked
            self.close()
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self.close()
        self._news.set()

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False
        self._news.set()

    # -- from the parser --------------------------------------------------------------------

    def on_header(self, name: bytes, value: bytes) -> None:
        """Note a header."""
        if self.is_whole:  # of the answer to the request behind
            return
        self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """Note the head of the answer; to a HEAD it is the whole answer."""
        assert self._parser is not None
        if self.is_whole:
            return
        self.status, self._has_answer = self._parser.get_status_code(), True
        self.may_go_on = self._parser.should_keep_alive() and not self._is_hurried
        self.is_whole = self._is_head

    def on_body(self, body: bytes) -> None:
        """Note a part of the body."""
        if self.is_whole:
            return
        self._parts.append(body)
        self._held += len(body)
        if self._held > HELD_BYTES_MAX and self._transport is not None:
            self._transport.pause_reading()

    def on_message_complete(self) -> None:
        """Note the end of the answer. The connection is heard again, however much is held: it may
        serve another request, or close."""
        self.is_whole = True
        if self._transport is not None:
            self._transport.resume_reading()

    # -- for a request ----------------------------------------------------------------------

    def begin(self, head: bytes, *, is_head: bool = False) -> None:
        """Send the head of a request; `is_head`: its answer has no body."""
        self._parser = httptools.HttpResponseParser(self)
        self._is_head, self._has_answer, self.is_whole = is_head, False, False
        self.headers, self._parts, self._held = [], [], 0
        if self._transport is not None:
            self._transport.write(head)

    async def send(self, part: bytes) -> None:
        """Send a part of the body, when the slice takes it."""
        while self._is_full and self.is_open and not self._has_answer:
            await self._next()
        if self._transport is not None:
            self._transport.write(part)

    async def answer_begins(self) -> None:
        """Return when the head of the answer is there; raise SliceEnded."""
        while not self._has_answer:
            if not self.is_open:
                raise SliceEnded
            await self._next()

    async def parts(self) -> AsyncIterator[bytes]:
        """Yield the body of the answer; raise SliceEnded."""
        while True:
            parts, self._parts, self._held = self._parts, [], 0
            if parts:
                yield parts[0] if len(parts) == 1 else b"".join(parts)
            elif self.is_whole:
                return
            elif not self.is_open:
                raise SliceEnded
            else:
                if self._transport is not None:
                    self._transport.resume_reading()
                await self._next()

    def hurry(self) -> None:
        """Let the slice answer now what it was asked: a wait for an item ends. No other request
        follows."""
        self._is_hurried, self.may_go_on = True, False
        if self._transport is not None and not self.is_whole:
            self._transport.write(_HURRY)

    async def _next(self) -> None:
        self._news.clear()
        await self._news.wait()

    def close(self) -> None:
        """Hang up."""
        self.is_open = self.may_go_on = False
        if self._transport is not None:
            self._transport.abort()


class Links:
    """The connections of one router by slice: those that are free, and those with a request."""

    def __init__(self, slices: SlicesPort) -> None:
        self._slices = slices
        self._free: dict[int, list[SliceLink]] = {}
        self._taken: dict[int, set[SliceLink]] = {}
        slices.call_at_move(self.note_owner)

    async def take(self, number: int, is_patient: bool = True) -> SliceLink:
        """Return a connection to a slice. Raise SliceAway: soon, unless `is_patient`."""
        link = self._free_one(number) or await self._new_one(number, is_patient)
        self._taken.setdefault(number, set()).add(link)
        return link

    def _free_one(self, number: int) -> SliceLink | None:
        free, now_s = self._free.get(number, []), asyncio.get_running_loop().time()
        while free:
            link = free.pop()
            if link.is_open and now_s - link.free_since < FREE_SECONDS:
                return link
            link.close()
        return None

    async def _new_one(self, number: int, is_patient: bool) -> SliceLink:
        link = SliceLink()
        try:
            link.owner = await self._slices.connect_http(number, lambda: link, is_patient)
        except BaseException:
            link.close()
            raise
        return link

    def note_owner(self, number: int, owner: Member) -> None:
        """Break the connections to a member that has the slice no more: it may be asleep."""
        for link in (*self._free.get(number, ()), *self._taken.get(number, ())):
            if link.owner not in (None, owner):
                link.close()

    def give(self, number: int, link: SliceLink) -> None:
        """Take back a connection; one whose answer is not whole is closed."""
        self._taken[number].discard(link)
        free = self._free.setdefault(number, [])
        if not (link.is_whole and link.may_go_on) or len(free) >= FREE_MAX:
            link.close()
            return
        link.free_since = asyncio.get_running_loop().time()
        free.append(link)

    def close(self) -> None:
        """Close the connections that are free."""
        for free in self._free.values():
            for link in free:
                link.close()
        self._free = {}
