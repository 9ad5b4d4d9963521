"""One connection to a server, for reading much at once: `gets q/peek/after=5/n=10000/full`.

    VALUE <key> <flags> <bytes> <marker> <stored> <expires> <attempts> <state> <key> <id>
    <body>
    VALUE ...
    END

A client library keeps one value per key; here many values have the same key. The answer is parsed
while it arrives, line by line and body by body. The fields of a line are decoded later, column by
column, while the next answer is under way.

One rule: an answer counts once its END has arrived. Before that no item of it is handed on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kestrelpy.spark.errors import KestrelError
from kestrelpy.spark.offsets import Address
from kestrelpy.wire import dial
from kestrelpy.wire.dial import NOBODY, Access
from kestrelpy.wire.refusals import LoginRefused, plain

ITEMS_MAX: Final = 10_000  # of one answer; the server also stops at 4 MiB
_ROOM_BYTES: Final = 5 << 20  # enough for an answer of 4 MiB and its lines
_RECEIVE_BYTES: Final = 1 << 20
_LINE_BYTES_MAX: Final = 64 << 10  # the longest reply line is a sentence
_FIELDS: Final = 11  # of a VALUE line with `full`
_ERRORS: Final = (b"ERROR", b"CLIENT_ERROR ", b"SERVER_ERROR ")


class Lost(OSError):
    """The connection ended, or no answer came in time; a retry may help."""


class ServerUnreachable(KestrelError):
    """The server does not answer, after all retries."""

    def __init__(self, address: Address, reason: str) -> None:
        super().__init__(
            f"The server {address} cannot be reached: {reason}. Start it, correct the option "
            "servers, or say skipUnreachable=true to read the others."
        )
        self.skipped = (
            f"The server {address} cannot be reached: {reason}. Its items that are not read yet "
            "are skipped (skipUnreachable=true)."
        )


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait for a server, how often to retry, and who asks."""

    connect_ms: int
    read_ms: int
    retries: int
    retry_ms: int
    access: Access = NOBODY


class Values:
    """The items of one answer: the fields of each VALUE line, and all bodies in a row."""

    __slots__ = ("bodies", "lengths", "lines")

    def __init__(self, lines: list[list[bytes]], lengths: list[int], bodies: bytes) -> None:
        self.lines = lines
        self.lengths = lengths
        self.bodies = bodies

    @property
    def last_marker(self) -> int:
        """The marker of the last item; there is at least one item."""
        return int(self.lines[-1][4])


