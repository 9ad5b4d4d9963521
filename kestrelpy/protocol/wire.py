"""A wire, as a conversation sees it: its parser, its verbs and the form of its replies.

One rule: a wire decides nothing. Its requests are the commands of the memcache wire, or some of
its own that are executed as several of those; its replies are memcache's in another form. A wire
that is not switched on is not imported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from kestrelpy.protocol import rights
from kestrelpy.protocol.parse import Form, Lines, Mail, Parser, Requests
from kestrelpy.protocol.routing import ROUTED_MEMCACHE, RoutedWire, take_mail
from kestrelpy.protocol.verbs import VERBS, Verbs, row


class Wire(Protocol):
    """One protocol: its name for the operator, its verbs, and the form of its replies."""

    @property
    def name(self) -> str:
        """The name in `listening: <name> on ...`."""

    @property
    def usual(self) -> Form | None:
        """The form of replies whose request names no other; None: as they are."""

    @property
    def verbs(self) -> Verbs:
        """What executes each class of its commands."""

    def requests(self, limit_of: Callable[[bytes], int], lines: Lines) -> Requests:
        """Return the parser of a new connection; its arguments are those of `Parser`."""


class Memcache:
    """The memcache text protocol."""

    name = "memcache"
    usual: Form | None = None
    verbs: Verbs = VERBS

    def requests(self, limit_of: Callable[[bytes], int], lines: Lines) -> Requests:
        """Return the parser of a new connection."""
        return Parser(limit_of, lines)


_WITH_MAIL: Final[Verbs] = {**VERBS, **dict([row(Mail, take_mail, rights.nothing)])}


class Routed(Memcache):
    """The same from a router: messages of other slices come between the requests of clients."""

    verbs: Verbs = _WITH_MAIL

    def requests(self, limit_of: Callable[[bytes], int], lines: Lines) -> Requests:
        """Return the parser of a new connection."""
        return Parser(limit_of, lines, takes_mail=True)


MEMCACHE: Final = Memcache()
ROUTED: Final = Routed()


def wire_named(name: str) -> Wire:
    """Return the wire `memcache` or `text`."""
    if name == "text":
        from kestrelpy.protocol.text import TEXT  # noqa: PLC0415

        return TEXT
    assert name == "memcache", name
    return MEMCACHE


def routed_wire(wire: Wire) -> RoutedWire:
    """Return a wire as the router sees it."""
    if wire is MEMCACHE:
        return ROUTED_MEMCACHE
    from kestrelpy.protocol.text import ROUTED_TEXT  # noqa: PLC0415

    return ROUTED_TEXT
