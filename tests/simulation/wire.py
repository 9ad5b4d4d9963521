"""A connection without a socket: bytes that take their time, in pieces, and may never arrive.

    client ── send ──▶ pieces ── (delay) ──▶ data_received       the checker hears of each request
    client ◀── (delay) ── pieces ◀── write                        ... and of each reply

One rule: the checker hears of a request when the server gets its last byte, and of a reply when the
server writes it. Events on the way after that change no promise.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any, Final, Protocol

from tests.simulation.loop import SimLoop
from tests.simulation.requests import Request, Talk

_TRIP_US: Final = (50, 100, 200, 200, 1_000)
_HIGH_BYTES: Final = (600, 4_000, 64_000)


class Hearer(Protocol):
    """The listener to the events of connections."""

    def connected(self, talk: Talk) -> None:
        """It is open."""

    def arrived(self, talk: Talk, request: Request) -> None:
        """The last byte of the request is with the server."""

    def said(self, talk: Talk, data: bytes) -> None:
        """The server let go of these bytes."""

    def ended(self, talk: Talk) -> None:
        """Its client says no more."""

    def closed_by_server(self, talk: Talk) -> None:
        """The server has closed it."""

    def lost(self, talk: Talk) -> None:
        """Its client is gone, and what was on the way as well."""


class Wire(asyncio.Transport):
    """Both ends of one connection, in one life of the server."""

    def __init__(self, loop: SimLoop, random: Random, checker: Hearer, number: int) -> None:
        super().__init__()
        self.number = number
        self.talk = Talk(number)
        self.is_closed = False  # neither end hears the other any more
        self.on_closed: Callable[[], None] | None = None
        self._loop = loop
        self._random = random
        self._checker = checker
        self._protocol: Any = None
        self._inbound: deque[tuple[bytes, list[Request]]] = deque()
        self._drops = False  # True if the client is gone, and what was on the way as well
        self._arrives_us = 0
        self._reads = True
        self._closing = False
        self._high = random.choice(_HIGH_BYTES)
        self._on_the_way = 0
        self._paused = False

    def connect(self, accept: Callable[[], asyncio.Protocol]) -> None:
        """The server hears of it."""

        def made() -> None:
            self._protocol = accept()
            self._checker.connected(self.talk)
            self._protocol.connection_made(self)

        self._loop.outside(made)

    # -- the client's end -------------------------------------------------------------------

    def send(self, requests: list[Request], rest: bytes = b"") -> None:
        """Say these, and perhaps the beginning of one more; cut anywhere."""
        random = self._random
        said = [self.encode(request) for request in requests]
        data = b"".join(said) + rest
        ends = []
        at = 0
        for request, words in zip(requests, said, strict=True):
            at += len(words)
            ends.append((at, request))
        cuts = sorted({random.randint(1, len(data)) for _ in range(random.choice((0, 0, 1, 3)))})
        start = 0
        for stop in sorted({*cuts, len(data)}):
            whole = [request for end, request in ends if start < end <= stop]
            self._send_piece(data[start:stop], whole)
            start = stop

    def encode(self, request: Request) -> bytes:
        """As it goes over this wire."""
        return request.data

    def _send_piece(self, data: bytes, whole: list[Request]) -> None:
        now = self._loop.timeline.us
        self._arrives_us = max(self._arrives_us, now + self._random.choice(_TRIP_US))

        def arrive() -> None:
            if self._drops:
                return  # it came behind what was dropped
            self._inbound.append((data, whole))
            self._loop.outside(self._receive)

        self._loop.timeline.at(self._arrives_us, arrive)

    def _receive(self) -> None:
        while self._inbound and self._reads and not (self.is_closed or self._closing):
            data, whole = self._inbound.popleft()
            for request in whole:
                self.note_arrival(request)
            self._protocol.data_received(data)

    def note_arrival(self, request: Request) -> None:
        """Its last byte is with the server, which executes it next."""
        self._checker.arrived(self.talk, request)

    def hang_up(self) -> None:
        """The client is gone; what is on the way may or may not arrive."""
        self._loop.timeline.after(self._random.choice(_TRIP_US), self._lose)

    def _lose(self) -> None:
        if self._random.random() < 0.5:
            self._drops = True
            self._inbound.clear()
        self._loop.outside(self._lost)

    def end(self) -> None:
        """The client says no more but listens."""

        def ended() -> None:
            if not (self.is_closed or self._closing) and not self._inbound:
                self._checker.ended(self.talk)
                if not self._protocol.eof_received():
                    self.close()

        delay = max(self._arrives_us - self._loop.timeline.us, 0) + 300
        self._loop.timeline.after(delay, lambda: self._loop.outside(ended))

    # -- the server's end -------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        loop = self._loop
        if self._closing or self.is_closed or loop.is_over or loop.is_mute:
            return
        self._checker.said(self.talk, data)
        self._on_the_way += len(data)
        if self._on_the_way > self._high and not self._paused:
            self._paused = True
            self._protocol.pause_writing()
        size = len(data)

        def read() -> None:
            self._on_the_way -= size
            if self._paused and self._on_the_way == 0 and not (self.is_closed or self._closing):
                self._paused = False
                self._loop.outside(self._let_write)

        loop.timeline.after(self._random.choice(_TRIP_US), read)

    def _let_write(self) -> None:
        if not self.is_closed:
            self._protocol.resume_writing()

    def close(self) -> None:
        if not (self._closing or self.is_closed or self._loop.is_mute):
            self._closing = True
            self.note_close()
            self._loop.call_soon(self._lost)

    def note_close(self) -> None:
        """The server closes it, of its own accord."""
        self._checker.closed_by_server(self.talk)

    def abort(self) -> None:
        self.close()

    def _lost(self) -> None:
        if self.is_closed:
            return
        if not self._closing:  # what came before the end is read before the end is seen
            self._receive()
        self.is_closed = True
        self._checker.lost(self.talk)
        self._protocol.connection_lost(None)
        if self.on_closed is not None:
            self.on_closed()

    def is_closing(self) -> bool:
        return self._closing or self.is_closed

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """The run has limits of its own, small ones."""

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("sim", self.number) if name == "peername" else default

    def get_write_buffer_size(self) -> int:
        return self._on_the_way

    def pause_reading(self) -> None:
        self._reads = False

    def resume_reading(self) -> None:
        if not self._reads:
            self._reads = True
            self._loop.outside(self._receive)
