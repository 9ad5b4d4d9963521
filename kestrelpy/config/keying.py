"""What `key` may be, and which key settings contradict each other.

    key_format = "json"   key = ["src_id", "/to/id"]   how a message is read, and what makes its key
    key_match  key_unordered                           hold for keys that producers name too
    key_missing                                        what becomes of a message without its fields

One rule: a setting that would do nothing is a mistake, and is told.
"""

import json
from typing import Final, Protocol

from kestrelpy.message_keys import path_of

FIELDS_MAX: Final = 16
_FIELD_CHARACTERS_MAX: Final = 200
FIELDS_FORM: Final = (
    f"a list of 1 to {FIELDS_MAX} different names or JSON pointers of fields, "
    'say ["src_id", "/to/id"]'
)


class Keyed(Protocol):
    """The key settings in force for a queue."""

    @property
    def key_format(self) -> str | None:
        """How messages are read."""

    @property
    def key(self) -> tuple[str, ...] | None:
        """The fields that make the key."""

    @property
    def key_is_free(self) -> bool:
        """May a message be without them?"""


def read_fields(fields: object) -> tuple[str, ...]:
    """The fields of a list, or of words between commas; raises TypeError or ValueError."""
    if isinstance(fields, str):
        fields = fields.split(",")
    if not isinstance(fields, list | tuple):
        raise TypeError
    for field in fields:
        if not isinstance(field, str) or not field.isprintable():
            raise TypeError
        if len(field) > _FIELD_CHARACTERS_MAX:
            raise ValueError
        path_of(field)
    if not 1 <= len(fields) <= FIELDS_MAX or len(set(map(path_of, fields))) < len(fields):
        raise ValueError
    return tuple(fields)


def fields_in_words(fields: tuple[str, ...]) -> str:
    """As in TOML."""
    return f"[{', '.join(json.dumps(field, ensure_ascii=False) for field in fields)}]"


def why_contradictory(asked: set[str], keyed: Keyed) -> str:
    """What is wrong with these settings, by their names, among those in force; "": nothing."""
    if not asked & {"key_format", "key", "key_missing"}:
        return ""
    if keyed.key and keyed.key_format is None:
        return 'key needs key_format beside it, "json" or "msgpack": how messages are read'
    if keyed.key_format is not None and not keyed.key:
        return "key_format needs key beside it: the fields that make the key of a message"
    if keyed.key_is_free and not keyed.key:
        return 'key_missing = "free" needs key beside it: without it every message is free'
    return ""
