"""Durations and sizes as people write them, to whole milliseconds and bytes, and back.

One rule: nothing is guessed. A duration without a unit is refused unless the caller knows what it
means (`t=` on the wire: milliseconds), and every refusal is one line of printable ASCII, so that
it can stand in a reply or a log whatever was sent.

    duration   60s  500ms  5m  2h  30d     a whole number and ms, s, m, h or d
    size       512  64KiB  8MiB  1GiB      a whole number, of bytes or of KiB, MiB, GiB
"""

import json
import re
from typing import Final

DURATION_FORM: Final = "a whole number with a unit ms, s, m, h or d (say 60s or 60ms)"
SIZE_FORM: Final = "a whole number of bytes, or one with a unit KiB, MiB or GiB (say 64KiB)"

# A century: wall clock plus the longest duration stays far below 2^53, the bound of our numbers.
MAX_DURATION_MS: Final = 36_500 * 86_400_000
# Below 2^53 a client that reads numbers as floating point still reads them exactly.
MAX_SIZE_BYTES: Final = 2**53 - 1

_MS_PER_UNIT: Final = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}
_BYTES_PER_UNIT: Final = {"GiB": 1 << 30, "MiB": 1 << 20, "KiB": 1 << 10, "": 1}
_DURATION: Final = re.compile(r"([0-9]+)(ms|s|m|h|d|)")
_SIZE: Final = re.compile(r"([0-9]+)(KiB|MiB|GiB|)")
_MAX_DIGITS: Final = 16  # hold every allowed number; int() is quadratic and refuses very long ones
_SHOWN_CHARACTERS: Final = 60  # of a refused text: enough to recognise it, short enough for a line
_SHOWN_PARTS: Final = 8  # of a refused list
_SHOWN_BITS: Final = 128  # of a refused number; Python itself refuses to print very long ones


def parse_duration_ms(text: str, *, bare_ms: bool = False) -> int:
    """The milliseconds `text` stands for; with `bare_ms` a number without a unit counts them.

    Raises ValueError with one sentence that shows the text and says what is allowed.
    """
    match = _DURATION.fullmatch(text)
    if match is None or not (match[2] or bare_ms):
        bare = ", or a bare number of milliseconds" if bare_ms else ""
        raise ValueError(f"{shown(text)} is not a duration: it must be {DURATION_FORM}{bare}")
    duration_ms = _whole(match[1]) * _MS_PER_UNIT[match[2] or "ms"]
    if duration_ms > MAX_DURATION_MS:
        longest = format_duration_ms(MAX_DURATION_MS)
        raise ValueError(f"{shown(text)} is too long: a duration is at most {longest}")
    return duration_ms


def parse_size_bytes(size: str | int) -> int:
    """The bytes `size` stands for; a bare number, as text or as an int, counts bytes.

    Raises ValueError with one sentence that shows the size and says what is allowed.
    """
    # A bool is an int to Python and not a size to anybody: its word, `true`, is refused.
    match = _SIZE.fullmatch(size if isinstance(size, str) else shown(size))
    if match is None:
        raise ValueError(f"{shown(size)} is not a size: it must be {SIZE_FORM}")
    size_bytes = _whole(match[1]) * _BYTES_PER_UNIT[match[2]]
    if size_bytes > MAX_SIZE_BYTES:
        raise ValueError(f"{shown(size)} is too large: a size is at most {MAX_SIZE_BYTES} bytes")
    return size_bytes


def format_duration_ms(duration_ms: int) -> str:
    """The text in the largest unit that `parse_duration_ms` reads as exactly this: `1h`."""
    assert duration_ms >= 0
    for unit, each in _MS_PER_UNIT.items():
        if duration_ms >= each and duration_ms % each == 0:
            return f"{duration_ms // each}{unit}"
    return "0ms"


def format_size_bytes(size_bytes: int) -> str:
    """The text in the largest unit that `parse_size_bytes` reads as exactly this: `64KiB`."""
    assert size_bytes >= 0
    for unit, each in _BYTES_PER_UNIT.items():
        if size_bytes >= each and size_bytes % each == 0:
            return f"{size_bytes // each}{unit}"
    return "0"


def shown(value: object) -> str:
    """A value as it may stand in an error: as in TOML, cut short, one line of printable ASCII."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        if len(value) > _SHOWN_PARTS:
            return "a list"
        parts = ("a list" if isinstance(each, list) else shown(each) for each in value)
        line = f"[{', '.join(parts)}]"
        return line if len(line) <= _SHOWN_CHARACTERS else "a list"
    if isinstance(value, int | float):
        long = isinstance(value, int) and value.bit_length() > _SHOWN_BITS
        return "a very long number" if long else str(value)
    text = str(value)
    if len(text) > _SHOWN_CHARACTERS:
        text = text[:_SHOWN_CHARACTERS] + "..."
    return json.dumps(text)


def _whole(digits: str) -> int:
    """The number, or one that is too large whatever it counts."""
    return int(digits) if len(digits) <= _MAX_DIGITS else 10**_MAX_DIGITS
