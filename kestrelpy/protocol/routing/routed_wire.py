"""A wire, as the router sees it: where a request goes, and how many answers it has.

One rule: a wire is parsed here as a server parses it, and its answers are not parsed but for their
ends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from kestrelpy.protocol.parse import (
    Command,
    Fetch,
    Formed,
    Lines,
    Monitor,
    Parser,
    Plain,
    Requests,
    Store,
    Target,
)
from kestrelpy.protocol.routing.answer_ends import AnswerEnds
from kestrelpy.protocol.routing.routes import Names, queues_of


class Awaited(NamedTuple):
    """An answer that a slice owes. `is_ours`: it is of a barrier, and goes to nobody; `barred`:
    there are any number of answers before it, none included; `hides_errors`: the request says
    noreply; `waits`: it may come late."""

    until_end: bool = False
    is_ours: bool = False
    barred: bool = False
    hides_errors: bool = False
    waits: bool = False


ONE: Final = Awaited()
LATE: Final = Awaited(waits=True)
_BARRED: Final = Awaited(barred=True)
_BARRED_LATE: Final = Awaited(barred=True, waits=True)
_BARRED_QUIETLY: Final = Awaited(barred=True, hides_errors=True)


class Answers(Protocol):
    """Cuts the bytes of one slice into answers."""

    @property
    def is_empty(self) -> bool:
        """True if nothing has come that `take` has not returned."""

    def feed(self, data: bytes) -> None:
        """Add bytes."""

    def take(self, until_end: bool) -> tuple[bytes, bool]:
        """Return what has come of the next answer, and whether that is all of it. Raise Unreadable.

        With `until_end` it has several lines, and the last one says that it is the last.
        """


class RoutedWire(Protocol):
    """One protocol of the router's clients, and of their connections to slices."""

    @property
    def name(self) -> str:
        """The name in `listening: <name> on ...`."""

    @property
    def end_of_shutdown(self) -> bytes:
        """What a client hears of a shutdown, in the words of memcache; empty: nothing."""

    @property
    def lets_pass(self) -> bool:
        """True if a large body goes to its slice as it comes, which knows how large it may be."""

    def requests(self, limit_of: Callable[[bytes], int], lines: Lines) -> Requests:
        """Return the parser of a new connection; its arguments are those of `Parser`."""

    def answers(self) -> Answers:
        """Return what cuts the answers of a slice."""

    def queues_of(self, command: Command) -> Names | None:
        """Return the names of the queues that a request concerns; None: all of them, or none."""

    def awaited(self, command: Command) -> Awaited | None:
        """Return what a slice answers to a request; None: nothing at all."""

    def opens(self, command: Command) -> bool:
        """True if a request may lease items to its connection."""

    def worded(self, line: bytes) -> bytes:
        """Return an answer that is in the words of memcache in those of this wire."""


class RoutedMemcache:
    """The memcache text protocol."""

    name = "memcache"
    end_of_shutdown = b""
    lets_pass = True

    def requests(self, limit_of: Callable[[bytes], int], lines: Lines) -> Requests:
        """Return the parser of a new connection."""
        return Parser(limit_of, lines)

    def answers(self) -> Answers:
        """Return what cuts the answers of a slice."""
        return AnswerEnds()

    def queues_of(self, command: Command) -> Names | None:
        """Return the names of the queues that a request concerns; None: all of them, or none."""
        return queues_of(command)

    def awaited(self, command: Command) -> Awaited | None:
        """Return what a slice answers to a request; None: nothing at all."""
        form = command.line.form if isinstance(command, Store) else None
        if isinstance(command, Formed | Monitor) or form is not None:
            # A quiet one may have no answer, and a monitor has one for each item.
            return _BARRED_LATE if _waits(command) else _BARRED
        if command.noreply:  # some of them answer nevertheless
            return _BARRED_QUIETLY if isinstance(command, Plain) else None
        return LATE if _waits(command) else ONE

    def opens(self, command: Command) -> bool:
        """True if a request may lease items to its connection."""
        return isinstance(command, Monitor) or any(each.opens for each in _fetched(command))

    def worded(self, line: bytes) -> bytes:
        """Return the answer as it is."""
        return line


class RoutedMail(RoutedMemcache):
    """The messages of slices to each other."""

    def requests(self, limit_of: Callable[[bytes], int], lines: Lines) -> Requests:
        """Return the parser of a new connection."""
        return Parser(limit_of, lines, takes_mail=True)


ROUTED_MEMCACHE: Final = RoutedMemcache()
ROUTED_MAIL: Final = RoutedMail()


def _fetched(command: Command) -> list[Target]:
    inner = command.command if isinstance(command, Formed) else command
    return inner.targets if isinstance(inner, Fetch) else []


def _waits(command: Command) -> bool:
    """True if a request may wait for an item."""
    return isinstance(command, Monitor) or any(each.wait_ms for each in _fetched(command))
