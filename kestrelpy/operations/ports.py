"""The server process, its log reader and its clients, as the operations see them.

One rule: no code but Protocols, so that each part can be read and tested without the whole.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final, Protocol

from journal.files import Files
from journal.store import Put
from kestrelpy.config import ServerConfig
from kestrelpy.core import AnyQueue, Broker, Holder, Item, Log, Queue, Timetable, Waiter
from kestrelpy.operations.actions import Actions
from kestrelpy.operations.rests import Gate

# A generator yields this between two slices of long work, and while a read is under way.
PAUSE: Final = b""


class Site(Protocol):
    """The server process."""

    version: str
    server_id: str
    started_ms: int
    mode: str
    closed: str  # why it serves no client now; "": it serves
    actions: Actions
    timetable: Timetable

    @property
    def http_port(self) -> int | None:
        """The port of HTTP; None: it is off."""

    @property
    def server_settings(self) -> ServerConfig:
        """The settings of the server that are in force."""

    def declaration(self, name: bytes, body: bytes) -> bytes:
        """Return the client's settings for this queue in the stored form; raise ClientError."""

    def refuse_targets(self, name: bytes, declared: bytes, before: bytes, user: str | None) -> None:
        """Raise Forbidden if this user may not write a queue to which these settings send items,
        and those `before` do not."""

    def settings(self, name: bytes, declared: bytes) -> list[tuple[str, str, str]]:
        """Return the settings in force for this queue, each with its value and its source."""

    def files_gone(self, queue: Queue) -> Gate:
        """Return the gate that opens when the files of the deleted queue are gone for good."""

    def earlier_files_gone(self, queue: Queue) -> Gate | None:
        """Return the gate that opens when no earlier queue of this name can come back; None if none
        can."""

    def start_read(self, log: Log, work: Work, caller: Caller) -> None:
        """Run a read of this log on a thread, and wake the caller when it is over."""

    def check_reload(self) -> Gate:
        """Check whether a reload would be refused now; change nothing."""

    def reload(self, who: str) -> Gate:
        """Read the configuration again, as `who` asks; the gate opens when it is in force."""

    def set_mode(self, mode: str) -> None:
        """Set the mode: up, readonly or quiescent."""

    def shutdown(self, why: str) -> None:
        """Drain and end the process; the log says why."""


class Caller(Protocol):
    """One client, as the turn sees it: a connection, or a request of its own.

    The turn lets it go on when a record that it waits for is stored, or its wait or its read is
    over.
    """

    is_touched: bool  # True if it goes on in the next turn
    holder: Holder

    def resume(self, waiter: Waiter, now_ms: int) -> None:
        """Take the result of a wait that is over."""

    def flush(self, now_ms: int) -> None:
        """Send the replies that are true, and go on with the requests that waited for them."""

    def abort(self) -> None:
        """End at once, after a bug."""


class Work(Protocol):
    """A blocking piece of work for a thread."""

    is_over: bool
    error: OSError | None

    def run(self, files: Files) -> None:
        """Do the work; it may be called again. It never raises: it stores an `error`.

        The caller sets `is_over` on the loop.
        """


class ItemWording(Protocol):
    """How a wire words the items that it shows."""

    def lines(self, puts: list[Put]) -> list[bytes]:
        """Return each item, worded by its record alone; it runs on a thread."""


class Client(Caller, Protocol):
    """A caller that reads items by their markers."""

    broker: Broker
    last_command_ms: int  # the time of this turn, for its requests

    def start_read(self, log: Log, work: Work) -> None:
        """Run a read of this log on a thread, and go on when it is over."""

    def await_stored(self, log: Log, lsn: int) -> None:
        """Go on when the log has stored this record, or has failed."""


class ItemReader(Protocol):
    """Reads items that only the log has, for one client.

    Each generator yields nothing while a read is under way, and is resumed when that is over.
    """

    def item(self, queue: AnyQueue, id_: int) -> Generator[bytes, None, Item | None]:
        """Return the item; None if it cannot be read."""

    def find(self, queue: AnyQueue, id_: int) -> Generator[bytes, None, Put | None]:
        """Return the put of the item; None if it is gone or cannot be read."""

    def find_begin(self, queue: AnyQueue, since_ms: int) -> Generator[bytes, None, int]:
        """Return the marker of the first needed item that was stored at that time or later."""
