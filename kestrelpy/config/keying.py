"""The allowed values of `key`, and contradictions between key settings.

    key_format = "json"   key = ["src_id", "/to/id"]   the format of a message, and its key fields
    key_match  key_unordered                           apply to keys that producers name as well
    key_missing                                        for a message without its fields

One rule: a setting without effect is a mistake, and is reported.
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
        """The format of messages."""

    @property
    def key(self) -> tuple[str, ...] | None:
        """The fields that make the key."""

    @property
    def key_is_free(self) -> bool:
        """True if a message may lack them."""


def read_fields(fields: object) -> tuple[str, ...]:
    """Return the fields of a list, or of words between commas; raise TypeError or ValueError."""
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
    """Return the fields as in TOML."""
    return f"[{', '.join(json.dumps(field, ensure_ascii=False) for field in fields)}]"


def why_contradictory(asked: set[str], keyed: Keyed) -> str:
    """Return the mistake in these settings, by their names, among those in force; "" if there is
    none."""
    if not asked & {"key_format", "key", "key_missing"}:
        return ""
    if keyed.key and keyed.key_format is None:
        return 'key needs key_format, "json" or "msgpack": how messages are read'
    if keyed.key_format is not None and not keyed.key:
        return "key_format needs key: the fields that make the key of a message"
    if keyed.key_is_free and not keyed.key:
        return 'key_missing = "free" needs key: without it every message is free'
    return ""
