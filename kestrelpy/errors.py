"""What a client may be told when the answer is no, and the word for it on the wire.

One rule: the text is one clear sentence for a person: the mistake, its place, the allowed values.
The code that raises one of these has changed nothing.
"""

from __future__ import annotations

from typing import Final

# Of a line: libmemcached, and what is made of it, gives up a connection on one of 350.
_LINE_BYTES_MAX: Final = 340
_CUT: Final = b"..."


def fitted(line: bytes) -> bytes:
    """Return a reply line; one that is too long for a client's buffer is cut between two words."""
    if len(line) <= _LINE_BYTES_MAX:
        return line
    cut = line[: _LINE_BYTES_MAX - len(_CUT)]
    words, _, rest = cut.rpartition(b" ")
    # A word that is longer than half a line can only be cut itself.
    return words + b" " + _CUT if len(rest) < _LINE_BYTES_MAX // 2 else cut + _CUT


class Refused(Exception):
    """A request that was not carried out. `word` is memcache's class of error."""

    word = "SERVER_ERROR"

    def line(self) -> bytes:
        """The reply, without its line end; it is cut if it is too long for a client's buffer."""
        return fitted(f"{self.word} {self}".encode("ascii", "backslashreplace"))


class ClientError(Refused):
    """The request is refused, and the server is well: a mistake, a race that was lost, a limit that
    a queue has. Client libraries go on with this server."""

    word = "CLIENT_ERROR"


class ServerError(Refused):
    """The server cannot do this now: a full disk, a failed journal, a mode, a shortage.

    Client libraries take it for a server that is down, and ask it no more for a while.
    """

    word = "SERVER_ERROR"


class Forbidden(ClientError):
    """The user may not do this."""


class SliceAway(Exception):
    """A slice has no process that serves; the text says why."""


class NoRoomYet(ServerError):
    """The journal has no room for this item and its confirm before its next segment is there, or
    the disk is known to be full. The caller joins `waiting`, and tries again when it is woken."""

    def __init__(self, waiting: dict[object, None], name: bytes) -> None:
        super().__init__(
            f"queue {_readable(name)} has no room yet: its next segment is being prepared, try "
            "again"
        )
        self.waiting = waiting


class NotReachedYet(NoRoomYet):
    """The slice of a target is being connected to. The caller joins `waiting`, as above."""

    def __init__(self, waiting: dict[object, None], number: int) -> None:
        ServerError.__init__(self, f"slice {number} has not answered yet, try again")
        self.waiting = waiting


class ItemRefused(ServerError):
    """This item is not taken here, whenever it comes; others are."""


class Unread(ServerError):
    """A file cannot be opened or read for the moment: its content is unknown until it can."""


class LeaseExpired(ClientError):
    """The item was leased to this connection, the lease has ended, and another client may have the
    item."""

    def __init__(self, name: bytes) -> None:
        super().__init__(
            f"lease expired: the item of {_readable(name)} is not leased to this connection any "
            "more, another client may have it"
        )


class InvalidToken(ClientError):
    """The token names no lease of this queue."""

    def __init__(self, token: int, name: bytes) -> None:
        super().__init__(
            f"token {token} of {_readable(name)} is not valid: confirmed, expired or never issued"
        )


def _readable(name: bytes) -> str:
    return name.decode("ascii", "backslashreplace")
