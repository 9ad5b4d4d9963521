"""Many connections over one socket: the clients of a router, at one slice.

    client 1 ──▶ channel 1 ──┐              ┌──▶ channel 1 ──▶ Connection
    client 2 ──▶ channel 2 ──┴──▶ Trunk ════╧══▶ channel 2 ──▶ Connection

What is written on all channels in one turn of the loop leaves in one write. A channel is to its
protocol what a transport is: each frame says whose it is.

    frame    number of the channel, 4 bytes; size * 8 + kind, 4 bytes; for DATA so many bytes follow
    OPEN     the router has a new channel
    DATA     bytes
    END      this side writes no more on the channel
    CLOSE    the channel is over
    TAKEN    the protocol has taken in so many bytes
    WANT     so many bytes of answers wait for room
    LENT     so many of them may come

At most WINDOW_BYTES of requests are on their way in a channel, and ANSWER_BYTES of answers: a slice
that has more to say asks, and the router lends it room while there is memory (`lender`).

One rule: a protocol that does not read stops its own channel alone. Channels that wait for the
socket take turns.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Callable
from struct import Struct
from typing import Final, cast

log = logging.getLogger("kestrelpy")

WINDOW_BYTES: Final = 256 << 10  # what the kernel's buffer of a Unix socket holds
# The router has so much memory for a client that does not read, whatever the slice has to say.
ANSWER_BYTES: Final = 16 << 10
LENT_BYTES_MAX: Final = WINDOW_BYTES - ANSWER_BYTES
# After such a part of it the other side is told what has been taken in.
_TOLD_PART: Final = 4
# Frames of one turn, before they are written without waiting for its end.
_TURN_BYTES: Final = 256 << 10
# What a channel sends before the next one that waits for the socket has its turn.
_PIECE_BYTES: Final = 64 << 10
_OPEN, _DATA, _END, _CLOSE, _TAKEN, _WANT, _LENT = range(7)
_HEAD: Final = Struct("<II")
_HEAD_BYTES: Final = 8
_NUMBERS: Final = 1 << 32
Make = Callable[[], asyncio.BaseProtocol]


class ClientChannel:
    """One connection: it has the methods of asyncio.Transport that connections use."""

    __slots__ = (
        "_asks", "_has_asked", "_has_ended", "_high", "_inbox", "_inbox_bytes", "_is_closing",
        "_is_cut", "_is_ended", "_is_full", "_is_heard", "_lent", "_low", "_number", "_of_window",
        "_protocol", "_room", "_told_bytes", "_trunk", "_unsent", "_untold", "_wanted", "lender",
    )  # fmt: skip

    def __init__(
        self, trunk: Trunk, number: int, protocol: asyncio.Protocol, is_of_router: bool
    ) -> None:
        """`is_of_router`: requests leave here, and answers come."""
        self._asks = not is_of_router
        self._told_bytes = (ANSWER_BYTES if is_of_router else WINDOW_BYTES) // _TOLD_PART
        self._has_asked = False  # True if the other side knows that bytes wait for room
        self._wanted = 0  # bytes that wait there
        self._lent = 0  # of the room there, apart from its window
        self._of_window = 0  # bytes that came in the window, and wait in the inbox
        self._inbox_bytes = 0
        self.lender: Callable[[int], bool] | None = None  # True: so many bytes may come now
        self._trunk, self._number = trunk, number
        self._protocol: asyncio.Protocol | None = protocol  # None: it has heard of the end
        # bytes that may be sent now
        self._room = WINDOW_BYTES if is_of_router else ANSWER_BYTES
        self._unsent = bytearray()  # they wait for room
        self._high, self._low = 64 << 10, 16 << 10
        self._is_full = False  # True if the protocol was told to write no more
        self._untold = 0  # bytes taken in of which the other side has not heard
        self._inbox: deque[bytes] = deque()  # came while the protocol did not read
        self._is_heard = True  # False while the protocol does not read
        self._is_ended = False  # True if the protocol writes no more
        self._has_ended = False  # True if the other side writes no more, once the inbox is empty
        self._is_cut = False  # the same, if the other side has closed
        self._is_closing = False

    # -- as a transport ---------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        """Send bytes, when the other side has room for them; a side that has closed takes none."""
        if self._is_closing or self._is_ended or self._is_cut or not data:
            return
        size = len(data)
        if size <= self._room and not self._unsent and not self._trunk.is_full:
            self._room -= size
            self._trunk.send(self._number, _DATA, size, data)
            return
        self._unsent += data
        self.pump()
        if len(self._unsent) > self._high and not self._is_full and self._protocol is not None:
            self._is_full = True
            self._protocol.pause_writing()

    def write_eof(self) -> None:
        """Say that no more is written, after what was."""
        if not (self._is_ended or self._is_closing):
            self._is_ended = True
            if not self._unsent:
                self._trunk.send(self._number, _END, 0)

    def can_write_eof(self) -> bool:
        """Return True: each direction ends by itself."""
        return True

    def close(self) -> None:
        """End the channel once everything is sent. What comes until then is dropped and counts as
        taken in: the other side may have to write before it takes in more."""
        if not self._is_closing:
            self._is_closing = True
            if not self._unsent:
                self._cut()
            else:
                self.resume_reading()

    def abort(self) -> None:
        """End the channel at once."""
        if not self._is_closing or self._unsent:
            self._is_closing = True
            self._cut()

    def is_closing(self) -> bool:
        """Return True if nothing more can be written."""
        return self._is_closing

    def pause_reading(self) -> None:
        """Let what comes wait."""
        self._is_heard = self._is_closing

    def resume_reading(self) -> None:
        """Take in what has come, soon."""
        if not self._is_heard:
            self._is_heard = True
            if self._inbox or self._has_ended or self._is_cut:
                self._trunk.call_soon(self._read_on)

    def set_write_buffer_limits(self, high: int, low: int | None = None) -> None:
        """Let the protocol write until more than `high` bytes wait here, and again when only `low`
        do."""
        self._high, self._low = high, high // 4 if low is None else low

    def get_write_buffer_size(self) -> int:
        """Return how many bytes wait here."""
        return len(self._unsent)

    @property
    def held_bytes(self) -> int:
        """The bytes that wait here in either direction, or may come at any time."""
        return len(self._unsent) + self._inbox_bytes + self._lent

    def get_extra_info(self, name: str, default: object = None) -> object:
        """Return what the socket says of itself."""
        return self._trunk.extra_info(name, default)

    # -- from the trunk ---------------------------------------------------------------------

    def heard(self, data: bytes) -> None:
        """Take in bytes."""
        lent = min(self._lent, len(data))
        self._lent -= lent
        self._of_window += len(data) - lent
        if self._wanted:
            self._wanted = max(self._wanted - len(data), 1)
        if self._is_heard and not self._inbox:
            self._hand_over(data)
        else:
            self._inbox.append(data)
            self._inbox_bytes += len(data)

    def note(self, kind: int, size: int) -> None:
        """Take a frame without bytes."""
        if kind == _TAKEN:
            self._room += size
            if self._unsent:
                self.pump()
        elif kind == _LENT:
            self._room += size
            self._has_asked = False
            if self._unsent:
                self.pump()
        elif kind == _WANT:
            self._wanted = size
            self._lend()
        elif kind == _END:
            self._has_ended = True
            if self._is_heard and not self._inbox:
                self._read_on()
        elif kind == _CLOSE:
            self.note_close()

    def pump(self, most: int = WINDOW_BYTES) -> None:
        """Send what waits, as far as there is room, and at most so many bytes; stand in line if the
        socket is what it waits for."""
        if not self._unsent:
            return
        trunk = self._trunk
        size = min(len(self._unsent), self._room, most)
        if size and not trunk.is_full:
            piece = bytes(self._unsent[:size])
            del self._unsent[:size]
            self._room -= size
            trunk.send(self._number, _DATA, size, piece)
        if self._unsent and self._room:
            trunk.stand_in_line(self._number, self)
        is_blocked = len(self._unsent) > ANSWER_BYTES and not self._room
        if is_blocked and self._asks and not self._has_asked:
            self._has_asked = True
            trunk.send(self._number, _WANT, len(self._unsent))
        if self._is_full and len(self._unsent) <= self._low and self._protocol is not None:
            self._is_full = False
            self._protocol.resume_writing()
        if not self._unsent:
            if self._is_closing:
                self._cut()
            elif self._is_ended:
                trunk.send(self._number, _END, 0)

    def note_close(self) -> None:
        """Note that the other side has closed, or is gone: what waits here is for nobody."""
        self._is_cut = True
        if self._is_heard and not self._inbox:
            self._read_on()
            return
        self._unsent.clear()
        if self._is_full and self._protocol is not None:
            self._is_full = False
            self._protocol.resume_writing()

    # -- inside -----------------------------------------------------------------------------

    def _hand_over(self, data: bytes) -> None:
        if self._protocol is None:
            return
        in_window = min(self._of_window, len(data))
        self._of_window -= in_window
        self._untold += in_window
        if self._untold >= self._told_bytes:
            self._trunk.send(self._number, _TAKEN, self._untold)
            self._untold = 0
        if not self._is_closing:
            self._protocol.data_received(data)
        if self._wanted:
            self._lend()

    def _lend(self) -> None:
        """Let more come than the window has room for, if there is memory for it, and not more than
        waits. Each part that comes in the window asks again."""
        size = max(min(self._wanted - ANSWER_BYTES, LENT_BYTES_MAX), 0)
        if size and not (self._is_heard and self.lender is not None and self.lender(size)):
            return
        self._wanted = 0
        self._lent += size
        self._trunk.send(self._number, _LENT, size)

    def _read_on(self) -> None:
        """Hand over what waited, then the end."""
        while self._inbox and self._is_heard:
            data = self._inbox.popleft()
            self._inbox_bytes -= len(data)
            self._hand_over(data)
        if self._inbox or not self._is_heard or self._protocol is None:
            return
        if self._has_ended and not self._is_closing:
            self._has_ended = False
            if not self._protocol.eof_received():
                self.close()
        if self._is_cut:
            self._is_closing = True
            self._unsent.clear()
            self._trunk.forget(self._number)
            self._lose()

    def _cut(self) -> None:
        """Tell the other side that it is over, and the protocol after that."""
        self._unsent.clear()
        self._inbox.clear()
        self._inbox_bytes = self._lent = 0
        self._trunk.send(self._number, _CLOSE, 0)
        self._trunk.forget(self._number)
        self._trunk.call_soon(self._lose)

    def _lose(self) -> None:
        protocol, self._protocol = self._protocol, None
        if protocol is not None:
            protocol.connection_lost(None)


class Trunk(asyncio.Protocol):
    """The socket between a router and a slice. Both sides have one."""

    __slots__ = (
        "_begun", "_channels", "_frame_bytes", "_frames", "_last", "_line", "_loop", "_lost",
        "_make", "_rest", "_transport", "is_full",
    )  # fmt: skip

    def __init__(
        self, begun: Callable[[Trunk], None], lost: Callable[[Trunk], None],
        make: Make | None = None,
    ) -> None:  # fmt: skip
        """`make` makes the protocol of a channel that the other side opens; None: it opens none.
        `begun` is called when the socket is connected, `lost` when it is lost."""
        self._loop = asyncio.get_running_loop()
        self._make, self._begun, self._lost = make, begun, lost
        self._transport: asyncio.Transport | None = None
        self._channels: dict[int, ClientChannel] = {}
        self._line: OrderedDict[int, ClientChannel] = OrderedDict()  # these wait for the socket
        self._last = 0  # the number given last
        self._rest = b""  # the beginning of a frame
        self._frames: list[bytes] = []  # of this turn
        self._frame_bytes = 0
        self.is_full = False  # True while the other side takes nothing

    @property
    def is_open(self) -> bool:
        """True if channels can be opened."""
        return self._transport is not None and not self._transport.is_closing()

    def open(self, make: Make) -> None:
        """Open a channel for a protocol that is made."""
        self._last = (self._last + 1) % _NUMBERS
        while self._last in self._channels:
            self._last = (self._last + 1) % _NUMBERS
        self.send(self._last, _OPEN, 0)
        self._begin(self._last, make)

    def _begin(self, number: int, make: Make) -> None:
        protocol = cast(asyncio.Protocol, make())
        made = self._channels[number] = ClientChannel(self, number, protocol, self._make is None)
        protocol.connection_made(cast(asyncio.Transport, made))

    def close(self) -> None:
        """Close the socket once everything is sent."""
        self._flush()
        if self._transport is not None:
            self._transport.close()

    # -- for channels -----------------------------------------------------------------------

    def send(self, number: int, kind: int, size: int, data: bytes = b"") -> None:
        """Send a frame with this turn."""
        if not self._frames:
            self._loop.call_soon(self._flush)
        self._frames.append(_HEAD.pack(number, size << 3 | kind))
        if data:
            self._frames.append(data)
            self._frame_bytes += size
            if self._frame_bytes >= _TURN_BYTES:
                self._flush()

    def _flush(self) -> None:
        if self._frames:
            data = b"".join(self._frames)
            self._frames.clear()
            self._frame_bytes = 0
            if self._transport is not None:
                self._transport.write(data)

    def forget(self, number: int) -> None:
        """Forget a channel that is over."""
        self._channels.pop(number, None)
        self._line.pop(number, None)

    def stand_in_line(self, number: int, channel: ClientChannel) -> None:
        """Let the channel have its turn when the socket takes something, after those that wait."""
        self._line.setdefault(number, channel)

    def call_soon(self, call: Callable[[], None]) -> None:
        """Call this later in this turn, or in the next one."""
        self._loop.call_soon(call)

    def extra_info(self, name: str, default: object) -> object:
        """Return what the socket says of itself."""
        if self._transport is None:
            return default
        return cast(object, self._transport.get_extra_info(name, default))

    # -- as a protocol ----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have the methods of asyncio.Transport without being one.
        self._transport = cast(asyncio.Transport, transport)
        self._begun(self)

    def data_received(self, data: bytes) -> None:
        if self._rest:
            data = self._rest + data
        at, size = 0, len(data)
        while size - at >= _HEAD_BYTES:
            number, told = cast(tuple[int, int], _HEAD.unpack_from(data, at))
            begin = at + _HEAD_BYTES
            kind, length = told & 7, told >> 3
            end = begin + length if kind == _DATA else begin
            if end > size:
                break
            try:
                channel = self._channels.get(number)
                if channel is None:
                    if kind == _OPEN and self._make is not None:
                        self._begin(number, self._make)
                elif kind == _DATA:
                    channel.heard(data[begin:end])
                else:
                    channel.note(kind, length)
            except Exception:  # a bug: this client ends, the others do not
                log.exception("a channel of the router")
                if (failed := self._channels.get(number)) is not None:
                    failed.abort()
            at = end
        self._rest = data[at:]

    def pause_writing(self) -> None:
        self.is_full = True

    def resume_writing(self) -> None:
        self.is_full = False
        while self._line and not self.is_full:
            self._line.popitem(last=False)[1].pump(_PIECE_BYTES)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        for each in list(self._channels.values()):
            each.note_close()
        self._channels.clear()
        self._line.clear()
        self._lost(self)
