"""The columns of a DataFrame that is written: which there may be, and of which type.

    value     binary, string            the body
    queue     string                    else the option queue
    id        string, binary, number    the same in every attempt to write this row
    key       string, binary, number,   serial work per key
              an array of texts         a key of several values
    flags     number                    0 to 4294967295
    expires   timestamp, number         a number counts seconds as memcache does
    delay     string, day-time interval "5s"
    at        timestamp, number         a number is seconds since 1970

One rule: a wrong name or type is refused on the driver, before any row is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from kestrelpy.spark.errors import KestrelError
from kestrelpy.spark.write.write_options import WriteOptions

_WHOLE: Final = frozenset({"tinyint", "smallint", "int", "bigint"})
_NUMBER: Final = _WHOLE | {"double", "float"}
_TEXT: Final = frozenset({"string", "binary"})
_INTERVAL: Final = "interval day to second"

TYPES: Final[dict[str, frozenset[str]]] = {
    "value": _TEXT,
    "queue": frozenset({"string"}),
    "id": _TEXT | _WHOLE,
    "key": _TEXT | _WHOLE | {"array<string>", "array<binary>"},
    "flags": _WHOLE,
    "expires": _WHOLE | {"timestamp"},
    "delay": frozenset({"string", _INTERVAL}),
    "at": _NUMBER | {"timestamp"},
}
# Names of the source that mean nothing to a new item.
_OF_SOURCE: Final = frozenset({"server", "marker", "timestamp", "attempts", "state", "origin"})
_KEYS: Final = "keys"


@dataclass(frozen=True, slots=True)
class RowForm:
    """The columns in their order."""

    names: tuple[str, ...]

    def place(self, name: str) -> int | None:
        """Return where this column is, or None."""
        return self.names.index(name) if name in self.names else None


def row_form(fields: Sequence[tuple[str, str]], options: WriteOptions) -> RowForm:
    """Return the form of rows with these columns, names and Spark's words for types.

    Raises KestrelError.
    """
    names = [name for name, _ in fields]
    for name, word in fields:
        if name not in TYPES:
            raise KestrelError(_unknown(name))
        if names.count(name) > 1:
            raise KestrelError(f"There are two columns {name!r}. Name it once.")
        if word not in TYPES[name]:
            allowed = ", ".join(sorted(TYPES[name]))
            raise KestrelError(
                f"Column {name!r} is of type {word}, and the sink takes {allowed}. Cast it, for "
                f"instance col('{name}').cast('{_cast(name)}')."
            )
    if "value" not in names:
        raise KestrelError("There is no column 'value', the body of an item. Name one column so.")
    if "queue" not in names and not options.queue:
        raise KestrelError(
            "The rows name no queue. Say .option('queue', 'jobs'), or add a column 'queue'."
        )
    if "delay" in names and "at" in names:
        raise KestrelError("Columns 'delay' and 'at' contradict each other. Drop one of them.")
    if options.ids == "column" and "id" not in names:
        raise KestrelError(
            "There is no column 'id', and without ids a repeated task doubles its rows. Add one "
            "that a repeated read makes again: with_lineage_ids or with_content_ids of "
            "kestrelpy.spark, or an id of your own; or say .option('ids', 'none') to allow doubles."
        )
    if options.ids == "none" and "id" in names:
        raise KestrelError("Column 'id' and ids=none contradict each other. Drop one of them.")
    return RowForm(tuple(names))


def _cast(name: str) -> str:
    return next(word for word in ("string", "timestamp", "int") if word in TYPES[name])


def _unknown(name: str) -> str:
    text = f"The sink has no column {name!r}"
    there = ", ".join(TYPES)
    if name == _KEYS:
        return f"{text}. Name it key: col('keys').alias('key')."
    if name in _OF_SOURCE:
        return f"{text}: only the source has it. Drop it, or select some of: {there}."
    near = get_close_matches(name.strip().lower(), TYPES, 1)
    if near:
        return f"{text}. Did you mean {near[0]!r}? There are: {there}."
    return f"{text}. Drop it. There are: {there}."
