"""One server and the rows for it: windows of requests ahead of their answers.

    put ─▶ building ─▶ sent, not answered ─▶ STORED
              ▲ a window       │ hung up, refused for now
              └── again ◀──────┘ until `writeTimeout` passes without a stored row

A request that got no answer may have been carried out. It is sent again: the server knows its id.

A `set` with an id answers STORED for a repetition as well, so a row is sent as requests whose
answers tell the two apart:

    no id            set        STORED
    an id            add        STORED: it is new; NOT_STORED: it is there, or the queue is full,
                                and the next line finds out
    an id and a key  cas, set   cas with a version that no key has: STORED only for a repetition

A row whose answer was lost counts as a repetition if it was stored.

One rule: at most three windows are in memory, so a slow server slows the task down.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Final, TypeVar

from kestrelpy.spark.errors import KestrelError
from kestrelpy.spark.live import LiveConnection, Lost, Patience, forget
from kestrelpy.spark.offsets import Address, FleetAddress
from kestrelpy.spark.write.write_options import WriteOptions
from kestrelpy.wire.refusals import ServerRefusal, is_logged_out, plain

_T = TypeVar("_T")
WINDOW_ROWS: Final = 500
WINDOW_BYTES: Final = 1 << 20
_AHEAD: Final = 1  # windows sent before the answers to the one before are read
_PAUSE_SECONDS: Final = 0.05
_PAUSE_SECONDS_MAX: Final = 2.0
_FOR_GOOD: Final = (b"SERVER_ERROR item too large", b"SERVER_ERROR object too large")
_NO_VERSION: Final = (1 << 53) - 1  # the largest number there is, which no key reaches


class Lane:
    """The rows of one task for one server. `server` is its id, once it is known."""

    def __init__(self, address: Address, options: WriteOptions, server: str = "") -> None:
        self.address = address
        self.server = server
        self.stored = 0
        self.repeated = 0
        self.was_refused = False  # for a while: later rows may be stored before a refused one
        self._options = options
        self._building: list[bytes] = []
        self._building_bytes = 0
        self._sent: deque[list[bytes]] = deque()
        self._connection: LiveConnection | None = None

    def know(self) -> None:
        """Find the server's id, within `writeTimeout`. Raises KestrelError."""
        waiting = _Waiting(self)
        while not self.server:
            try:
                self._open()
            except Lost as error:
                waiting.again(str(error))

    def put(self, request: bytes) -> None:
        """Take a `set` of a row; it may be sent later. Raises KestrelError."""
        request = _telling(request)
        self._building.append(request)
        self._building_bytes += len(request)
        if len(self._building) >= WINDOW_ROWS or self._building_bytes >= WINDOW_BYTES:
            self._turn()

    def finish(self) -> None:
        """Return when all rows are stored. Raises KestrelError."""
        if self._building:
            self._turn()
        self._collect(0)

    def close(self) -> None:
        """Close the connection; a new one is made when it is needed."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def ask(self, request: bytes, read: Callable[[LiveConnection], _T]) -> _T:
        """Return what `read` makes of the answer, within `writeTimeout`. Raises KestrelError."""
        waiting = _Waiting(self)
        while True:
            try:
                connection = self._open()
                connection.send(request)
                return read(connection)
            except (Lost, ServerRefusal) as error:
                self.close()
                waiting.again(str(error))

    def _turn(self) -> None:
        """Send the window that is built, and read the answers to the one before."""
        window, self._building, self._building_bytes = self._building, [], 0
        self._sent.append(window)
        try:
            self._open().send(b"".join(window))
        except Lost as error:
            self._insist(str(error))
        else:
            self._collect(_AHEAD)

    def _collect(self, ahead: int) -> None:
        """Read answers until only `ahead` windows have none."""
        while len(self._sent) > ahead:
            window = self._sent[0]
            try:
                reason = self._answers(window)
                if not reason and window:  # is it there, or is the queue full?
                    self._open().send(b"".join(window))
                    self._sent.append(list(window))
                    window.clear()
            except Lost as error:
                self._insist(str(error))
                return
            if reason:
                self.was_refused = True
                try:
                    for other in list(self._sent)[1:]:
                        self._answers(other)  # else what is stored there would count as repeated
                except Lost as error:
                    reason = str(error)
                self._insist(reason)
                return
            self._sent.popleft()

    def _answers(self, window: list[bytes]) -> str:
        """Read the answers to a window, and take the stored rows out of it.

        Return why others were refused; empty: the rows that are left need another request. Raises
        Lost, KestrelError.
        """
        connection = self._open()
        left, reason, done = [], "", 0
        try:
            for request in window:
                next_request, why_not = self._check_answer(request, connection)
                done += 1
                if next_request:
                    left.append(next_request)
                    reason = why_not or reason
        finally:
            window[:done] = left
        return reason

    def _check_answer(self, request: bytes, connection: LiveConnection) -> tuple[bytes, str]:
        """Return the next request for this row, and why it was refused; both empty: it is stored.

        Raises KestrelError, Lost.
        """
        probed = connection.answer().line if request.startswith(b"cas ") else b""
        # A queue with keys of its own refuses the key of a probe: then a row is taken for repeated.
        is_there = probed == b"STORED" or (
            probed.startswith(b"CLIENT_ERROR") and b"/key=" not in _line(request)
        )
        answer = connection.answer().line
        if answer == b"STORED":
            if is_there:
                self.repeated += 1
            else:
                self.stored += 1
            return b"", ""
        if answer == b"NOT_STORED":
            if request.startswith(b"add "):
                line = _line(request) + b"/key=0"
                return _probe(line) + b"set " + request[4:], ""
            return request, f"the queue {_name(request).partition('/')[0]} is full"
        if is_logged_out(answer):
            raise Lost("the login is over")
        text = answer.decode("ascii", "backslashreplace")
        if answer.startswith(b"SERVER_ERROR ") and not answer.startswith(_FOR_GOOD):
            return request, text.removeprefix("SERVER_ERROR ")
        if answer.startswith((b"CLIENT_ERROR ", b"SERVER_ERROR ")):
            raise KestrelError(
                f"The server {self.address} refused the row {_name(request)}: "
                f"{plain(text.partition(' ')[2])}. {self.before}"
            )
        raise KestrelError(
            f"The server {self.address} answers {text[:200]!r} to a set, which is not what "
            f"kestrelpy says. {self.before}"
        )

    @property
    def before(self) -> str:
        """What this task has stored, in a sentence, for an error."""
        return f"Before that, this task stored {self.stored} rows on {self.address}."

    def _insist(self, reason: str) -> None:
        """Store all that is sent and not stored, window by window. Raises KestrelError."""
        waiting = _Waiting(self)
        self.close()  # answers that are still on the way are for requests that are sent again
        while self._sent:
            if reason:
                waiting.again(reason)
            window, done = self._sent[0], self.stored + self.repeated
            try:
                self._open().send(b"".join(window))
                reason = self._answers(window)
            except Lost as error:
                reason = str(error)
                self.close()
            if self.stored + self.repeated > done:
                waiting.begin()
            elif reason and isinstance(self.address, FleetAddress):
                self.close()  # another member may own the queue by now
                forget(self.address)
            if not window:
                self._sent.popleft()

    def _open(self) -> LiveConnection:
        """Return the connection. Raises Lost, KestrelError."""
        if self._connection is None:
            options = self._options
            server = server_id(self.address, options)
            if self.server and server != self.server:
                raise KestrelError(
                    f"The server {self.address} is another one now: its id is {server}, and was "
                    f"{self.server}. Start the one before, or the write again. {self.before}"
                )
            self.server = server
            self._connection = _connected(self.address, options)
        return self._connection


class _Waiting:
    """How long a lane has stored nothing."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        self._seconds = lane._options.write_timeout_ms / 1000
        self.begin()

    def begin(self) -> None:
        """Begin anew: something was done."""
        self._until = time.monotonic() + self._seconds
        self._pause = _PAUSE_SECONDS

    def again(self, reason: str) -> None:
        """Wait before the next attempt. Raises KestrelError after the last."""
        left = self._until - time.monotonic()
        if left <= 0:
            lane = self._lane
            raise KestrelError(
                f"The server {lane.address} stored nothing for {self._seconds:g} s: "
                f"{reason}. {lane.before} Make it take items, and run the query again: rows with "
                "ids are not doubled. Option writeTimeout waits longer."
            )
        time.sleep(min(self._pause, left))
        self._pause = min(2 * self._pause, _PAUSE_SECONDS_MAX)


