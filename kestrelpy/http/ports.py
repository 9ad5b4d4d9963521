"""The server process, as HTTP sees it.

One rule: Protocols only, no code, so that each part can be read and tested without the whole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from kestrelpy.access import Grant
from kestrelpy.core import Broker, Log, Timetable
from kestrelpy.operations import Caller, Gate, Site, Work


class TurnPort(Protocol):
    """The turn of the loop, which commits what has changed and wakes callers."""

    def touch(self, caller: Caller) -> None:
        """Let this caller go on in the next turn."""

    def schedule(self) -> None:
        """Run a turn: something may have changed."""


class LoginPort(Protocol):
    """The users of the server."""

    @property
    def are_needed(self) -> bool:
        """True if clients have to log in."""

    async def check(self, name: str, secret: bytes, peer: str) -> Grant | None:
        """Return what this user may do; None, after a moment: it is no user, or not the secret.

        Raise ServerError if too many logins are under way.
        """


class HttpHost(Site, Protocol):
    """The server process."""

    broker: Broker
    timetable: Timetable
    is_leaving: bool

    @property
    def logins(self) -> LoginPort:
        """The users."""

    @property
    def turn(self) -> TurnPort:
        """The turn of the loop."""

    @property
    def now_ms(self) -> Callable[[], int]:
        """Returns milliseconds on a clock that never steps."""

    def start_read(self, log: Log, work: Work, caller: Caller) -> None:
        """Run a read of this log on a thread, and wake the caller when it is over."""

    def reload(self) -> Gate:
        """Read the configuration again; the gate opens when it is in force."""

    def set_mode(self, mode: str) -> None:
        """Set the mode: up, readonly or quiescent."""

    def shutdown(self, why: str) -> None:
        """Drain and end the process; the log says why."""
