"""The server process, as HTTP sees it.

One rule: Protocols only, no code, so that each part can be read and tested without the whole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from kestrelpy.access import Grant
from kestrelpy.core import Broker
from kestrelpy.operations import (
    Caller,
    ConnectionFacts,
    DamageFound,
    Listening,
    Site,
)


class TurnPort(Protocol):
    """The turn of the loop, which commits what has changed and wakes callers."""

    def touch(self, caller: Caller) -> None:
        """Let this caller go on in the next turn."""

    def schedule(self) -> None:
        """Run a turn: something may have changed."""


class HttpLoginPort(Protocol):
    """The users of the server."""

    @property
    def are_needed(self) -> bool:
        """True if clients have to log in."""

    def is_current(self, grant: Grant) -> bool:
        """True if this is still what the user may do."""

    async def check(self, name: str, secret: bytes, peer: str) -> Grant | None:
        """Return what this user may do; None, after a moment: it is no user, or not the secret.

        Raise ServerError if too many logins are under way.
        """


class HttpHost(Site, Protocol):
    """The server process."""

    broker: Broker
    damage: DamageFound
    is_leaving: bool
    owner_address: str  # of the member of a fleet that serves instead; "": this one, or unknown
    # False: it is not known whether the data is still ours. None: no other process can own it.
    may_answer: Callable[[], bool] | None

    @property
    def logins(self) -> HttpLoginPort:
        """The users."""

    @property
    def turn(self) -> TurnPort:
        """The turn of the loop."""

    def now_ms(self) -> int:
        """Return milliseconds on a clock that never steps."""

    @property
    def listening(self) -> Listening | None:
        """Where the memcache port listens; None: it listens on a Unix socket alone."""

    @property
    def http_connections(self) -> int:
        """The number of connections of this wire."""

    @property
    def recovery_seconds(self) -> float:
        """The time that the start took to recover the queues."""

    def connection_facts(self, after: int, most: int, now_ms: int) -> list[ConnectionFacts]:
        """Return the connections with a number above `after`, in order, `most` at most."""

    def close_connection(self, number: int) -> bool:
        """Close this connection at once; return False if there is none."""

    async def disk_free_bytes(self) -> int | None:
        """Return the free bytes of the disk with the data; None: they cannot be known now."""

    async def last_backup_ms(self) -> int | None:
        """Return when the last backup of the data was finished; None: nothing says it."""
