"""Queue names on the wire, `orders`, and those of fan-out children, `orders+audit`.

One rule: a + has one meaning in a name, so that nobody makes a queue where a child was meant.
"""

from __future__ import annotations

from typing import Final

from kestrelpy.errors import ClientError

NAME_BYTES_MAX: Final = 128
PLUS: Final = b"+"


def check_name(name: bytes) -> None:
    """Raises ClientError unless `name` may name a queue, or a child of one."""
    if not name:
        raise ClientError("queue name missing")
    if len(name) > NAME_BYTES_MAX:
        raise ClientError(f"queue name too long ({len(name)} bytes, limit {NAME_BYTES_MAX})")
    if not name.isascii() or any(not 0x21 <= byte <= 0x7E for byte in name):
        raise ClientError("bad queue name: printable ASCII without blanks is allowed")
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
    """The queue that a child of this name reads; empty: it is a queue's own name."""
    parent, plus, _ = name.partition(PLUS)
    return parent if plus else b""


def readable(word: bytes) -> str:
    """A client's word as it may stand in an answer or a log: printable ASCII."""
    return repr(word)[2:-1]
