"""Line templates: the varying parts are cut out of a line, so the meaning of the rest is cached.

    set jobs/id=4711 0 0 5          set jobs | id |  0 0 5           4711
    cas acc/key=A 0 0 5 17          cas acc | key |  0 0 5 |         A, 17

One rule: a template holds a newline, as no line can. An unusual line is left alone and read word by
word.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote_to_bytes

from journal.format import text_of
from kestrelpy.errors import ClientError
from kestrelpy.protocol.parse.option_values import values_of
from kestrelpy.protocol.parse.set_conditions import Handoff, parse_handoff, parse_version

_VARIES_MAX: Final = 4  # there are four kinds; a fifth part repeats one
# In a line of at most this length, or in its first part, a key is certainly short enough.
_END_MAX: Final = 250
_DIGITS_SAFE: Final = 15  # of a version that is not too large
_VARIES: Final = re.compile(rb"/(id|key|expect|confirm)=([!-.0-~]+)(?=[/ ])")
_CAS: Final = b"cas "
_COMMA: Final = ord(",")  # bytes find a number much faster than bytes
NO_KEY: Final[tuple[bytes, ...]] = ()
# A key value is used as sent if it is the last option and holds no /, % or blank.
_SIMPLE: Final = bytes(
    ord("0" if 0x21 <= byte < 0x7F and byte not in b"/%" else "-") for byte in range(256)
)


# The template and the parts cut out: an id, a key, a version, a hand-off. Empty or None if it has
# no such part. A bare tuple: one is made for every set with an id or a key.
Cut = tuple[bytes, bytes, tuple[bytes, ...], int | None, Handoff | None]


def cut(line: bytes) -> Cut | None:
    """Cut a storing line; return None if there is nothing to cut, or it is unusual."""
    head, _, tail = line.partition(b"=")
    value, _, rest = tail.partition(b" ")
    if len(line) < _END_MAX:
        # Nearly all lines: one option, an id or a key, and perhaps a version.
        if head[:4] != _CAS and value.translate(_SIMPLE).isdigit():
            if head[-4:] == b"/key":
                return b"\n ".join((head, rest)), b"", _values(value), None, None
            if head[-3:] == b"/id":
                return b"\n ".join((head, rest)), value, NO_KEY, None, None
        else:
            made = None
            if head[-3:] == b"/id":
                made = _cut_scoped(head, value, rest)
            elif head[-4:] == b"/key":
                made = _cut_versioned(head, value, rest)
            if made is not None:
                return made
    return _cut_any(line)


def _cut_versioned(head: bytes, value: bytes, rest: bytes) -> Cut | None:
    """Cut a line with a key and a version; return None if it is not that simple."""
    if head[:4] == _CAS:
        rest, _, version = rest.rpartition(b" ")
        end = b""
        if version[-1:] == b"\r":
            version, end = version[:-1], b"\r"
        template = b"%b\n %b \n%b" % (head, rest, end)
    else:
        value, _, version = value.partition(b"/expect=")
        template = b"%b\n %b\n" % (head, rest)
    if not version.isdigit() or len(version) > _DIGITS_SAFE:
        return None
    if not value.translate(_SIMPLE).isdigit():
        return None
    return template, b"", _values(value), int(version), None


def _cut_scoped(head: bytes, value: bytes, rest: bytes) -> Cut | None:
    """Cut a line with an id of a batch; return None if it is not that simple."""
    id_, scope, batch = value.partition(b"/scope=")
    number = batch.partition(b"/epoch=")[2]
    if not scope or not number.isdigit() or batch.count(b"/") != 1 or head[:4] == _CAS:
        return None
    if not id_.translate(_SIMPLE).isdigit():
        return None
    return b"\n".join((head, scope, batch, rest)), id_, NO_KEY, None, None


def _values(value: bytes) -> tuple[bytes, ...]:
    """Return the values of a key that is used as sent."""
    if _COMMA in value:
        return tuple(map(text_of, value.split(b",")))
    return (text_of(value),)


def _cut_any(line: bytes) -> Cut | None:
    parts = _VARIES.split(line, _VARIES_MAX)
    if len(parts) == 1:
        return None
    rest = parts[-1]
    if len(line) - len(rest) + rest.find(b" ") > _END_MAX:
        return None
    id_, expected, handoff = b"", None, None
    key: tuple[bytes, ...] = ()
    try:
        for at in range(1, len(parts), 3):
            word, value = parts[at], parts[at + 1]
            parts[at + 1] = b""
            if word == b"id":
                id_ = unquote_to_bytes(value) if b"%" in value else value
            elif word == b"key":
                key = values_of(value)
            elif word == b"expect":
                expected = parse_version(value)
            else:
                handoff = parse_handoff(value)
        if line.startswith(_CAS):
            at = rest.rfind(b" ") + 1
            number = rest[at:].rstrip(b"\r")
            expected = parse_version(number)
            parts[-1] = rest[:at] + b"\n" + rest[at + len(number) :]
    except ClientError:
        return None
    return b"\n".join(parts), id_, key, expected, handoff
