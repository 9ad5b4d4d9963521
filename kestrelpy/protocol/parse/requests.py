"""A parser, as a conversation sees it: one for each wire.

One rule: nothing is decided here. It is a class and no Protocol, so that mypyc calls the parsers
without a look-up; what derives from it is compiled too.
"""

from __future__ import annotations

from kestrelpy.errors import Refused
from kestrelpy.protocol.parse.commands import Command


class Requests:
    """The parser of one connection. Call `feed`, then `next` until it returns None."""

    __slots__ = ()

    @property
    def buffered(self) -> int:
        """Bytes taken in and not yet parsed; above 0 while there may be a command."""
        raise NotImplementedError

    @property
    def held_bytes(self) -> int:
        """Bytes held in memory: lines and bodies that are not executed yet."""
        raise NotImplementedError

    @property
    def is_in_body(self) -> bool:
        """True while a body is coming in."""
        raise NotImplementedError

    @property
    def is_skipping(self) -> bool:
        """True while a body comes in that is refused, and dropped."""
        raise NotImplementedError

    @property
    def missing_bytes(self) -> int:
        """Bytes of the body that are still to come."""
        raise NotImplementedError

    def feed(self, data: bytes) -> None:
        """Add bytes."""
        raise NotImplementedError

    def take_rest(self) -> bytes:
        """Return the bytes that are not parsed yet, and drop them: another parser gets them."""
        raise NotImplementedError

    def take_line(self, line: bytes) -> bool:
        """Take this line if it comes next; return whether it did."""
        return False

    def next(self) -> Command | None:
        """Return the next command; None if it is not complete yet."""
        raise NotImplementedError

    def drop_body(self, refusal: Refused) -> bool:
        """Drop a body that is coming in: it is refused when it is complete.

        Return whether there was one.
        """
        raise NotImplementedError

    @property
    def begun(self) -> Command | None:
        """The request whose body is coming in, and can pass (`let_pass`); None: there is none."""
        return None

    def let_pass(self) -> None:
        """Hold nothing of the body that `begun` has: its bytes go elsewhere, as they come. `next`
        returns the request at its end, without the body."""
        raise NotImplementedError

    def clear(self) -> None:
        """Drop everything: the client is gone."""
        raise NotImplementedError

    def forget(self) -> None:
        """Drop the parsed bytes: an idle connection costs no buffer."""
        raise NotImplementedError
