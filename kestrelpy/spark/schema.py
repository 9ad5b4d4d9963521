"""The columns of items and of events, a user's narrower schema, and a word for each kind of record.

    items    one row for each item that a queue holds
    events   one row for each numbered record of its journal

A column has a name and Spark's word for its type. Extra columns are read only if a schema names
them. The marker of an event is the number of its item: ids and markers rise together. The marker is
null for an event without an item (`tokens`); that of a flush is the last id that it reached.

One rule: only named columns are read, and a wrong name is refused with one sentence.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Final, Literal

import pyarrow as pa

from journal.format import SENT_TEXTS, TABLE, UNNUMBERED, Tag

Mode = Literal["items", "events"]
MODES: Final[tuple[Mode, ...]] = ("items", "events")


class SchemaError(ValueError):
    """A schema names a column that does not exist; the text is one sentence, then the remedy."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column: `ddl` is its type as Spark writes it (`bigint`). `tag`: it is what the meta of a
    record has under this tag."""

    name: str
    ddl: str
    tag: Tag | None = None

    @property
    def arrow(self) -> pa.DataType:
        """The type in Arrow."""
        return _ARROW[self.ddl]


_ARROW: Final[dict[str, pa.DataType]] = {
    "string": pa.string(),
    "binary": pa.binary(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "timestamp": pa.timestamp("us", "UTC"),
    "array<binary>": pa.list_(pa.binary()),
}
# Other words that people and Spark's own DDL use for the same types.
_SAME: Final[dict[str, str]] = {
    "long": "bigint",
    "int64": "bigint",
    "integer": "int",
    "int32": "int",
    "str": "string",
    "bytes": "binary",
}


def _columns(text: str) -> tuple[Column, ...]:
    """Return columns of `name type`, or `name type TAG` for one of the meta."""
    words = (each.split() for each in text.split(","))
    return tuple(Column(name, ddl, *(Tag[each] for each in tag)) for name, ddl, *tag in words)


# Read only if a schema names it, also from servers: the texts of a key, null if it has others.
_KEYS: Final = Column("keys", "array<binary>")


DEFAULT: Final[dict[Mode, tuple[Column, ...]]] = {
    "items": _columns(
        "server string, queue string, marker bigint, key string KEY, id string ID, value binary,"
        "flags bigint, timestamp timestamp, expires timestamp, attempts int, state string,"
        "origin string ORIGIN"
    ),
    "events": _columns(
        "server string, queue string, marker bigint, op string, timestamp timestamp,"
        "reader string, attempts int, opened timestamp, segment bigint, position bigint,"
        "value binary"
    ),
}
_TEXTS: Final = tuple(Column(row.name, "string", row.tag) for row in SENT_TEXTS)
# Read only if a schema names them; those of items, except `keys`, only from journals.
EXTRA: Final[dict[Mode, tuple[Column, ...]]] = {
    "items": (
        _KEYS, *_columns("item bigint, generation bigint, bytes bigint, lsn bigint"), *_TEXTS
    ),
    "events": _TEXTS + _columns(
        "item bigint, lsn bigint, reason string REASON, generation bigint, flags bigint,"
        "expires timestamp, bytes bigint, key string KEY, number bigint, journal string,"
        "origin string ORIGIN, of_generation bigint GENERATION, target string TARGET,"
        "id string ID, scope string SCOPE, epoch bigint EPOCH, version bigint VERSION,"
        "previous bigint PREVIOUS, due timestamp DUE_MS, reader_number bigint,"
        "key_bytes binary KEY, id_bytes binary ID, scope_bytes binary SCOPE, of_key bigint OF_KEY"
    ),
}


@dataclass(frozen=True)
class Selection:
    """The selected columns, in their order. It can be pickled."""

    mode: Mode
    columns: tuple[Column, ...]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The columns' names."""
        return tuple(each.name for each in self.columns)

    @property
    def ddl(self) -> str:
        """The columns in Spark's DDL."""
        return ", ".join(f"{each.name} {each.ddl}" for each in self.columns)

    @property
    def arrow(self) -> pa.Schema:
        """The Arrow schema of every batch of this selection."""
        return pa.schema([pa.field(each.name, each.arrow) for each in self.columns])

    def __contains__(self, name: str) -> bool:
        return name in self.names


def default(mode: Mode) -> Selection:
    """Return the columns that are read without a schema."""
    return Selection(mode, DEFAULT[mode])


def select(mode: Mode, fields: Sequence[tuple[str, str]], live: bool = False) -> Selection:
    """Return the columns that a user's schema names. Raises SchemaError.

    `fields` are names and types as words (`bigint`, `long`, ...). `live`: a read from servers,
    which has no other extra column than `keys`.
    """
    extra = (_KEYS,) if live else EXTRA[mode]
    known = {each.name: each for each in (*DEFAULT[mode], *extra)}
    if not fields:
        raise SchemaError(
            f"A schema of {mode} names no column. Name at least one of: {', '.join(known)}."
        )
    chosen: dict[str, Column] = {}
    for name, word in fields:
        column = known.get(name)
        if column is None:
            raise SchemaError(_unknown(mode, name, known, live))
        asked = _plain(word)
        if asked != column.ddl:
            raise SchemaError(
                f"Column {name!r} of {mode} is of type {column.ddl}, and the schema says {word}. "
                f"Say {name} {column.ddl}, and cast it after the read."
            )
        if name in chosen:
            raise SchemaError(f"The schema names column {name!r} twice. Name it once.")
        chosen[name] = column
    return Selection(mode, tuple(chosen.values()))


def _plain(word: str) -> str:
    lower = word.strip().lower()
    return _SAME.get(lower, lower)


def _unknown(mode: Mode, name: str, known: dict[str, Column], live: bool) -> str:
    other: Mode = "events" if mode == "items" else "items"
    text = f"There is no column {name!r} of {mode}"
    if live and any(name == each.name for each in EXTRA[mode]):
        return f"{text} read from servers: read it from journals (a path), or leave it out."
    near = difflib.get_close_matches(name.strip().lower(), known, 1)
    if near:
        return f"{text}. Did you mean {near[0]!r}? There are: {', '.join(known)}."
    if any(name == each.name for each in (*DEFAULT[other], *EXTRA[other])):
        return f"{text}, only of {other}. Say mode={other}, or one of: {', '.join(known)}."
    return f"{text}. There are: {', '.join(known)}."


# The word for each kind of record that is an event.
OPS: Final[Mapping[int, str]] = MappingProxyType(
    {int(kind): row.op for kind, row in TABLE.items() if row.op}
)
# By the number of a kind, one byte; a kind that is no event has no word.
OP_WORDS: Final = tuple(
    "" if kind in UNNUMBERED else OPS.get(kind, f"kind {kind}") for kind in range(256)
)
