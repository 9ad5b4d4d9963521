"""What a conversation asks of the process around it, and what its parts know of it.

One rule: only promises, no code; so that a part can be read, and tested, without the whole.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Protocol

from journal.files import Files
from journal.read.range_scan import Put
from kestrelpy.core.broker import Broker
from kestrelpy.core.index.leases import Holder
from kestrelpy.core.item import Item
from kestrelpy.core.log.log import Log
from kestrelpy.core.queue.queue import Queue
from kestrelpy.core.schedules import Timetable
from kestrelpy.core.transfer.request import Order
from kestrelpy.errors import Refused
from kestrelpy.protocol.log_limit import LogLimit
from kestrelpy.protocol.parse.commands import Store
from kestrelpy.protocol.replies import Gate, Replies


class Work(Protocol):
    """Something that blocks, for a thread."""

    is_over: bool
    error: OSError | None

    def run(self, files: Files) -> None:
        """Do it, be it again; never raises, an `error` is kept.

        Whoever had it run says on the loop that it `is_over`.
        """


class Room(Protocol):
    """The memory that all connections share."""

    is_short: bool  # what is large has to wait

    def reserve(self, talk: Talk, size: int) -> bool:
        """Return whether there is room for so large an answer; else `talk.wants_bytes` is set, and
        is 0 again when there is.
        """

    def release(self, talk: Talk) -> None:
        """Give back what was reserved for an answer that is not made now."""


class Host(Protocol):
    """What a conversation asks of the process around it."""

    version: str
    server_id: str
    started_ms: int
    mode: str
    timetable: Timetable
    room: Room
    log_limit: LogLimit

    @property
    def allow_delete(self) -> bool:
        """May `delete` remove a queue?"""

    @property
    def allow_shutdown(self) -> bool:
        """May a client end the server?"""

    @property
    def max_open_reads(self) -> int:
        """How many items one connection may hold."""

    def elapsed(self) -> float:
        """Return seconds on a clock that never steps: what a turn has taken, nothing else."""

    def reload(self) -> Gate:
        """Read the configuration again."""

    def shutdown(self) -> None:
        """Drain and end."""

    def files_gone(self, queue: Queue) -> Gate:
        """Opens when the deleted queue's files are gone for good."""

    def earlier_files_gone(self, queue: Queue) -> Gate | None:
        """Opens when no earlier queue of this one's name can come back; None: none can."""

    def start_read(self, log: Log, work: Work, talk: Talk) -> None:
        """Read from this log on a thread, and turn to the conversation when it is over."""

    def declaration(self, name: bytes, body: bytes) -> bytes:
        """What a client declares for this queue in the form that is kept; raises ClientError."""

    def settings(self, name: bytes, declared: bytes) -> list[tuple[str, str, str]]:
        """The settings in force for this queue, each with its value and where that comes from."""

    def set_mode(self, mode: str) -> None:
        """up, readonly or quiescent."""


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
    """A conversation, as its parts see it."""

    broker: Broker
    host: Host
    replies: Replies
    stream: Iterator[bytes] | None  # the rest of a long answer
    closing: bool
    shell: object
    wants_bytes: int
    last_command_ms: int
    holder: Holder

    def store(self, command: Store, now_ms: int) -> None:
        """Carry out a set or the like; raises Refused."""

    def await_transfer(self, order: Order) -> None:
        """Carry out nothing further before this has been moved."""

    def refuse(self, refused: Refused, noreply: bool = False) -> None:
        """Say no."""

    def browser(self) -> ItemReader:
        """Return what reads by marker for it."""
