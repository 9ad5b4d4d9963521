"""Durations and sizes as people write them, to whole milliseconds and bytes, and back.

One rule: nothing is guessed. A duration without a unit is refused unless the caller knows what it
means (`t=` on the wire: milliseconds), and every refusal is one printable ASCII line, so that it
can stand in a reply or in a log whatever was sent.

    duration   60s  500ms  5m  2h  30d     a whole number and ms, s, m, h or d
    size       512  64KiB  8MiB  1GiB      a whole number, of bytes or of KiB, MiB, GiB
"""

import json
import re
from typing import Final

DURATION_FORM: Final = "a whole number with a unit ms, s, m, h or d (say 60s or 60ms)"
SIZE_FORM: Final = "a whole number of bytes, or one with a unit KiB, MiB or GiB (say 64KiB)"

# A century: wall clock plus the longest duration stays far below 2^53, the bound of all our numbers.
MAX_DURATION_MS: Final = 36_500 * 86_400_000
# Numbers stay below 2^53, so that a client that reads them as floating point reads them exactly.
MAX_SIZE_BYTES: Final = 2**53 - 1

_MS_PER_UNIT: Final = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}
_BYTES_PER_UNIT: Final = {"GiB": 1 << 30, "MiB": 1 << 20, "KiB": 1 << 10, "": 1}
# Sixteen digits hold every allowed number; longer ones never reach int(), which is quadratic.
_DURATION: Final = re.compile(r"([0-9]{1,16})(ms|s|m|h|d|)")
_SIZE: Final = re.compile(r"([0-9]{1,16})(KiB|MiB|GiB|)")
_SHOWN_CHARACTERS: Final = 60  # of a refused text: enough to recognise it, short enough for a line


def parse_duration_ms(text: str, *, bare_ms: bool = False) -> int:
    """The milliseconds `text` stands for; with `bare_ms` a number without a unit counts them.

    Raises ValueError with one sentence that quotes the text and says what is allowed.
    """
    match = _DURATION.fullmatch(text)
    if match is None or not (match[2] or bare_ms):
        bare = ", or a bare number of milliseconds" if bare_ms else ""
        raise ValueError(f"{quoted(text)} is not a duration: it must be {DURATION_FORM}{bare}")
    duration_ms = int(match[1]) * _MS_PER_UNIT[match[2] or "ms"]
    if duration_ms > MAX_DURATION_MS:
        longest = format_duration_ms(MAX_DURATION_MS)
        raise ValueError(f"{quoted(text)} is too long: a duration is at most {longest}")
    return duration_ms


def parse_size_bytes(size: str | int) -> int:
    """The bytes `size` stands for; a bare number, as text or as an int, counts bytes.

    Raises ValueError with one sentence that quotes the size and says what is allowed.
    """
    if isinstance(size, int) and not isinstance(size, bool) and 0 <= size <= MAX_SIZE_BYTES:
        return size
    match = _SIZE.fullmatch(size) if isinstance(size, str) else None
    if match is None:
        shown = quoted(size) if isinstance(size, str) else "this number"
        raise ValueError(f"{shown} is not a size: it must be {SIZE_FORM}")
    size_bytes = int(match[1]) * _BYTES_PER_UNIT[match[2]]
    if size_bytes > MAX_SIZE_BYTES:
        raise ValueError(f"{quoted(match[0])} is too large: a size is below 2^53 bytes")
    return size_bytes


def format_duration_ms(duration_ms: int) -> str:
    """The shortest text that `parse_duration_ms` reads as exactly this: `3600000` is `1h`."""
    assert duration_ms >= 0
    unit = next(unit for unit, ms in _MS_PER_UNIT.items() if _counts(duration_ms, ms))
    return f"{duration_ms // _MS_PER_UNIT[unit]}{unit}"


def format_size_bytes(size_bytes: int) -> str:
    """The shortest text that `parse_size_bytes` reads as exactly this: `65536` is `64KiB`."""
    assert size_bytes >= 0
    unit = next(unit for unit, each in _BYTES_PER_UNIT.items() if _counts(size_bytes, each))
    return f"{size_bytes // _BYTES_PER_UNIT[unit]}{unit}"


def quoted(text: str) -> str:
    """`text` in double quotes, cut to a line's worth and escaped to printable ASCII."""
    if len(text) > _SHOWN_CHARACTERS:
        text = text[:_SHOWN_CHARACTERS] + "..."
    return json.dumps(text).replace("\x7f", "\\u007f")


def _counts(number: int, unit: int) -> bool:
    """Whether `number` is a whole count of `unit`; zero is counted in the smallest only."""
    return number % unit == 0 if number else unit == 1