def server_id(address: Address, options: WriteOptions) -> str:
    """Return the id of a server. Raises Lost, KestrelError."""
    return _connected(address, options).server_id()


def _connected(address: Address, options: WriteOptions) -> LiveConnection:
    patience = Patience(options.connect_timeout_ms, options.read_timeout_ms, 0, 0, options.access)
    return LiveConnection(address, patience)


def _telling(request: bytes) -> bytes:
    """Return the requests for the `set` of a row whose answers tell a repetition."""
    line = _line(request)
    if b"/id=" not in line:
        return request
    return _probe(line) + request if b"/key=" in line else b"add " + request[4:]


def _probe(line: bytes) -> bytes:
    """Return a `cas` that stores nothing, and is answered STORED if the id is there."""
    return b"cas %b 0 0 0 %d\r\n\r\n" % (line, _NO_VERSION)


def _line(request: bytes) -> bytes:
    """Return the queue and the options of a row, without those of its probe."""
    start = request.index(b"\r\n\r\n") + 8 if request.startswith(b"cas ") else 4
    return request[start : request.index(b" ", start)]


def _name(request: bytes) -> str:
    """Return the queue, id and key of a request, without its scope."""
    line = _line(request).decode("ascii", "backslashreplace")
    return "/".join(part for part in line.split("/") if not part.startswith(("scope=", "epoch=")))
