"""A key as the journal has it: its values one after the other, each with its type and length.

    +------+-----------+-------+------+-----------+-------+
    | type | length u32| bytes | type | length u32| bytes |      type 1 text ... 6 bytes
    +------+-----------+-------+------+-----------+-------+

So the integer 1, the number 1.0 and the text "1" are three values, and {"ab", "c"} is not {"a",
"bc"}.

One rule: two keys are the same if and only if their bytes are the same.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import Final
from urllib.parse import quote_from_bytes, unquote, unquote_to_bytes

# A put's meta has 65,535 bytes for everything but the body; half of it is a long key.
KEY_BYTES_MAX: Final = 32 << 10
_HEAD: Final = struct.Struct("<BI")
_FLOAT: Final = struct.Struct("<d")
# Printable, and neither between values nor between words nor before a text that is quoted.
_UNESCAPED: Final = "!$&'()*+:;=@/?<>[]^`{|}"


class Type(IntEnum):
    """The type of a value."""

    TEXT = 1  # UTF-8, or the bytes that a producer named
    INTEGER = 2  # in decimal digits
    FLOAT = 3  # eight bytes, IEEE 754
    BOOLEAN = 4  # one byte, 0 or 1
    NULL = 5  # nothing
    BYTES = 6


_TYPES: Final = frozenset(Type)
_TEXT: Final = int(Type.TEXT)


def value_of(value: object) -> bytes:
    """Return one value. Raises ValueError, `is ...`, for one that no key can hold."""
    if isinstance(value, str):
        return text_of(value.encode())
    if isinstance(value, bool):
        return _value(Type.BOOLEAN, bytes((value,)))
    if isinstance(value, int):
        return _value(Type.INTEGER, b"%d" % value)
    if isinstance(value, float):
        if math.isnan(value):
            raise ValueError("is not a number")
        return _value(Type.FLOAT, _FLOAT.pack(value + 0.0))  # -0.0 is 0.0
    if value is None:
        return _value(Type.NULL, b"")
    if isinstance(value, bytes):
        return _value(Type.BYTES, value)
    raise ValueError("is neither a text, a number, a truth value, null nor bytes")


def text_of(text: bytes) -> bytes:
    """Return the value that a producer names with these bytes."""
    return _HEAD.pack(_TEXT, len(text)) + text  # as `_value` does: one is made for every such set


def named_text(key: bytes) -> bytes | None:
    """Return the text of a key that is one value named by a producer; None for any other key."""
    if len(key) < _HEAD.size or key[0] != _TEXT:
        return None
    text = key[_HEAD.size :]
    return text if _HEAD.unpack_from(key)[1] == len(text) else None


def join(values: Iterable[bytes], unordered: bool) -> bytes:
    """Return a key of these values; `unordered`: their order makes no difference."""
    return b"".join(sorted(values) if unordered else values)


def split(key: bytes) -> Iterator[bytes]:
    """Return the values of a key, each with its type and length; a key of another kind is one
    value.
    """
    at, size = 0, len(key)
    while at < size:
        end = at + _HEAD.size
        end = end + _HEAD.unpack_from(key, at)[1] if end <= size else size
        yield key[at:end]
        at = end


def is_whole(key: bytes) -> bool:
    """True if this is a key of this format."""
    return bool(key) and all(map(_is_whole, split(key)))


def in_words(key: bytes) -> str:
    """Return a key for people and on the wire: `A,B`, percent-encoded, without blanks; empty: no
    key.

    Texts are unquoted, or in quotes where they look like another type.
    """
    return ",".join(map(_in_words, split(key)))


def texts(key: bytes) -> list[bytes] | None:
    """Return the texts that a producer names to get this key; None: it has values of other types,
    which only a rule makes.
    """
    found = []
    for value in split(key):
        text = named_text(value)
        if text is None:
            return None
        found.append(text)
    return found


def texts_in(words: bytes) -> list[bytes] | None:
    """Return the same from the words that `in_words` makes of a key."""
    found = []
    for word in words.split(b","):
        if word[:1] == word[-1:] == b'"' and len(word) > 1:
            found.append(unquote_to_bytes(word[1:-1]))
        elif _looks_typed(word.decode("ascii", "replace")):
            return None
        else:
            found.append(unquote_to_bytes(word))
    return found


def as_text(key: bytes) -> str:
    """Return the same decoded, for a line with nothing else on it."""
    return unquote(in_words(key), errors="replace")


def _value(type_: Type, data: bytes) -> bytes:
    return _HEAD.pack(type_, len(data)) + data


def _is_whole(value: bytes) -> bool:
    if len(value) < _HEAD.size:
        return False
    type_, size = _HEAD.unpack_from(value)
    right = {Type.FLOAT: _FLOAT.size, Type.BOOLEAN: 1, Type.NULL: 0}.get(type_, size)
    return type_ in _TYPES and size == right == len(value) - _HEAD.size


def _in_words(value: bytes) -> str:
    if not _is_whole(value):
        return quote_from_bytes(value, _UNESCAPED)
    type_, data = value[0], value[_HEAD.size :]
    if type_ == Type.TEXT:
        text = quote_from_bytes(data, _UNESCAPED)
        return f'"{text}"' if _looks_typed(text) else text
    if type_ == Type.INTEGER:
        return quote_from_bytes(data)
    if type_ == Type.FLOAT:
        return repr(_FLOAT.unpack(data)[0])
    if type_ == Type.BOOLEAN:
        return "true" if data == b"\1" else "false"
    return "null" if type_ == Type.NULL else f"0x{data.hex()}"


def _looks_typed(text: str) -> bool:
    if text in ("true", "false", "null", "-", "") or text.startswith("0x"):
        return True
    try:
        float(text)
    except ValueError:
        return False
    return True
