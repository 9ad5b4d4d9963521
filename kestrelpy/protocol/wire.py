"""What one wire is to a conversation: bytes to commands, and the words of the replies.

One rule: a wire decides nothing. Its requests are the commands of the memcache wire, or a `Script`
that executes some of those in turn; its replies are memcache's in another form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, Protocol

from kestrelpy.errors import Refused
from kestrelpy.protocol.parse import Command, Form, Lines, Parser
from kestrelpy.protocol.ports import Talk
from kestrelpy.protocol.verbs import GetHandler


class Script(Protocol):
    """A request that takes several commands."""

    noreply: bool

    def run(self, talk: Talk, handler: GetHandler, now_ms: int) -> Iterator[bytes] | None:
        """Execute it; return what is left to do, which yields while it has to wait. Raise
        Refused."""


class Requests(Protocol):
    """The parser of one connection: see `Parser`."""

    @property
    def buffered(self) -> int:
        """Bytes taken in and not yet parsed; above 0 while there may be a command."""

    @property
    def held_bytes(self) -> int:
        """Bytes held in memory."""

    @property
    def is_in_body(self) -> bool:
        """True while a body is coming in."""

    @property
    def missing_bytes(self) -> int:
        """Bytes of the body that are still to come."""

    def feed(self, data: bytes) -> None:
        """Add bytes."""

    def next(self) -> Command | Script | None:
        """Return the next command; None if it is not complete yet."""

    def drop_body(self, refusal: Refused) -> bool:
        """Drop a body that is coming in; return whether there was one."""

    def clear(self) -> None:
        """Drop everything: the client is gone."""

    def forget(self) -> None:
        """Drop the parsed bytes."""


class Wire(Protocol):
    """One protocol: its name for the operator, and the form of its replies (None: as they are)."""

    @property
    def name(self) -> str:
        """The name in `listening: <name> on ...`."""

    @property
    def usual(self) -> Form | None:
        """The form of replies whose request names no other."""

    def requests(self, limit_of: Callable[[bytes], int], lines: Lines) -> Requests:
        """Return the parser of a new connection; its arguments are those of `Parser`."""


class Memcache:
    """The memcache text protocol."""

    name = "memcache"
    usual: Form | None = None

    def requests(self, limit_of: Callable[[bytes], int], lines: Lines) -> Requests:
        """Return the parser of a new connection."""
        return Parser(limit_of, lines)


MEMCACHE: Final = Memcache()
