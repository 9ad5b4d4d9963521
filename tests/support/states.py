"""The states of objects, as the source says: which attributes are entered, and which are left.

    flag         a bool that is set after the beginning of its object
    value        one that may be None, and is not
    collection   something that is put into

A state is left where it gets the value that it began with, or where something is taken out of it.
A state of an object that serves one request, item or job ends with that.

One rule: each state that is entered is left somewhere, or stands in a table with its reason: in
NO_WAY_OUT, or in `rest_table`, if it may be entered when no work is under way.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

from tests.support.rest_table import MAY_HOLD, NONE_LEFT, VALUES, WORKS

SHARED: Final = "said once, when its queue has its first child"
WIRING: Final = "said once, when the parts of a process, or of a queue, are put together"
GONE: Final = "a queue that was deleted never comes back: one of its name is another one"

# By class: attributes that no part of the source sets back, with the reason.
_NO_WAY_OUT: Final[dict[str, dict[str, str]]] = {
    "core.index.delayed.Delays": {"shared": SHARED},
    "core.log.log.JournalLog": {
        "failure": "a log that has failed is read again by a start, and by nothing else",
        "is_reported": "so is one that the log has told of",
        "read_ahead": WIRING,
    },
    "core.log.memory_log.MemoryLog": {"failure": "as of a journal", "read_ahead": WIRING},
    "core.queue.child_queue.ChildQueue": {"deleted": GONE},
    "core.queue.state.QueueState": {
        "is_gone stays": GONE,
        "unseen": "what children have not seen yet, from its first child on",
    },
    "server.http_side.HttpSide": {"_listener": WORKS},
    "server.queue_deletion.QueueDeletions": {"turn": WIRING},
    "server.slices.slice_process.SliceProcess": {
        "_is_stopping": "the process ends", "has_failed": "the router ends then",
    },
    "server.slices.doors.Waiting": {"_is_over": "the process ends"},
    "server.turn.Turn": {
        "_is_over": "the process ends",
        "committer journal_jobs may_answer schedules send_mail": WIRING,
    },
}
# These objects live with a connection, so their states are left before its end.
_LONG: Final = (
    "client.connection._FullClient", "client.retry.Backoff", "kombu.fetcher.Fetcher",
    "kombu.sockets.KombuConnection", "wire.answers.AnswerReader",
    "wire.connection.WireConnection",
)  # fmt: skip

ROOT: Final = Path(__file__).parents[2]
ROOMS: Final = (
    "kestrelpy/client", "kestrelpy/kombu", "kestrelpy/server", "kestrelpy/core", "kestrelpy/wire",
)  # fmt: skip
# Whose objects a package may change.
_REACHES: Final = {
    "client": ("client", "wire"), "kombu": ("kombu", "client", "wire"),
    "server": ("server", "core"), "core": ("core",), "wire": ("wire",),
}  # fmt: skip
_BEGINNINGS: Final = ("__init__", "__new__", "__post_init__")
_COLLECTIONS: Final = ("set", "dict", "list", "deque", "defaultdict", "OrderedDict", "bytearray")
_PUTS: Final = frozenset({
    "add", "append", "appendleft", "extend", "insert", "setdefault", "update",
})  # fmt: skip
_TAKES: Final = frozenset({
    "clear", "difference_update", "discard", "pop", "popitem", "popleft", "remove",
})  # fmt: skip


@dataclass
class State:
    """One attribute of a class that is a state."""

    kind: str  # "flag", "value", "collection"
    rest: object = None  # the value that a flag begins with
    entered: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)


@cache
def states() -> dict[str, State]:
    """Return every state of these packages that is entered."""
    return states_in(
        {
            ".".join(path.relative_to(ROOT / "kestrelpy").with_suffix("").parts): ast.parse(
                path.read_text()
            )
            for room in ROOMS
            for path in sorted((ROOT / room).rglob("*.py"))
        }
    )


def states_in(trees: Mapping[str, ast.Module]) -> dict[str, State]:
    """Return the states of these modules that are entered, by `<module>.<class>.<attribute>`."""
    found: dict[str, State] = {}
    by_attribute: defaultdict[str, list[str]] = defaultdict(list)
    for module, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                for attribute, state in _declared(node):
                    name = f"{module}.{node.name}.{attribute}"
                    found[name] = state
                    by_attribute[attribute].append(name)
    for module, tree in trees.items():
        for owner, function in _functions(tree):
            for attribute, is_own, value in _changes(function):
                reached = _REACHES[module.partition(".")[0]]
                names = [n for n in by_attribute[attribute] if n.partition(".")[0] in reached]
                own = f"{module}.{owner}.{attribute}"
                for name in [own] if is_own and own in names else names:
                    begins = is_own and function.name in _BEGINNINGS
                    _note(found[name], value, f"{module}:{function.name}", begins)
    return {name: each for name, each in found.items() if each.entered}


def never_left() -> set[str]:
    """Return the states of what lives on that are entered, and for which no exit is in the source
    and no reason in `rest_table`."""
    return {
        name
        for name, each in states().items()
        if not (each.left or _is_short(name) or _may_hold(name))
    }


def _is_short(name: str) -> bool:
    owner = name.rpartition(".")[0]
    return (owner in NONE_LEFT and owner not in _LONG) or owner in VALUES


def _may_hold(name: str) -> bool:
    owner, _, attribute = name.rpartition(".")
    return attribute in MAY_HOLD.get(owner, ())


def reasons() -> dict[str, str]:
    """Return the reason of each state that has no way out."""
    return {
        f"{owner}.{attribute}": why
        for owner, rows in _NO_WAY_OUT.items()
        for names, why in rows.items()
        for attribute in names.split()
    }


def complaints() -> list[str]:
    """Return the states that are never left without a reason, and rows that name no such state."""
    found, said = never_left(), reasons()
    return [
        *(
            f"{name} is entered ({states()[name].entered[0]}) and never left. Instead: set it back "
            "where it ends, with a test, or say why not in tests/support/states.py"
            for name in sorted(found - said.keys())
        ),
        *(f"tests/support/states.py: {name} is left, or no state" for name in said.keys() - found),
    ]


def _note(state: State, value: object, where: str, begins: bool) -> None:
    """`value`: a constant, `_PUT`, `_TAKEN`, or something that only running it tells."""
    if begins:
        return
    is_constant = isinstance(value, ast.Constant)
    if state.kind == "collection":
        enters, leaves = value is _PUT, value is _TAKEN or isinstance(value, ast.AST)
    elif state.kind == "flag":
        if value in (_PUT, _TAKEN):
            return
        enters = not is_constant or value.value is not state.rest
        leaves = not is_constant or value.value is state.rest
    else:
        if value in (_PUT, _TAKEN):
            return
        leaves = isinstance(value, ast.AST) and any(
            isinstance(each, ast.Constant) and each.value is None for each in ast.walk(value)
        )
        enters = not (is_constant and value.value is None)
    if enters:
        state.entered.append(where)
    if leaves:
        state.left.append(where)


_PUT: Final = object()
_TAKEN: Final = object()


def _declared(node: ast.ClassDef) -> Iterator[tuple[str, State]]:
    """Yield those attributes of the class's instances that are states."""
    begins = [
        each
        for function in node.body
        if isinstance(function, ast.FunctionDef) and function.name in _BEGINNINGS
        for each in ast.walk(function)
    ]
    for each in [*node.body, *begins]:
        if isinstance(each, ast.AnnAssign):
            name = _name(each.target)
            if name and (state := _kind(each.annotation, each.value)):
                yield name, state
        elif isinstance(each, ast.Assign):
            for target in each.targets:
                if isinstance(target, ast.Attribute) and (state := _kind(None, each.value)):
                    yield target.attr, state


