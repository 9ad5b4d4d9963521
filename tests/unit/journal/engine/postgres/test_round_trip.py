"""A statement and its values as libpq takes them: the same bytes that psycopg would send."""

from __future__ import annotations

from typing import Any

import pytest
from psycopg.adapt import PyFormat, Transformer
from psycopg.types.numeric import Int4, Int8

from journal.engine.postgres.postgres_engine import _COMMITS
from journal.engine.postgres.round_trip import _LISTS, _statement

LISTS: dict[str, list[list[Any]]] = {
    "int8": [[0], [1, -1, 1 << 62, -(1 << 63)], [*range(200)]],
    "int4": [[0], [1, -1, (1 << 31) - 1, -(1 << 31)]],
    "text": [["a"], ["", "queues/å", "x" * 9000]],
    "bytea": [[b"a"], [b"", b"\0\n\\", bytes(range(256)), b"x" * 8000]],
}
WRAPPED = {"int8": Int8, "int4": Int4}


def as_psycopg(kind: str, values: list[Any]) -> bytes:
    wrap = WRAPPED.get(kind, lambda value: value)
    found = Transformer().dump_sequence([[wrap(each) for each in values]], [PyFormat.BINARY])[0]
    assert found is not None
    return bytes(found)


@pytest.mark.parametrize(
    ("kind", "values"), [(kind, values) for kind, lists in LISTS.items() for values in lists]
)
def test_a_list_is_written_as_psycopg_writes_it(kind: str, values: list[Any]) -> None:
    oid, dump = _LISTS[kind]
    ours, theirs = dump(values), as_psycopg(kind, values)
    assert int.from_bytes(ours[8:12], "big") == int.from_bytes(theirs[8:12], "big")
    # psycopg says of every list that it may have a NULL; these have none.
    assert (ours[:4], ours[12:]) == (theirs[:4], theirs[12:])
    assert oid


@pytest.mark.parametrize("kind", LISTS)
def test_an_empty_list_has_no_dimension(kind: str) -> None:
    ours = _LISTS[kind][1]([])
    assert ours[:8] == bytes(8)
    assert len(ours) == 12


def test_each_name_is_one_parameter_and_a_cast_says_what_it_is() -> None:
    statement = _statement("SELECT %(a)s, %(b)b::int8[], %(a)s, %(c)b::bytea[], %(b)b::int8[]")

    assert statement.text == b"SELECT $1, $2::int8[], $1, $3::bytea[], $2::int8[]"
    assert statement.names == ["a", "b", "c"]
    assert statement.oids == [20, 1016, 1001]
    assert [dump(value) for dump, value in zip(statement.dumps, (7, [], []), strict=True)] == [
        b"\0\0\0\0\0\0\0\7", b"\0" * 11 + b"\x14", b"\0" * 11 + b"\x11",
    ]  # fmt: skip


def test_statements_have_names_of_their_own_from_first_to_last() -> None:
    names = [_statement(text).name for text in _COMMITS.values()]

    assert len(set(names)) == len(_COMMITS)
    assert names == [_statement(text).name for text in _COMMITS.values()]
    assert not any(b"%(" in _statement(text).text for text in _COMMITS.values())
