"""The names that a queue may have on the wire, as a client checks them before it sends one; and
the states of an item.

One rule: only such a name goes into a request, so that no part of it is read as another request.
"""

from __future__ import annotations

import re
from typing import Final

NAME_BYTES_MAX: Final = 128
NAME_FORM: Final = f"1 to {NAME_BYTES_MAX} printable ASCII characters without blanks"
_NAME: Final = re.compile(rf"(?!\.{{1,2}}(\+|\Z))[!-.0-~]{{1,{NAME_BYTES_MAX}}}")


def is_name(text: str) -> bool:
    """True for a name of a queue or of a child. The server alone checks where a + stands.
    """
    return _NAME.fullmatch(text) is not None


def state_word(word: str) -> str:
    """Return the state of an item for people: the wire says `lent` for a leased one."""
    return "leased" if word == "lent" else word