def _name(target: ast.expr) -> str:
    if isinstance(target, ast.Attribute):
        return target.attr
    return target.id if isinstance(target, ast.Name) else ""


def _kind(annotation: ast.expr | None, value: ast.expr | None) -> State | None:
    said = ast.unparse(annotation) if annotation is not None else ""
    said = said.removeprefix("Final[").removesuffix("]") if said.startswith("Final[") else said
    rest = value.value if isinstance(value, ast.Constant) else None
    if said == "bool" or isinstance(rest, bool):
        return State("flag", rest if isinstance(rest, bool) else False)
    if said.endswith("| None"):
        return State("value")
    if said.partition("[")[0] in _COLLECTIONS or isinstance(value, ast.List | ast.Dict | ast.Set):
        return State("collection")
    if isinstance(value, ast.Call) and ast.unparse(value.func) in _COLLECTIONS:
        return State("collection")
    return None


def _functions(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Yield each function with the class that it stands in."""
    for node in ast.walk(tree):
        for each in (
            getattr(node, "body", ()) if isinstance(node, ast.ClassDef | ast.Module) else ()
        ):
            if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
                yield (node.name if isinstance(node, ast.ClassDef) else ""), each


def _changes(
    function: ast.FunctionDef | ast.AsyncFunctionDef,
) -> Iterator[tuple[str, bool, object]]:
    """Yield the attributes that a function changes, whether they are its own, and how."""
    aliases: dict[str, ast.Attribute] = {}

    def attribute(node: ast.expr) -> ast.Attribute | None:
        if isinstance(node, ast.Name):
            return aliases.get(node.id)
        return node if isinstance(node, ast.Attribute) else None

    def is_own(node: ast.Attribute) -> bool:
        return isinstance(node.value, ast.Name) and node.value.id == "self"

    for node in ast.walk(function):
        if isinstance(node, ast.Assign):
            for one, value in _pairs(node.targets, node.value):
                if isinstance(one, ast.Name) and isinstance(value, ast.Attribute):
                    aliases[one.id] = value
    for node in ast.walk(function):
        pairs: list[tuple[ast.expr, ast.expr | None]] = []
        if isinstance(node, ast.Assign):
            pairs = [*_pairs(node.targets, node.value)]
        elif isinstance(node, ast.AnnAssign | ast.AugAssign | ast.NamedExpr):
            pairs = [(node.target, node.value)]
        elif isinstance(node, ast.Delete):
            for target in node.targets:
                inner = target.value if isinstance(target, ast.Subscript) else target
                if (found := attribute(inner)) is not None:
                    yield found.attr, is_own(found), _TAKEN
        elif isinstance(node, ast.Attribute) and node.attr in _TAKES:  # called, or handed on
            if (found := attribute(node.value)) is not None:
                yield found.attr, is_own(found), _TAKEN
        elif isinstance(node, ast.Call):
            yield from _called(node, attribute, is_own)
        for target, value in pairs:
            if isinstance(target, ast.Attribute):
                if isinstance(node, ast.AugAssign):
                    put = _TAKEN if isinstance(node.op, ast.Sub) else _PUT
                    yield target.attr, is_own(target), put
                    yield target.attr, is_own(target), node
                else:
                    yield target.attr, is_own(target), value
            elif isinstance(target, ast.Subscript) and (found := attribute(target.value)):
                yield found.attr, is_own(found), _PUT


def _called(
    node: ast.Call,
    attribute: Callable[[ast.expr], ast.Attribute | None],
    is_own: Callable[[ast.Attribute], bool],
) -> Iterator[tuple[str, bool, object]]:
    if isinstance(node.func, ast.Attribute) and node.func.attr in _PUTS:
        found = attribute(node.func.value)
        if found is not None:
            yield found.attr, is_own(found), _PUT
    for number, argument in enumerate(node.args):
        found = argument if isinstance(argument, ast.Attribute) else None
        called = ast.unparse(node.func)
        if found is not None and number == 0 and "heappop" in called:
            yield found.attr, is_own(found), _TAKEN
        elif found is not None and number == 0 and "heappush" in called:
            yield found.attr, is_own(found), _PUT


def _pairs(targets: list[ast.expr], value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr | None]]:
    for target in targets:
        if isinstance(target, ast.Tuple):
            if isinstance(value, ast.Tuple) and len(value.elts) == len(target.elts):
                yield from zip(target.elts, value.elts, strict=True)
            else:
                yield from ((each, value) for each in target.elts)
        else:
            yield target, value
