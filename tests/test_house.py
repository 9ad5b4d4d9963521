"""The house stands as docs/architecture.md draws it: floors, packages, sizes.

A failure says what to do instead.

      cli, client, kombu, examples                5   terminals, workers, Celery
      server/  http/  fleet/  spark/              4   sockets, threads, the web, pyspark
      protocol/  operations/  config/             3   commands, replies, what they mean; settings
      core/                                       2   queues; no asyncio, os, time, logging
      journal/                                    1   records, segments, syncs
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

from tests.support import long_tests, rest_house, states, tested_house
from tests.support.rest_table import (
    AT_MOST,
    MAY_HOLD,
    NONE_LEFT,
    OTHERWISE,
    REMEMBERED,
    RETAINED,
    VALUES,
)
from tests.support.tested_by import TESTED_BY

ROOT = Path(__file__).parent.parent

# The longest prefix of a module's name that stands here is its floor.
FLOORS = {
    "journal": 1,
    "kestrelpy.access": 1,
    "kestrelpy.aside": 1,
    "kestrelpy.durations": 1,
    "kestrelpy.placement": 1,
    "kestrelpy.wire": 1,
    "kestrelpy.write_at_once": 1,
    "kestrelpy.kestrel": 1,
    "kestrelpy.errors": 2,
    "kestrelpy.message_keys": 2,
    "kestrelpy.core": 2,
    "kestrelpy.config": 3,
    "kestrelpy.operations": 3,
    "kestrelpy.protocol": 3,
    "kestrelpy.server": 4,
    "kestrelpy.fleet": 4,
    "kestrelpy.http": 4,
    "kestrelpy.spark": 4,
    "pyspark_kestrel": 4,
    "kestrelpy.cli": 5,
    "kestrelpy.client": 5,
    "kestrelpy.kombu": 5,
    "kestrelpy.examples": 5,
    "kestrelpy.__main__": 5,
    "kestrelpy": 1,  # the package itself: its version, nothing else
}
INSTEAD = {
    1: "the journal knows bytes and files only: pass what it needs as an argument",
    2: "the core is told, it never asks: take a value or a callable as an argument, or mark what "
    "happened and let the turn sweep it up",
    3: "the protocol speaks to `Host`, a Protocol: add a method there and let the server fill it",
    4: "the server is used by the command line, not the reverse: pass a callable, like `say`",
}
# The outside packages of each room; "stdlib" is all of it but the modules that are refused below.
OUTSIDE = {
    "journal": {"stdlib", "aiofiles", "librt"},  # the last one in the compiled wheel alone
    "journal.engine.object_store.s3": {"stdlib", "obstore"},  # so is this one
    "journal.engine.postgres": {"stdlib", "psycopg"},  # imported by name, where it is asked for
    "kestrelpy.durations": {"stdlib"},
    "kestrelpy.kestrel": {"stdlib"},
    "kestrelpy.core": {"stdlib", "aiofiles"},
}
OUTSIDE_OF_STANDALONE = {"stdlib", "pymemcache"}
_SPARK_ITSELF = {"pyspark", "py4j"}
REFUSED = {
    "kestrelpy.kestrel": {"asyncio", "os", "pathlib", "time", "socket", "threading"},
    **{
        f"kestrelpy.spark.{room}": _SPARK_ITSELF
        for room in (
            "errors", "files", "live", "offsets", "options", "schema", "streaming", "write",
        )
    },
    "kestrelpy.core": {"asyncio", "os", "time", "logging", "pydantic", "socket", "threading"},
    "kestrelpy.operations": {"asyncio", "os", "time", "logging", "socket", "threading"},
    "kestrelpy.protocol": {"asyncio", "os", "time", "socket", "threading"},
}
READ_BY_SPARK = (
    "journal", "kestrelpy.spark", "kestrelpy.durations", "kestrelpy.placement", "kestrelpy.wire",
)  # fmt: skip
# The port hands out the settings of the server (`Site.server_settings`) to the code that answers.
CONFIG_READERS = ("kestrelpy.server", "kestrelpy.cli", "kestrelpy.operations.ports")
# These use nothing of ours but the module that starts a daemon: they are for people to copy.
STARTS_A_DAEMON = "kestrelpy.examples.fresh"
RECIPES = tuple(
    f"kestrelpy.examples.{name}"
    for name in (
        "account", "audit", "cron", "handoff", "lock", "observer", "renewing", "reservation",
        "saga", "transfers", "webhook", "withdrawal", "workflow",
    )
)
STANDALONE = ("kestrelpy.examples.producer", "kestrelpy.examples.worker", *RECIPES, STARTS_A_DAEMON)

# Modules of these are imported by name: each is a face by itself.
OPEN = (
    "journal", "kestrelpy", "kestrelpy.cli.dead", "kestrelpy.cli.fleet", "kestrelpy.cli.items",
    "kestrelpy.cli.journals", "kestrelpy.cli.queues", "kestrelpy.cli.status", "kestrelpy.spark",
    "kestrelpy.spark.jobs",
    "kestrelpy.spark.jobs.common", "kestrelpy.wire", "pyspark_kestrel",
)  # fmt: skip
# These are one face, with the packages inside them.
SEALED = ("kestrelpy.core", "kestrelpy.operations", "kestrelpy.protocol", "kestrelpy.server")
# The storage engine: the daemon sees it through `journal.store` alone.
ENGINE = ("journal.compaction", "journal.read", "journal.snapshot", "journal.write")

FILE_LINES_MAX = 700  # a guide: one idea may take as many lines
FUNCTION_LINES_MAX = 60
PACKAGE_FILES_MAX = 15
# With more, each with its reason.
LARGE_PACKAGES: dict[str, str] = {
    "kestrelpy.examples": "one file a recipe, found by its name",
    "kestrelpy.operations": "one file an operation, found by its name",
}
# Functions that take one of these first are methods, of it or of a part of it.
HAVE_METHODS = {
    "Queue", "QueueState", "ChildQueue", "Child", "Subscription", "SubscriptionState", "Broker",
    "Registry", "Lifecycle", "Journal",
}
# Longer, each with its reason.
LONG_FILES: dict[str, str] = {}
LONG_FUNCTIONS: dict[str, str] = {}


@dataclass(frozen=True)
class Module:
    """One source file: its name, its syntax tree and its length."""

    name: str
    path: Path
    tree: ast.Module
    lines: int

    @property
    def floor(self) -> int:
        return FLOORS[longest_prefix(self.name, FLOORS)]

    @property
    def node(self) -> str:
        """The package it stands in, or itself where that has packages of its own."""
        if self.path.name == "__init__.py":
            return self.name
        package = self.name.rpartition(".")[0]
        return self.name if any(each.startswith(package + ".") for each in packages()) else package

    def imports(self, for_types: bool = True) -> Iterator[str]:
        """Modules it imports, wherever the import stands; those for types alone if `for_types`."""
        for node in ast.walk(self.tree) if for_types else running(self.tree):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{self.name}: import by the full name, not relative"
                assert node.module is not None
                for alias in node.names:
                    whole = f"{node.module}.{alias.name}"
                    yield whole if whole in house() else node.module

    def faces(self) -> Iterator[str]:
        """Modules of ours that its imports name: a package where that hands the name out."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom) and node.module in house():
                for alias in node.names:
                    whole = f"{node.module}.{alias.name}"
                    is_module = whole in house() and alias.name not in handed_out(node.module)
                    yield whole if is_module else node.module


