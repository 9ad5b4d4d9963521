"""One connection to a server, for reading much at once: `gets q/peek/after=5/n=10000/full`.

    VALUE ..., body, VALUE ..., body, ... END          `wire.answers` has the words of a line

A client library keeps one value per key; here many values have the same key. The answer is parsed
while it arrives, line by line and body by body. The fields of a line are decoded later, column by
column, while the next answer is under way.

One rule: an answer counts once its END has arrived. Before that no item of it is handed on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kestrelpy.spark.errors import KestrelError
from kestrelpy.spark.live.owners import forget, places_of
from kestrelpy.spark.offsets import Address, FleetAddress
from kestrelpy.wire import dial
from kestrelpy.wire.answers import FULL_AT, FULL_WORDS, Answer, BadAnswer
from kestrelpy.wire.connection import WireConnection
from kestrelpy.wire.dial import NOBODY, Access
from kestrelpy.wire.refusals import SERVER_ERROR, LoginRefused, ServerRefusal, is_refusal

ITEMS_MAX: Final = 10_000  # of one answer; the server also stops at 4 MiB
MARKER_AT: Final = FULL_AT["number"]  # in a VALUE line
_SHOWN_BYTES: Final = 200  # of a line, in an error


class Lost(OSError):
    """The connection ended, or no answer came in time; a retry may help."""


class ServerUnreachable(KestrelError):
    """The server does not answer, after all retries."""

    def __init__(self, address: Address, reason: str) -> None:
        is_fleet = isinstance(address, FleetAddress)
        super().__init__(
            f"The fleet {address} cannot be read: {reason}. Start a member, or correct the option "
            "fleet."
            if is_fleet else
            f"The server {address} cannot be reached: {reason}. Start it, correct the option "
            "servers, or say skipUnreachable=true to read the others."
        )
        self.skipped = (
            f"The server {address} cannot be reached: {reason}. Its items that are not read yet "
            "are skipped (skipUnreachable=true)."
        )


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait for a server, how often to retry, and the user that asks."""

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
        return int(self.lines[-1][MARKER_AT])


class LiveConnection(WireConnection):
    """One connection; raises Lost when it breaks, KestrelError when the server says no."""

    read_bytes = 1 << 20
    hung_up = "it hung up"

    def __init__(self, address: Address, patience: Patience) -> None:
        self.address = address
        lost = None
        try:
            for place in places_of(address):
                try:
                    self._connect(place, patience)
                except Lost as error:
                    lost = error
                else:
                    return
        except OSError as error:
            raise self._lost(why(error)) from None
        raise lost or self._lost("no member says where it answers")

    def _connect(self, place: Address, patience: Patience) -> None:
        where = (place.host, place.port) if place.port else place.host
        try:
            super().__init__(
                where, patience.access, patience.connect_ms / 1000, patience.read_ms / 1000
            )
        except OSError as error:
            raise self._lost(why(error)) from None
        except LoginRefused as error:
            if error.may_pass:
                raise self._lost(str(error)) from None
            raise KestrelError(f"The server {self.address} refused: {error}.") from None

    def _lost(self, reason: str) -> Lost:
        """Return the error of a connection that ended; the next one may go to another member."""
        forget(self.address)
        return Lost(reason)

    def send(self, data: bytes) -> None:
        """Send requests, each with its body if it has one."""
        try:
            super().send(data)
        except OSError as error:
            raise self._lost(why(error)) from None

    def receive(self) -> list[Answer]:
        """Wait for bytes; return the answers that are complete now."""
        try:
            return super().receive()
        except OSError as error:
            raise self._lost(why(error)) from None
        except BadAnswer as error:
            if error.is_endless:
                raise KestrelError(
                    f"{self.address} does not speak memcache: is it kestrelpy?"
                ) from None
            raise self._not_understood(error.line) from None

    def ask(self, line: str) -> None:
        """Send a request; read its answer before the next request."""
        self.send(line.encode() + b"\r\n")

    def answer_to(self, line: str) -> str:
        """Send a request and return its answer, which is one line."""
        self.ask(line)
        answer = self.answer()
        if is_refusal(answer.line):
            raise self._not_understood(answer.line)
        return _text(answer.line)

    def server_id(self) -> str:
        """Return the server's id, and close: the rest of its `stats` may be long."""
        self.ask("stats")
        try:
            while True:
                answers = self.receive()
                facts = (answers[0] if answers else self._reader.begun).facts
                if b"server_id" in facts:
                    return self._own_id(_text(facts[b"server_id"]))
                if answers and answers[0].line != b"END":
                    raise self._not_understood(answers[0].line)
                if answers:
                    raise KestrelError(f"{self.address} does not say its id: is it kestrelpy?")
        finally:
            self.close()

    def _own_id(self, said: str) -> str:
        """Return the id of the slice that was asked for; a server with slices says all of theirs.

        Raises Lost for a member that serves nothing.
        """
        if not isinstance(self.address, FleetAddress):
            return said
        if said == "-":
            raise self._lost("the member that was asked serves nothing now")
        ids = said.split(",")
        if len(ids) < self.address.slice:
            raise self._lost("the member that was asked has fewer slices")
        return ids[self.address.slice - 1] if self.address.slice else said

    def stats(self, what: str) -> dict[str, str]:
        """Return the answer to `stats <what>`; with "" to `stats`."""
        self.ask(f"stats {what}".rstrip())
        return {_text(name): _text(value) for name, value in self._whole(b"END").stats}

    def add_cursor(self, child: str) -> None:
        """Make a child that begins with the earliest item there; nothing if it exists."""
        self.ask(f"get {child}/peek/from=1")
        self._whole(b"END")

    def confirm_upto(self, queue: str, marker: int) -> None:
        """Confirm all items of a queue, or of a child, up to a marker."""
        self.ask(f"delete {queue}/upto={marker}")
        self._whole(b"DELETED", b"NOT_FOUND")

    def values(self) -> Values:
        """Return the answer to a `gets` with `full`."""
        self._reader.value_words = FULL_WORDS
        answer = self._whole(b"END")
        self._reader.value_words = 0
        return Values(answer.values, [*map(len, answer.bodies)], b"".join(answer.bodies))

    def _whole(self, *last_lines: bytes) -> Answer:
        """Return the next answer, which ends in one of these lines."""
        answer = self.answer()
        if answer.line not in last_lines:
            raise self._not_understood(answer.line)
        return answer

    def _not_understood(self, line: bytes) -> KestrelError | Lost:
        line = line[:_SHOWN_BYTES]
        if isinstance(self.address, FleetAddress) and line.startswith(SERVER_ERROR):
            return self._lost(str(ServerRefusal(line)))  # as during a takeover
        if is_refusal(line) and b" " in line:
            return KestrelError(f"The server {self.address} refused: {ServerRefusal(line)}.")
        return KestrelError(
            f"The server {self.address} answers {_text(line)!r}, which is not what kestrelpy says. "
            "Is it one of this version?"
        )


def why(error: OSError) -> str:
    """Return in a few words why a connection failed."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return dial.why(error)


def _text(words: bytes) -> str:
    return words.decode("ascii", "backslashreplace")
