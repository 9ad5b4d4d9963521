"""Projects: queue q of project P is the queue `P:q`; one project may go without a prefix.

    acme          ──▶ acme:
    a b/c         ──▶ a%20b%2Fc:
    over 63 bytes ──▶ ~ and 26 base32 letters of its SHA-256, with a colon
    the default   ──▶ no prefix

One rule: two projects never share a queue, whatever their names.
"""

from __future__ import annotations

from base64 import b32encode
from functools import lru_cache
from hashlib import sha256
from re import compile as pattern
from typing import Final
from urllib.parse import quote_from_bytes

NAME: Final = pattern(r"(?!\.{1,2}\Z)[A-Za-z0-9_.\-]{1,64}")  # . and .. are of another path
PROJECT_BYTES_MAX: Final = 256
_PREFIX_BYTES_MAX: Final = 63
_HASH_LETTERS: Final = 26
_PREFIXES_KEPT: Final = 1024


@lru_cache(maxsize=_PREFIXES_KEPT)
def prefix_of(project: bytes, default: str | None) -> bytes:
    """Return the bytes before each name of a queue of this project."""
    if default is not None and project == default.encode():
        return b""
    # quote leaves `~` alone, which begins a hash here
    quoted = quote_from_bytes(project, safe="").replace("~", "%7E").encode()
    if len(quoted) > _PREFIX_BYTES_MAX:
        quoted = b"~" + b32encode(sha256(project).digest())[:_HASH_LETTERS]
    return quoted + b":"


def own_name(name: bytes, prefix: bytes) -> str | None:
    """Return the name of this queue within the project; None: it is not one of its queues."""
    if not name.startswith(prefix):
        return None
    own = name[len(prefix) :].decode("ascii")
    return own if NAME.fullmatch(own) else None
