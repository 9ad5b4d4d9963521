"""How long completed items stay readable by marker: `retain`.

    retain = "7d"  "10GiB"  "forever"  "none"

One rule: a bare number is refused, since it could be an age or a size.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kestrelpy.durations import (
    MAX_DURATION_MS,
    format_duration_ms,
    format_size_bytes,
    parse_duration_ms,
    parse_size_bytes,
)

RETAIN_FORM: Final = (
    'a duration (say "7d"), a size with a unit (say "10GiB"), "forever", or "none"'
)


@dataclass(frozen=True, slots=True)
class Retain:
    """By age (`ms`, None: for ever) or by size (`size_bytes`); 0: not by that."""

    ms: int | None = 0
    size_bytes: int = 0

    def __bool__(self) -> bool:
        return self.ms != 0 or self.size_bytes != 0

    def __str__(self) -> str:
        if self.ms is None:
            return "forever"
        if self.ms:
            return format_duration_ms(self.ms)
        return format_size_bytes(self.size_bytes) if self.size_bytes else "none"


NOT_RETAINED: Final = Retain()
_WORDS: Final = {"none": NOT_RETAINED, "forever": Retain(None)}


def read_retain(value: object) -> Retain:
    """Return the value of `retain`; raise TypeError or ValueError."""
    if not isinstance(value, str):
        raise TypeError
    if value in _WORDS:
        return _WORDS[value]
    if value.isdigit():
        raise ValueError
    if value.endswith("iB"):
        size_bytes = parse_size_bytes(value)
        if not size_bytes:
            raise ValueError
        return Retain(0, size_bytes)
    ms = parse_duration_ms(value)
    if not 1 <= ms <= MAX_DURATION_MS:
        raise ValueError
    return Retain(ms)
