"""The interfaces of a conversation: the host around it, and the conversation as its verbs see it.

One rule: Protocols only, no code, so that each part can be read and tested without the whole.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Protocol

from journal.files import Files
from journal.store import Put
from kestrelpy.core import Broker, Holder, Item, Log, Queue, Timetable, TransferRequest
from kestrelpy.errors import Refused
from kestrelpy.protocol.log_limit import LogLimit
from kestrelpy.protocol.parse import Store
from kestrelpy.protocol.replies import Gate, Replies


class Work(Protocol):
    """A blocking piece of work for a thread."""

    is_over: bool
    error: OSError | None

    def run(self, files: Files) -> None:
        """Do the work; it may be called again. It never raises: it stores an `error`.

        The caller sets `is_over` on the loop.
        """


class Room(Protocol):
    """The memory that all connections share."""

    is_short: bool  # True if large replies have to wait

    def reserve(self, talk: Talk, size: int) -> bool:
        """Return whether there is room for a reply of `size` bytes. If not, `talk.wants_bytes` is
        set until there is room."""

    def release(self, talk: Talk) -> None:
        """Release the room reserved for a reply that is not made now."""


class Host(Protocol):
    """The server process, as a conversation sees it."""

    version: str
    server_id: str
    started_ms: int
    mode: str
    timetable: Timetable
    room: Room
    log_limit: LogLimit

    @property
    def allow_delete(self) -> bool:
        """True if `delete` may remove a queue."""

    @property
    def allow_flush_all(self) -> bool:
        """True if `flush_all` may empty every queue."""

    @property
    def allow_shutdown(self) -> bool:
        """True if a client may shut the server down."""

    @property
    def max_open_reads(self) -> int:
        """The number of items that one connection may hold open."""

    def elapsed(self) -> float:
        """Return seconds on a clock that never steps, for measuring a turn only."""

    def reload(self) -> Gate:
        """Read the configuration again; the gate opens when it is in force."""

    def shutdown(self, why: str) -> None:
        """Drain and end the process; the log says why."""

    def files_gone(self, queue: Queue) -> Gate:
        """Return the gate that opens when the files of the deleted queue are gone for good."""

    def earlier_files_gone(self, queue: Queue) -> Gate | None:
        """Return the gate that opens when no earlier queue of this name can come back; None if none
        can."""

    def start_read(self, log: Log, work: Work, talk: Talk) -> None:
        """Run a read of this log on a thread, and wake the conversation when it is over."""

    def declaration(self, name: bytes, body: bytes) -> bytes:
        """Return the client's settings for this queue in the stored form; raise ClientError."""

    def settings(self, name: bytes, declared: bytes) -> list[tuple[str, str, str]]:
        """Return the settings in force for this queue, each with its value and its source."""

    def set_mode(self, mode: str) -> None:
        """Set the mode: up, readonly or quiescent."""


class ItemReader(Protocol):
    """Reads items that only the log has, for one conversation.

    Each generator yields nothing while a read is under way, and is resumed when that is over.
    """

    def item(self, queue: Queue, id_: int) -> Generator[bytes, None, Item | None]:
        """Return the item; None if it cannot be read."""

    def find(self, queue: Queue, id_: int) -> Generator[bytes, None, Put | None]:
        """Return the put of the item; None if it is gone or cannot be read."""

    def find_begin(self, queue: Queue, since_ms: int) -> Generator[bytes, None, int]:
        """Return the marker of the first needed item that was stored at that time or later."""


class Talk(Protocol):
    """A conversation, as its verbs see it."""

    broker: Broker
    host: Host
    replies: Replies
    stream: Iterator[bytes] | None  # the rest of a long reply
    closing: bool
    shell: object
    wants_bytes: int
    last_command_ms: int
    holder: Holder

    def store(self, command: Store, now_ms: int) -> None:
        """Execute a set, add, cas or replace; raise Refused."""

    def await_transfer(self, request: TransferRequest) -> None:
        """Execute no further command until this transfer request is over."""

    def refuse(self, refused: Refused, noreply: bool = False) -> None:
        """Reply with the refusal, unless the command said noreply."""

    def browser(self) -> ItemReader:
        """Return the browser of this conversation."""
