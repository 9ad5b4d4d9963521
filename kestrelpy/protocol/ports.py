"""The interfaces of a conversation: the host around it, and the conversation as its verbs see it.

One rule: Protocols only, no code, so that each part can be read and tested without the whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from kestrelpy.core import HandOff, TransferRequest
from kestrelpy.errors import Refused
from kestrelpy.operations import Client, ItemReader, Site
from kestrelpy.protocol.log_limit import LogLimit
from kestrelpy.protocol.parse import Fetch, Store
from kestrelpy.protocol.replies import Replies
from kestrelpy.protocol.steps import Steps


class ConnectionRoom(Protocol):
    """The memory that all connections share."""

    is_short: bool  # True if large replies have to wait

    def reserve(self, talk: Talk, size: int) -> bool:
        """Return whether there is room for a reply of `size` bytes. If not, `talk.wants_bytes` is
        set until there is room."""

    def release(self, talk: Talk) -> None:
        """Release the room reserved for a reply that is not made now."""


class Host(Site, Protocol):
    """The server process, as a conversation sees it."""

    room: ConnectionRoom
    log_limit: LogLimit

    def elapsed(self) -> float:
        """Return seconds on a clock that never steps, for measuring a turn only."""


class Shell(Protocol):
    """The connection around a conversation."""

    def flush_output(self, now_ms: int) -> None:
        """Send the replies that are true; continue with the requests that waited for them."""

    def abort(self) -> None:
        """Close the connection at once."""


class Talk(Client, Protocol):
    """A conversation, as its verbs see it."""

    host: Host
    replies: Replies
    stream: Steps  # the rest of a long reply
    closing: bool
    shell: Shell | None
    wants_bytes: int
    suggests_ms: int  # the time from which it may suggest an option again
    is_routed: bool  # True if a router speaks here, for a client of its own

    @property
    def aliases(self) -> Mapping[bytes, tuple[bytes, ...]]:
        """The names that stand for several queues."""

    @property
    def user(self) -> str | None:
        """The logged-in user; None: no user is logged in, or logins are not needed."""

    @property
    def who(self) -> str:
        """The logged-in user, else the peer."""

    def store(self, command: Store, now_ms: int) -> Steps:
        """Execute a set, add, cas or replace; raise Refused."""

    def fetch(self, command: Fetch, now_ms: int) -> Steps:
        """Execute a get or gets; raise Refused."""

    def fetch_to_end(self, command: Fetch, now_ms: int) -> Iterator[bytes]:
        """Execute a get or gets, and yield until its reply is made; raise Refused."""

    def await_room(self, waiting: dict[object, None]) -> None:
        """Execute no further command until a journal has room, or none: it wakes those `waiting`.
        """

    def await_transfer(self, request: TransferRequest | HandOff) -> None:
        """Execute no further command until this transfer request is over."""

    def refuse(self, refused: Refused, noreply: bool = False) -> None:
        """Reply with the refusal, unless the command said noreply."""

    def introduce(self, wire_name: str, peer: str, user: str | None) -> None:
        """Be the connection of this client, which speaks this wire, and of this user; "": no user
        has logged in there; None: it needs no login."""

    def browser(self) -> ItemReader:
        """Return the browser of this conversation."""
