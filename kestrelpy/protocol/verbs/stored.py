"""What a storing command expects of its key, and what it is answered where nothing was stored.

                    the id was seen   the version is another one   nothing is there   full
    set             STORED            NOT_STORED (expect=)         NOT_STORED         NOT_STORED
    add             NOT_STORED        NOT_STORED                   -                  NOT_STORED
    cas             STORED            EXISTS                       NOT_FOUND          NOT_STORED
    replace         STORED            -                            NOT_STORED         NOT_STORED

One rule: an answer that rests on a stored item is said when that item is on disk.
"""

from __future__ import annotations

from typing import Final

from kestrelpy.core.queue.queue import ANY_VERSION, DUPLICATE, EXISTS, NOT_FOUND
from kestrelpy.protocol.parse.commands import StoreLine

STORED: Final = b"STORED\r\n"
NOT_STORED: Final = b"NOT_STORED\r\n"
_WORDS: Final = {
    (b"set", DUPLICATE): STORED,
    (b"cas", DUPLICATE): STORED,
    (b"replace", DUPLICATE): STORED,
    (b"cas", EXISTS): b"EXISTS\r\n",
    (b"cas", NOT_FOUND): b"NOT_FOUND\r\n",
}


def expectation(line: StoreLine) -> int | None:
    """Which version its key shall have; None: it does not matter."""
    if line.verb == b"add" and line.key:
        return 0
    return ANY_VERSION if line.verb == b"replace" else line.expected


def refusal(line: StoreLine, why: int) -> bytes:
    """The answer to what was not stored."""
    return _WORDS.get((line.verb, why), NOT_STORED)
