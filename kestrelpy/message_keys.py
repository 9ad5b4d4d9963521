"""The key fields of messages in JSON or MessagePack, by name or by JSON pointer.

    {"src_id": "A", "to": {"id": 7}}      key = ["src_id", "/to/id"]  ──▶  the text A, the integer 7

Only what leads to a field is made into objects; the rest of a message is passed over.

One rule: a field has one value of its own: a text, a number, a truth value, null or bytes. A
message where it is absent is refused or free, as the settings say; one where it is anything else,
and one that does not parse, is refused in any case: it would be taken for free by mistake.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import msgspec

from journal.format import value_of
from kestrelpy.durations import shown

_NAMES: Final = {"json": "JSON", "msgpack": "MessagePack"}
_RULES_KEPT: Final = 1024  # queues are many, their rules are mostly the same
_REASON_CHARACTERS_MAX: Final = 100
_INDEX_DIGITS_MAX: Final = 9
_PLAIN: Final = re.compile(r"[^\x00-\x1f\"\\]+")  # names that a msgspec structure can have

Path = tuple[str, ...]


class _Absent(Exception):
    """The field is not there."""


@dataclass(frozen=True, slots=True)
class MessageKey:
    """The rule of one queue: `fields` are names, or pointers, which begin with a slash."""

    format: str  # "json" or "msgpack"
    fields: tuple[str, ...]
    is_free_without: bool

    def values(self, body: bytes) -> list[bytes]:
        """The fields' values; none: one is absent and that is allowed. Raises ValueError."""
        top, whole, paths = _reading(self.format, self.fields)
        try:
            found = top(body)
        except msgspec.ValidationError:  # an array, say, or a map with other keys than texts
            found = None
        except (ValueError, RecursionError) as error:
            raise self._unparsed(error) from None
        if found is None:
            try:
                found = whole(body)
            except (ValueError, RecursionError) as error:
                raise self._unparsed(error) from None
        values = []
        for field, path in zip(self.fields, paths, strict=True):
            try:
                values.append(value_of(_at(found, path)))
            except _Absent:
                if self.is_free_without:
                    return []
                raise ValueError(f"has no field {shown(field)}, which its key needs") from None
            except ValueError as error:
                raise ValueError(f"has a field {shown(field)} that {error}") from None
        return values

    def _unparsed(self, error: Exception) -> ValueError:
        why = " ".join(str(error).split()).encode("ascii", "replace").decode()
        names = ", ".join(map(shown, self.fields))
        return ValueError(
            f"does not parse as {_NAMES[self.format]}, so its key {names} is not known: "
            f"{why[:_REASON_CHARACTERS_MAX]}"
        )


def path_of(field: str) -> Path:
    """The steps to a field: a name is one step. Raises ValueError for what is no JSON pointer."""
    if not field.startswith("/"):
        if not field:
            raise ValueError(field)
        return (field,)
    steps = []
    for step in field[1:].split("/"):
        if step.count("~") != step.count("~0") + step.count("~1"):
            raise ValueError(field)
        steps.append(step.replace("~1", "/").replace("~0", "~"))
    return tuple(steps)


@lru_cache(maxsize=_RULES_KEPT)
def _reading(
    format_: str, fields: tuple[str, ...]
) -> tuple[Callable[[bytes], Any], Callable[[bytes], Any], tuple[Path, ...]]:
    """How to read what leads to these fields; how to read a whole message; and their paths."""
    paths = tuple(map(path_of, fields))
    names = tuple(dict.fromkeys(path[0] for path in paths))
    whole = msgspec.json.decode if format_ == "json" else msgspec.msgpack.decode
    if not all(map(_PLAIN.fullmatch, names)):
        return whole, whole, paths
    tops = {f"field_{n}": name for n, name in enumerate(names)}
    members = [(each, Any, msgspec.UNSET) for each in tops]
    shape = msgspec.defstruct("Message", members, rename=tops)
    read = (
        msgspec.json.Decoder(shape) if format_ == "json" else msgspec.msgpack.Decoder(shape)
    ).decode

    def top(body: bytes) -> dict[str, Any]:
        found = read(body)
        return {name: getattr(found, each) for each, name in tops.items()}

    return top, whole, paths


def _at(message: Any, path: Path) -> object:
    """What stands there; raises _Absent."""
    for step in path:
        if isinstance(message, dict):
            message = message.get(step, msgspec.UNSET)
        elif isinstance(message, list) and _is_index(step) and int(step) < len(message):
            message = message[int(step)]
        else:
            raise _Absent
        if message is msgspec.UNSET:
            raise _Absent
    return message


def _is_index(step: str) -> bool:
    digits = step.isascii() and step.isdigit() and len(step) <= _INDEX_DIGITS_MAX
    return digits and (step == "0" or step[0] != "0")