def running(node: ast.AST) -> Iterator[ast.AST]:
    """Yield every node except those below `if TYPE_CHECKING:`."""
    yield node
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) in (
            "TYPE_CHECKING",
            "typing.TYPE_CHECKING",
        ):
            for each in child.orelse:
                yield from running(each)
        else:
            yield from running(child)


@cache
def packages() -> dict[str, list[str]]:
    """The modules of each package, by its name."""
    found: dict[str, list[str]] = {}
    for name, module in house().items():
        if module.path.name != "__init__.py":
            found.setdefault(name.rpartition(".")[0], []).append(name)
    return found


@cache
def house() -> dict[str, Module]:
    """Every module of journal/, kestrelpy/ and pyspark_kestrel/ by its name."""
    found = {}
    for room in ("journal", "kestrelpy", "pyspark_kestrel"):
        for path in sorted((ROOT / room).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            text = path.read_text()
            found[name] = Module(name, path, ast.parse(text), text.count("\n"))
    return found


def longest_prefix(name: str, table: dict[str, int]) -> str:
    """The entry of a table that is this module or the nearest package around it."""
    while name not in table:
        assert "." in name, f"{name} stands on no floor: give it one in {Path(__file__).name}"
        name = name.rpartition(".")[0]
    return name


def is_in(name: str, rooms: tuple[str, ...] | list[str]) -> bool:
    return any(name == room or name.startswith(room + ".") for room in rooms)


def ours(imported: str) -> bool:
    return is_in(imported, ("journal", "kestrelpy", "pyspark_kestrel"))


def complain(complaints: list[str]) -> None:
    if complaints:
        pytest.fail("\n".join(sorted(complaints)), pytrace=False)


def test_a_room_imports_from_its_own_floor_or_below() -> None:
    complaints = []
    for module in house().values():
        for imported in filter(ours, module.imports()):
            above = FLOORS[longest_prefix(imported, FLOORS)]
            if above > module.floor:
                complaints.append(
                    f"{module.name} (floor {module.floor}) imports {imported} (floor {above}). "
                    f"Instead: {INSTEAD[module.floor]}."
                )
    complain(complaints)


def test_the_configuration_is_read_by_the_server_and_the_command_line_only() -> None:
    complaints = [
        f"{module.name} imports kestrelpy.config. Instead: take the one value you need, ask "
        "`Site.server_settings`, or take a frozen object of your own floor that the server fills "
        "from the configuration (as policy_of does)."
        for module in house().values()
        if any(is_in(each, ("kestrelpy.config",)) for each in module.imports())
        and not is_in(module.name, ("kestrelpy.config", *CONFIG_READERS))
    ]
    complain(complaints)


def test_the_lower_floors_do_not_reach_for_the_world() -> None:
    complaints = []
    for room, refused in REFUSED.items():
        instead = (
            "Spark belongs to batch and session; what reads works, and is tested, without it."
            if refused is _SPARK_ITSELF
            else "time comes in as now_ms, a wish goes out as a mark or through an argument; "
            "files, sockets, threads and the log belong to the server."
        )
        for module in house().values():
            if is_in(module.name, (room,)):
                complaints += [
                    f"{module.name} imports {imported}. Instead: {instead}"
                    for imported in module.imports(for_types=False)
                    if imported.partition(".")[0] in refused
                ]
    complain(complaints)


def test_tables_are_read_through_the_journal_alone() -> None:
    complain(
        [
            f"{module.name} imports {imported}. Instead: an executor has the journal and the "
            "wire; what a queue means to a daemon stays with the daemon."
            for module in house().values()
            if is_in(module.name, ("kestrelpy.spark", "pyspark_kestrel"))
            for imported in module.imports()
            if ours(imported) and not is_in(imported, READ_BY_SPARK)
        ]
    )


def test_what_is_used_alone_needs_little() -> None:
    complaints = []
    rooms = OUTSIDE | dict.fromkeys(STANDALONE, OUTSIDE_OF_STANDALONE)
    for room, allowed in rooms.items():
        for module in house().values():
            nearest = [each for each in rooms if is_in(module.name, (each,))]
            if room != max(nearest, key=len, default=""):
                continue
            for imported in module.imports():
                top = imported.partition(".")[0]
                known = "stdlib" if top in sys.stdlib_module_names else top
                if known not in allowed and not ours(imported):
                    complaints.append(
                        f"{module.name} imports {imported}. Instead: {room} takes only "
                        f"{', '.join(sorted(allowed))}; what needs more stands on a higher floor."
                    )
    complain(complaints)


def test_examples_to_copy_use_nothing_of_ours() -> None:
    complain(
        [
            f"{name} imports {imported}. Instead: write it with pymemcache and the standard "
            "library; whoever copies the example has nothing else."
            for name in STANDALONE
            for imported in house()[name].imports()
            if ours(imported) and imported != STARTS_A_DAEMON
        ]
    )


def face(importer: str, imported: str) -> str:
    """Return the module from which `importer` takes what stands in `imported`."""
    if is_in(imported, ENGINE) and is_in(importer, SEALED):
        return "journal.store"
    for sealed in SEALED:
        if is_in(imported, (sealed,)) and not is_in(importer, (sealed,)):
            return sealed
    package = imported.rpartition(".")[0]
    is_package = house()[imported].path.name == "__init__.py"
    return imported if is_package or package in OPEN or is_in(importer, (package,)) else package


def test_outside_a_package_its_face_is_imported() -> None:
    complain(
        [
            f"{name} imports {imported}. Instead: import from {face(name, imported)}, and let it "
            "hand the name out."
            for name, module in house().items()
            for imported in module.faces()
            if face(name, imported) != imported
        ]
    )


@cache
def handed_out(package: str) -> set[str]:
    """Return the names in a package's `__all__`."""
    return {
        name
        for node in house()[package].tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
        for name in ast.literal_eval(node.value)
    }


@pytest.mark.parametrize(
    ("importer", "imported", "expected"),
    [
        ("kestrelpy.core.queue.queue", "kestrelpy.core.queue.admin", "kestrelpy.core.queue.admin"),
        ("kestrelpy.core.queue.queue", "kestrelpy.core.index.leases", "kestrelpy.core.index"),
        ("kestrelpy.core.queue.queue", "kestrelpy.core.item", "kestrelpy.core.item"),
        ("kestrelpy.core.queue.queue", "journal.snapshot.job", "journal.store"),
        ("kestrelpy.server.daemon", "kestrelpy.core.index.leases", "kestrelpy.core"),
        ("kestrelpy.server.daemon", "kestrelpy.core.broker", "kestrelpy.core"),
        ("kestrelpy.spark.files.split", "journal.snapshot.job", "journal.snapshot"),
        ("kestrelpy.server.daemon", "journal.errors", "journal.errors"),
    ],
)
def test_a_face(importer: str, imported: str, expected: str) -> None:
    assert face(importer, imported) == expected


def circles(edges: dict[str, Counter[str]]) -> Iterator[list[str]]:
    """Yield circles of imports, each with its first name at the end again."""
    done: set[str] = set()

    def walk(name: str, trail: list[str]) -> Iterator[list[str]]:
        if name in trail:
            yield [*trail[trail.index(name) :], name]
        elif name not in done:
            for each in edges.get(name, ()):
                yield from walk(each, [*trail, name])
            done.add(name)

    for name in edges:
        yield from walk(name, [])


def turned_round(edges: dict[str, Counter[str]]) -> list[str]:
    """Say of each circle which import to turn round: the one that takes the least."""
    complaints = []
    for circle in circles(edges):
        weights = [(edges[a][b], a, b) for a, b in pairwise(circle)]
        count, above, below = min(weights)
        complaints.append(
            f"{' imports '.join(circle)}. Instead: turn round the import of {below} in {above} "
            f"({count} of them): move what both need one step down, or let {above} name what it "
            "needs in a Protocol of its own. Imports for types count."
        )
    return complaints


def edges_of(node: Callable[[str], str]) -> dict[str, Counter[str]]:
    """Return how often each node imports which other one."""
    edges: dict[str, Counter[str]] = {}
    for name, module in house().items():
        found = edges.setdefault(node(name), Counter())
        found.update(
            node(each) for each in module.imports() if each in house() and node(each) != node(name)
        )
    return edges


def test_no_modules_import_each_other_in_a_circle() -> None:
    complain(turned_round(edges_of(lambda name: name)))


def test_no_packages_import_each_other_in_a_circle() -> None:
    complain(turned_round(edges_of(lambda name: house()[name].node)))


def test_a_circle_says_which_import_to_turn_round() -> None:
    edges = {
        "a": Counter({"b": 3}),
        "b": Counter({"c": 2}),
        "c": Counter({"a": 1}),
        "d": Counter({"a": 5}),
    }

    (complaint,) = turned_round(edges)

    assert complaint.startswith("a imports b imports c imports a. Instead: turn round the import ")
    assert "import of a in c (1 of them)" in complaint


def test_a_class_is_written_in_one_file() -> None:
    """No method is a function of another module, and no function is a method by another name."""
    complaints = []
    for module in house().values():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef):
                complaints += [
                    f"{module.name}: {node.name}.{ast.unparse(each.targets[0])} is assigned from "
                    f"{ast.unparse(each.value)}. Instead: write the method in the class."
                    for each in node.body
                    if isinstance(each, ast.Assign)
                    and isinstance(each.value, ast.Attribute)
                    and isinstance(each.value.value, ast.Name)
                    and each.value.value.id in imported_modules(module)
                ]
        if not is_in(module.name, ("journal", "kestrelpy.core")):
            continue
        for node in module.tree.body:
            kind = first_parameter(node) if isinstance(node, ast.FunctionDef) else ""
            if isinstance(node, ast.FunctionDef) and kind in HAVE_METHODS:
                complaints.append(
                    f"{module.name}.{node.name} takes a {kind} first. Instead: make it a method of "
                    f"{kind}, or of a smaller object that holds what it needs."
                )
    complain(complaints)