class LiveConnection:
    """One connection; raises Lost when it breaks, KestrelError when the server says no."""

    def __init__(self, address: Address, patience: Patience) -> None:
        self.address = address
        self._room = bytearray(_ROOM_BYTES)
        self._view = memoryview(self._room)
        self._at = 0
        self._filled = 0
        self._access, self._is_new = patience.access, True
        where = (address.host, address.port) if address.port else address.host
        self._where: dial.Address = where
        try:
            self._socket = dial.connect(
                where, patience.access, patience.connect_ms / 1000, patience.read_ms / 1000
            )
        except OSError as error:
            raise Lost(why(error)) from None
        except LoginRefused as error:
            if error.may_pass:
                raise Lost(str(error)) from None
            raise KestrelError(f"The server {address} refused: {error}.") from None

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def ask(self, line: str) -> None:
        """Send a request; read its answer before the next request."""
        try:
            self._socket.sendall(line.encode() + b"\r\n")
        except OSError as error:
            raise Lost(why(error)) from None

    def answer(self, line: str) -> str:
        """Send a request and return its answer, which is one line."""
        self.ask(line)
        return self._line().decode("ascii", "backslashreplace")

    def server_id(self) -> str:
        """Return the server's id, and close: the rest of its `stats` may be long."""
        self.ask("stats")
        try:
            while True:
                words = self._stat_line()
                if words is None:
                    raise KestrelError(f"{self.address} does not say its id: is it kestrelpy?")
                if words[0] == "server_id":
                    return words[1]
        finally:
            self.close()

    def stats(self, what: str) -> dict[str, str]:
        """Return the answer to `stats <what>`; with "" to `stats`."""
        self.ask(f"stats {what}".rstrip())
        found = {}
        while (words := self._stat_line()) is not None:
            found[words[0]] = words[1]
        return found

    def _stat_line(self) -> Sequence[str] | None:
        line = self._line()
        if line == b"END":
            return None
        words = line.decode("ascii", "backslashreplace").split(" ", 2)
        if len(words) != 3 or words[0] != "STAT":
            raise self._not_understood(line)
        return words[1:]

    def add_cursor(self, child: str) -> None:
        """Make a child that begins with the earliest item there; nothing if it exists."""
        self.ask(f"get {child}/peek/from=1")
        while True:
            line = self._line()
            if line == b"END":
                return
            words = line.split(b" ")
            if words[0] != b"VALUE":
                raise self._not_understood(line)
            end = self._at + int(words[3]) + 2
            if end > self._filled:
                self._fill(end)
            self._at = end

    def confirm_upto(self, queue: str, marker: int) -> None:
        """Confirm all items of a queue, or of a child, up to a marker."""
        self.ask(f"delete {queue}/upto={marker}")
        line = self._line()
        if line not in (b"DELETED", b"NOT_FOUND"):
            raise self._not_understood(line)

    def values(self) -> Values:
        """Return the answer to a `gets`."""
        self._at = self._filled = 0  # the answer before this one was read whole
        lines: list[list[bytes]] = []
        lengths: list[int] = []
        bodies: list[memoryview] = []
        while True:
            # The loop stays in this function: a call for each item would be half the cost.
            view, at, filled = self._view, self._at, self._filled
            find = self._room.find
            while (end := find(b"\r\n", at, filled)) > 0:
                fields = bytes(view[at:end]).split(b" ")
                if len(fields) != _FIELDS or fields[0] != b"VALUE":
                    break
                length = int(fields[3])
                start = end + 2
                end = start + length
                if end + 2 > filled:
                    self._fill(end + 2)
                    view, filled, find = self._view, self._filled, self._room.find
                at = end + 2
                lines.append(fields)
                lengths.append(length)
                bodies.append(view[start:end])
            self._at = at
            line = self._line()
            if line == b"END":
                return Values(lines, lengths, b"".join(bodies))
            if line.count(b" ") != _FIELDS - 1 or not line.startswith(b"VALUE "):
                raise self._not_understood(line)
            self._at = at  # the line's end came in just now

    def _line(self) -> bytes:
        searched = self._at
        while (end := self._room.find(b"\r\n", searched, self._filled)) < 0:
            searched = max(self._filled - 1, self._at)
            if self._filled - self._at > _LINE_BYTES_MAX:
                raise KestrelError(f"{self.address} does not speak memcache: is it kestrelpy?")
            self._fill(self._filled + 1)
        line = bytes(self._view[self._at : end])
        self._at = end + 2
        if line.startswith(_ERRORS):
            raise self._not_understood(line)
        return line

    def _fill(self, upto: int) -> None:
        """Receive until `upto` bytes are there."""
        if upto + _RECEIVE_BYTES > len(self._room):
            room = bytearray(max(upto + _RECEIVE_BYTES, 2 * len(self._room)))
            room[: self._filled] = self._view[: self._filled]
            self._room, self._view = room, memoryview(room)
        while self._filled < upto:
            try:
                count = self._socket.recv_into(self._view[self._filled :])
                if not count:
                    raise ConnectionError("it hung up")
            except OSError as error:
                found = error
                if self._is_new:
                    found = dial.explained(error, self._where, self._access)
                raise Lost(why(found)) from None
            self._is_new = False
            self._filled += count

    def _not_understood(self, line: bytes) -> KestrelError:
        said = line[:200].decode("ascii", "backslashreplace")
        if line.startswith(_ERRORS[1:]):
            text = plain(said.partition(" ")[2])
            return KestrelError(f"The server {self.address} refused: {text}.")
        return KestrelError(
            f"The server {self.address} answers {said!r}, which is not what kestrelpy says. Is it "
            "one of this version?"
        )


def why(error: OSError) -> str:
    """Return in a few words why a connection failed."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return dial.why(error)
