"""Which classes a daemon and its clients have, and which attributes, as their source says."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
ROOMS: Final = (
    "journal", "kestrelpy/client", "kestrelpy/core", "kestrelpy/kombu", "kestrelpy/operations",
    "kestrelpy/protocol", "kestrelpy/server", "kestrelpy/wire",
)  # fmt: skip


@cache
def classes() -> dict[str, set[str]]:
    """The attributes that each class gives its instances, by the name of the class in the table."""
    found: dict[str, set[str]] = {}
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")):
            module = ".".join(path.relative_to((ROOT / room).parent).with_suffix("").parts)
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ClassDef):
                    found[f"{module}.{node.name}"] = {*_attributes(node)}
    return found


def _attributes(node: ast.ClassDef) -> Iterator[str]:
    for each in node.body:
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
            yield each.target.id
        elif isinstance(each, ast.Assign) and any(_is_slots(t) for t in each.targets):
            yield from ast.literal_eval(each.value)
    for each in ast.walk(node):
        if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store) and _is_self(each):
            yield each.attr


def _is_self(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id == "self"


def _is_slots(target: ast.expr) -> bool:
    return isinstance(target, ast.Name) and target.id == "__slots__"


def complaints(tables: Mapping[str, Mapping[str, object]]) -> list[str]:
    """Classes that stand in no table, or in two, and what stands there and is not in the source."""
    known = classes()
    found = []
    for name in sorted(known):
        where = [each for each, table in tables.items() if name in table]
        if not where:
            found.append(
                f"{name} stands in no table of tests/support/rest_table.py. Instead: put it into "
                "STAYS (its attributes are looked at when nothing is under way), NONE_LEFT (no "
                "instance may be left then) or VALUES (it holds nothing), with the reason"
            )
        elif len(where) > 1:
            found.append(f"{name} stands in {' and '.join(where)}. Instead: one of them")
    for title, table in tables.items():
        found += [f"{title} names {each}, which is no class" for each in table if each not in known]
    return found


def strangers(named: Mapping[str, Mapping[str, object]]) -> list[str]:
    """Attributes that a table names, and no class has."""
    known = classes()
    return [
        f"tests/support/rest_table.py names {name}.{attribute}, which is not there"
        for name, attributes in named.items()
        for attribute in attributes
        if attribute not in known.get(name, set())
    ]
