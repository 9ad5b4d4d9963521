"""Each statement of the engine gets the values that it names, and no others."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from typing import Any, Final

import pytest

from journal.engine.engine import (
    Claim,
    Create,
    DeleteFile,
    EngineAway,
    Fenced,
    Layout,
    Member,
    Rename,
    Takeover,
    Write,
)
from journal.engine.postgres import postgres_engine
from journal.engine.postgres.postgres_engine import PostgresEngine

_NAME: Final = re.compile(r"%\((\w+)\)[sb]")
_PLACE: Final = re.compile(r"%[sb]")
AT: Final = Claim(3, 0, 0)
MEMBER: Final = Member("left", "127.0.0.1:1")
CALLS: Final[dict[str, Callable[[PostgresEngine], Any]]] = {
    "claim": lambda engine: engine.claim(3, MEMBER, 0),
    "claim from a known commit": lambda engine: engine.claim(3, MEMBER, 0, 5),
    "commit of bytes": lambda engine: engine.commit(AT, [Write(1, 0, b"x")]),
    "commit of names": lambda engine: engine.commit(
        AT, [Create(1, "a", 0), Rename(2, "b"), DeleteFile(4)]
    ),
    "commit of both": lambda engine: engine.commit(AT, [Create(1, "a", 9), Write(1, 0, b"x")]),
    "commit of nothing": lambda engine: engine.commit(AT, []),
    "begin of an import": lambda engine: engine.begin_import(AT),
    "end of an import": lambda engine: engine.end_import(AT),
    "release": lambda engine: engine.release(AT),
    "files": lambda engine: engine.files(AT),
    "edges": lambda engine: engine.edges(AT, 10, 10),
    "read": lambda engine: engine.read(AT, 1, 0, 10),
    "owners": lambda engine: engine.owners(),
    "note": lambda engine: engine.note(MEMBER, 3.0),
    "takeover": lambda engine: engine.note_takeover(Takeover(3, 7, MEMBER, "b", "first", 0.0, 0.0)),
    "takeovers": lambda engine: engine.takeovers(),
    "members": lambda engine: engine.members(),
    "layout": lambda engine: engine.agree(Layout(4, "a*")),
}


class Line:
    """A connection on which nothing is found; it notes what is asked."""

    is_open = True

    def __init__(self) -> None:
        self.asked: list[tuple[str, Any]] = []

    def ask(self, statement: str, values: Any, needs_standby: bool = False) -> list[Any]:
        self.asked.append((statement, values))
        return []

    def commit(self, statement: str, values: Any, needs_standby: bool) -> bool:
        self.asked.append((statement, values))
        return False

    def close(self) -> None: ...


def asked_by(call: Callable[[PostgresEngine], Any]) -> list[tuple[str, Any]]:
    engine, line = PostgresEngine("host=nowhere"), Line()
    for connection in ("_committing", "_reading"):
        setattr(engine, connection, line)
    with contextlib.suppress(Fenced, EngineAway, IndexError):
        call(engine)
    return line.asked


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_statement_gets_the_values_that_it_names(call: Callable[[PostgresEngine], Any]) -> None:
    asked = asked_by(call)
    assert asked
    for statement, values in asked:
        if isinstance(values, dict):
            named = set(_NAME.findall(statement))
            # A commit always has the same values, even if its statement does not use all of them.
            is_commit = statement in postgres_engine._COMMITS.values()
            assert named <= set(values) if is_commit else named == set(values)
        else:
            assert len(_PLACE.findall(statement)) == len(values)


def test_each_statement_that_stands_here_is_asked() -> None:
    there = {
        text
        for name, text in vars(postgres_engine).items()
        if isinstance(text, str) and name.startswith("_") and "%" in text
    } - {postgres_engine._EXTENTS, postgres_engine._NAMES, postgres_engine._FENCE}
    there |= set(postgres_engine._COMMITS.values())
    assert there == {
        statement for call in CALLS.values() for statement, _ in asked_by(call) if "%" in statement
    }
