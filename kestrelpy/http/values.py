"""The values of query parameters: durations, counts, names, tokens.

One rule: a bad value is refused with its name, the value and what is allowed.
"""

from __future__ import annotations

from typing import Final

from kestrelpy.durations import parse_duration_ms, shown
from kestrelpy.errors import ClientError
from kestrelpy.http.answers import HttpError
from kestrelpy.operations import check_name

_DIGITS_MAX: Final = 16


def queue_name(text: str) -> bytes:
    """Return the name of a queue; raise ClientError."""
    try:
        name = text.encode("ascii")
    except UnicodeEncodeError:
        raise ClientError("bad queue name: printable ASCII without blanks is allowed") from None
    check_name(name)
    if b"/" in name:
        raise ClientError("bad queue name: / separates a queue from what is asked of it")
    return name


def duration_ms(name: str, text: str, most_ms: int | None = None) -> int:
    """Return the milliseconds of `30s`, `500ms` or `30`: a bare number counts seconds."""
    if text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX:
        text += "s"
    try:
        value = parse_duration_ms(text)
    except ValueError as error:
        raise HttpError(400, f"{name}: {error}") from None
    if most_ms is not None and value > most_ms:
        raise HttpError(400, f"{name} is at most {most_ms // 1000}s")
    return value


def whole(name: str, text: str, least: int, most: int) -> int:
    """Return a whole number within limits."""
    if text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX:
        number = int(text)
        if least <= number <= most:
            return number
    allowed = f"a whole number from {least} to {most} is allowed"
    raise HttpError(400, f"{name} is {shown(text)}: {allowed}")
