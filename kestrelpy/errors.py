"""What a client may be told when the answer is no, and the word for it on the wire.

One rule: the text is one clear sentence for a person: what, where, what is allowed. Whoever
raises one of these has changed nothing.
"""

from __future__ import annotations

from typing import Final

# Of a line: libmemcached, and what is made of it, gives up a connection on one of 350.
_LINE_BYTES_MAX: Final = 340
_CUT: Final = b"..."


def fitted(line: bytes) -> bytes:
    """Return a reply line, cut where it is too long for a client's buffer."""
    if len(line) <= _LINE_BYTES_MAX:
        return line
    return line[: _LINE_BYTES_MAX - len(_CUT)] + _CUT


class Refused(Exception):
    """A request that was not carried out. `word` is memcache's class of error."""

    word = "SERVER_ERROR"

    def line(self) -> bytes:
        """The reply, without its line end; what is too long for a client's buffer is cut."""
        return fitted(f"{self.word} {self}".encode("ascii", "backslashreplace"))


class ClientError(Refused):
    """The request cannot be carried out as it stands; sending it again will not help."""

    word = "CLIENT_ERROR"


class ServerError(Refused):
    """The request is well formed, but not now or not here."""

    word = "SERVER_ERROR"


class ItemRefused(ServerError):
    """This item is not taken here, whenever it comes; others are."""


class Unread(ServerError):
    """A file cannot be opened or read for the moment: what is in it nobody knows until it can."""


class LeaseExpired(ServerError):
    """The item was lent, the lease ended, and the item may be with somebody else."""

    def __init__(self, name: bytes) -> None:
        super().__init__(
            f"lease expired: the item of {name.decode('ascii', 'backslashreplace')} went back "
            "and may be with another client"
        )
