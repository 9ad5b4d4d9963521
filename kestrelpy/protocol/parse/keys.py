"""The key of an item as its producer names it: `key=<k>[,<k>...]`.

    set jobs/key=A,B 0 0 5       two texts, A and B
    set jobs/key=a%2Cb 0 0 5     one: the comma is a part of it

One rule: values are split first and decoded then, each for itself; whatever bytes they are by then,
they are texts.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import unquote_to_bytes

from journal.format.key import text_of
from kestrelpy.errors import ClientError

OPTION: Final = "key"


def parse_key(part: bytes) -> tuple[bytes, ...]:
    """The canonical values that this option names; raises ClientError."""
    _, _, named = part.partition(b"=")
    if not named:
        raise ClientError("option key needs a value, for instance key=A or key=A,B")
    return values_of(named)


def values_of(named: bytes) -> tuple[bytes, ...]:
    """The canonical values behind `key=`."""
    return tuple(text_of(unquote_to_bytes(value)) for value in named.split(b","))
