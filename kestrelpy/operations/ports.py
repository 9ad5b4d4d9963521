"""The server process and its log reader, as the operations see them.

One rule: no code but Protocols, so that each part can be read and tested without the whole.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final, Protocol

from journal.store import Put
from kestrelpy.core import Item, Queue
from kestrelpy.operations.rests import Gate

# A generator yields this between two slices of long work, and while a read is under way.
PAUSE: Final = b""


class Site(Protocol):
    """The server process."""

    version: str
    server_id: str
    started_ms: int
    mode: str

    @property
    def allow_delete(self) -> bool:
        """True if `delete` may remove a queue."""

    @property
    def allow_flush_all(self) -> bool:
        """True if `flush_all` may empty every queue."""

    def declaration(self, name: bytes, body: bytes) -> bytes:
        """Return the client's settings for this queue in the stored form; raise ClientError."""

    def settings(self, name: bytes, declared: bytes) -> list[tuple[str, str, str]]:
        """Return the settings in force for this queue, each with its value and its source."""

    def files_gone(self, queue: Queue) -> Gate:
        """Return the gate that opens when the files of the deleted queue are gone for good."""

    def earlier_files_gone(self, queue: Queue) -> Gate | None:
        """Return the gate that opens when no earlier queue of this name can come back; None if none
        can."""


class ItemReader(Protocol):
    """Reads items that only the log has, for one client.

    Each generator yields nothing while a read is under way, and is resumed when that is over.
    """

    def item(self, queue: Queue, id_: int) -> Generator[bytes, None, Item | None]:
        """Return the item; None if it cannot be read."""

    def find(self, queue: Queue, id_: int) -> Generator[bytes, None, Put | None]:
        """Return the put of the item; None if it is gone or cannot be read."""

    def find_begin(self, queue: Queue, since_ms: int) -> Generator[bytes, None, int]:
        """Return the marker of the first needed item that was stored at that time or later."""
