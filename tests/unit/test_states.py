"""The look at states names those that are entered and never left, however they are written."""

from __future__ import annotations

import ast

import pytest

from tests.support.states import State, states_in

BEGIN = """
class Door:
    def __init__(self):
        self.is_open = False
        self.guest: str | None = None
        self.inside: set[str] = set()
        self.places: dict[str, str | None] = {}
        self.most = 5
    def enter(self, name):
        self.is_open, self.guest = True, name
        self.inside.add(name)
        self.places[name] = None
        self.most = 6
"""


def found(more: str) -> dict[str, State]:
    return states_in({"core.door": ast.parse(BEGIN + more)})


def test_what_is_entered_is_a_state() -> None:
    kinds = {name.rpartition(".")[2]: each.kind for name, each in found("").items()}
    assert kinds == {
        "is_open": "flag", "guest": "value", "inside": "collection", "places": "collection",
    }  # fmt: skip
    assert not any(each.left for each in found("").values())


@pytest.mark.parametrize(
    ("line", "left"),
    [
        ("self.is_open = False", "is_open"), ("self.is_open = not self.inside", "is_open"),
        ("self.is_open, x = False, 1", "is_open"), ("x = self.is_open = False", "is_open"),
        ("self.guest = None", "guest"), ("x, self.guest = self.guest, None", "guest"),
        ("self.guest = x if x else None", "guest"),
        ("self.inside.discard(x)", "inside"), ("self.inside = set()", "inside"),
        ("self.inside -= {x}", "inside"), ("x.when_done(self.inside.discard)", "inside"),
        ("y = self.inside; y.clear()", "inside"),
        ("del self.places[x]", "places"), ("return self.places.pop(x)", "places"),
        ("self.is_open = True", ""), ("self.guest = x", ""), ("self.inside.add(x)", ""),
        ("self.inside.union(x)", ""), ("is_open = False", ""),
    ],
)  # fmt: skip
def test_how_it_is_left(line: str, left: str) -> None:
    states = found(f"    def leave(self, x):\n        {line}\n")
    assert [name for name, each in states.items() if each.left] == [f"core.door.Door.{left}"] * (
        left != ""
    )


@pytest.mark.parametrize("package", ["core", "server", "client", "kombu"])
def test_others_may_leave_it_too(package: str) -> None:
    other = ast.parse("def leave(door):\n    door.is_open = False\n")
    states = states_in({"core.door": ast.parse(BEGIN), f"{package}.other": other})
    assert bool(states["core.door.Door.is_open"].left) == (package in ("core", "server"))