def imported_modules(module: Module) -> set[str]:
    """Return the names by which a module knows other modules of ours."""
    return {
        alias.asname or alias.name
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if f"{node.module}.{alias.name}" in house()
    }


def first_parameter(node: ast.FunctionDef) -> str:
    """Return the type of a function's first parameter, as it is written."""
    arguments = [*node.args.posonlyargs, *node.args.args]
    kind = arguments[0].annotation if arguments else None
    return ast.unparse(kind).strip("'\"") if kind is not None else ""


def test_packages_are_of_a_size_that_one_looks_through() -> None:
    complain(
        [
            f"{name} has {len(modules)} files (at most {PACKAGE_FILES_MAX}). Instead: find the two "
            "ideas in it, and give each a package; or say in LARGE_PACKAGES why not."
            for name, modules in packages().items()
            if len(modules) > PACKAGE_FILES_MAX and name not in LARGE_PACKAGES
        ]
    )


def test_a_public_class_has_a_name_of_its_own() -> None:
    """But a recipe is a program of its own, and shapes of answers are words of /openapi.json."""
    places: dict[str, list[str]] = {}
    for name, module in house().items():
        if name.startswith("kestrelpy.examples") or re.match(r"kestrelpy\.http\b.*\.models$", name):
            continue
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(name)
    complain([
        f"{name} is a class in {' and '.join(modules)}. Instead: say in each name what it is of."
        for name, modules in places.items()
        if len(modules) > 1
    ])  # fmt: skip


