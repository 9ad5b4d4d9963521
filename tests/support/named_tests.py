"""Tests that are named in tables: does each of them exist?

    tests/unit/core/test_keys.py::test_a_key_is_free       a test, whatever its parameters
    tests/scenario/keys.txt::key_missing = free            a scenario whose title contains this

One rule: a name without a test is an error, so that a table cannot say more than there is.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]


def unknown(names: Iterable[str]) -> list[str]:
    """Return those of the names that name no test."""
    return sorted({name for name in names if not _is_there(*name.partition("::")[::2])})


@cache
def _is_there(path: str, name: str) -> bool:
    file = ROOT / path
    if not name or not file.is_file():
        return False
    if file.suffix == ".txt":
        lines = file.read_text().splitlines()
        return any(line.startswith("== ") and name in line for line in lines)
    return name in _tests_of(file)


@cache
def _tests_of(file: Path) -> frozenset[str]:
    tree = ast.parse(file.read_text())
    functions = [
        each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    return frozenset(each.name for each in functions if each.name.startswith("test_"))
