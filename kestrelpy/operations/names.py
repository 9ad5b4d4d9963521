"""Queue names on the wire, `orders`, and names of fan-out children, `orders+audit`.

One rule: a + has one meaning in a name, so that no client creates a queue instead of a child.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import quote_from_bytes

from kestrelpy.errors import ClientError
from kestrelpy.wire.names import NAME_BYTES_MAX

PLUS: Final = b"+"
_UNESCAPED: Final = "!$&'()*+,:;=@"  # printable, and no end of a line, a word or a path
_PATHS: Final = (b".", b"..")


def check_name(name: bytes) -> None:
    """Raise ClientError unless `name` is a valid name of a queue or a child."""
    if not name:
        raise ClientError("queue name missing")
    if len(name) > NAME_BYTES_MAX:
        raise ClientError(f"queue name too long ({len(name)} bytes, limit {NAME_BYTES_MAX})")
    if not name.isascii() or any(not 0x21 <= byte <= 0x7E for byte in name):
        raise ClientError("bad queue name: printable ASCII without blanks is allowed")
    if name.partition(PLUS)[0] in _PATHS:
        raise ClientError(
            "bad queue name: . and .. are no names, because a URL with one of them is of another "
            "path"
        )
    if PLUS in name:
        parent, _, child = name.partition(PLUS)
        if PLUS in child:
            raise ClientError(
                "a child has no children: a child's name is <queue>+<child>, with one +"
            )
        if not parent or not child:
            raise ClientError(
                "bad queue name: + names a fan-out child, <queue>+<child>, with a name on either "
                "side of it"
            )


def parent_of(name: bytes) -> bytes:
    """Return the queue that a child of this name reads; empty if it is no child."""
    parent, plus, _ = name.partition(PLUS)
    return parent if plus else b""


def quoted(word: bytes) -> str:
    """Return a client's bytes without a blank, percent-encoded as in a URL."""
    return quote_from_bytes(word, _UNESCAPED)


def readable(word: bytes) -> str:
    """Return a client's word in printable ASCII, for a reply or the log."""
    return repr(word)[2:-1]