def test_files_and_functions_fit_in_a_head() -> None:
    complaints = []
    for module in house().values():
        path = str(module.path.relative_to(ROOT))
        if module.lines > FILE_LINES_MAX and path not in LONG_FILES:
            complaints.append(
                f"{path} has {module.lines} lines (at most {FILE_LINES_MAX}). Instead: find the "
                "second thing it does and give that a file."
            )
        for node in ast.walk(module.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                where = f"{path}:{node.name}"
                if length > FUNCTION_LINES_MAX and where not in LONG_FUNCTIONS:
                    complaints.append(
                        f"{where} has {length} lines (at most {FUNCTION_LINES_MAX}). Instead: "
                        "decisions up, leaves pure: name its steps."
                    )
    complain(complaints)


def test_exceptions_to_the_sizes_are_still_needed() -> None:
    complaints = [
        f"{path} fits again: take it out of LONG_FILES"
        for path in LONG_FILES
        if (ROOT / path).read_text().count("\n") <= FILE_LINES_MAX
    ]
    complain(complaints)


def test_every_module_has_tests_of_its_own_name_or_the_table_says_why_not() -> None:
    complain(tested_house.complaints(TESTED_BY, tested_house.modules(), tested_house.test_files()))


def test_every_class_says_what_may_be_left_of_it_when_nothing_is_under_way() -> None:
    tables = {"STAYS": MAY_HOLD, "NONE_LEFT": NONE_LEFT, "VALUES": VALUES}
    complain(rest_house.complaints(tables))


def test_what_may_be_left_is_there_and_has_one_reason() -> None:
    named = (MAY_HOLD, RETAINED, REMEMBERED, OTHERWISE, AT_MOST)
    complain([each for table in named for each in rest_house.strangers(table)])
    complain(
        [
            f"{name}.{attribute} may hold anything, and may not. Instead: say one of it"
            for name, attributes in (*OTHERWISE.items(), *AT_MOST.items())
            for attribute in attributes
            if attribute in MAY_HOLD.get(name, {})
        ]
    )


def test_every_state_that_is_entered_is_left_or_says_why_not() -> None:
    complain(states.complaints())


@pytest.mark.parametrize("mark", long_tests.TABLES)
def test_each_row_of_the_long_and_slow_tests_names_a_test_that_is_there(mark: str) -> None:
    table = long_tests.TABLES[mark].relative_to(ROOT)
    for file, tests in long_tests.rows(mark).items():
        path = ROOT / file
        assert path.is_file(), f"{file} is gone. Instead: rename it in {table}"
        there = re.findall(r"^(?:async )?def (test_\w+)\(", path.read_text(), re.MULTILINE)
        for name in tests.keys() - {long_tests.EVERY} - set(there):
            pytest.fail(f"{file} has no {name}. Instead: rename it in {table}")
