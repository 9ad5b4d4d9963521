"""Which test file is a module's own, and what is wrong with the table of the modules without one.

    journal.tools.patch     tests/unit/journal/tools/test_patch.py, or test_patch_*.py
    kestrelpy.cli.work      tests/process/cli/test_work.py: a folder of the package's name
    kestrelpy.server.turn   tests/process/kill/test_turn.py, if it imports the module
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
ROOMS: Final = ("journal", "kestrelpy", "pyspark_kestrel")
TABLE: Final = "TESTED_BY in tests/support/tested_by.py"


def modules() -> list[str]:
    """Return the modules of the house, without packages and what only starts one."""
    return [
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for room in ROOMS
        for path in sorted((ROOT / room).rglob("*.py"))
        if not path.stem.startswith("_")
    ]


@cache
def test_files() -> tuple[str, ...]:
    """Return the test files of the house, as their paths below its root."""
    found = (ROOT / "tests").rglob("test_*.py")
    return tuple(sorted(path.relative_to(ROOT).as_posix() for path in found))


def own_tests(module: str, files: Iterable[str]) -> list[str]:
    """Return the test files of this module's name: test_<name>.py and test_<name>_*.py.

    A file in tests/unit counts for its folder's package and for the packages in that; elsewhere a
    folder of a package's name does the same. Any other file has to reach the module.
    """
    *package, name = module.split(".")
    if package[:1] == ["kestrelpy"]:
        del package[0]
    found = []
    for file in files:
        word = Path(file).stem.removeprefix("test_")
        if word != name and not word.startswith(name + "_"):
            continue
        kind, *folders = Path(file).parts[1:-1] or ("",)
        is_bound = kind == "unit" or (ROOT / "kestrelpy" / "/".join(folders[:1])).is_dir()
        if is_bound and folders:
            is_own = folders == package[: len(folders)]
        else:
            is_own = (is_bound and not package) or reaches(file, module)
        if is_own:
            found.append(file)
    return found


def reaches(file: str, module: str) -> bool:
    """True if a test file names this module or something public in it, or imports it, maybe by way
    of other modules.
    """
    text = (ROOT / file).read_text()
    names = [re.escape(name) for name in (module, *_public(module))]
    if re.search(rf"\b({'|'.join(names)})\b|\"{module.rpartition('.')[2]}\"", text):
        return True
    return module in _imported(file.removesuffix(".py").replace("/", "."))


def _public(module: str) -> Iterator[str]:
    for node in ast.parse(_path(module).read_text()).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name[0] != "_":
            yield node.name


def _path(module: str) -> Path:
    plain = ROOT / module.replace(".", "/")
    return plain / "__init__.py" if plain.is_dir() else plain.with_suffix(".py")


@cache
def _imports(module: str) -> frozenset[str]:
    """Return what a module imports of the house and of its tests, itself."""
    found = set()
    for node in ast.walk(ast.parse(_path(module).read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.update({node.module, *(f"{node.module}.{each.name}" for each in node.names)})
    top = {*ROOMS, "tests"}
    return frozenset(
        each for each in found if each.partition(".")[0] in top and _path(each).exists()
    )


@cache
def _imported(module: str) -> frozenset[str]:
    """Return all that is imported where this module is, of the house and of its tests."""
    seen: set[str] = set()
    left = [module]
    while left:
        new = _imports(left.pop()) - seen
        seen |= new
        left += new
    return frozenset(seen)


def complaints(table: Mapping[str, str], names: Iterable[str], files: Iterable[str]) -> list[str]:
    """Return what is wrong: modules without a test and without an entry, and entries that lie."""
    names, files = list(names), list(files)
    found = [
        f"{module} has no test file of its own name. Instead: write {_place(module)}, or name in "
        f"{TABLE} the file that tests it, with the reason"
        for module in names
        if module not in table and not own_tests(module, files)
    ]
    for module, entry in table.items():
        file, _, why = entry.partition(": ")
        own = own_tests(module, files) if module in names else []
        if module not in names:
            wrong = "is no module of the house. Instead: take the entry out"
        elif own:
            wrong = f"has {own[0]} of its own name. Instead: take the entry out"
        elif not why:
            wrong = "has no reason. Instead: write 'tests/path/test_file.py: the reason'"
        elif file not in files:
            wrong = f"names {file}, which is not there. Instead: name the file that tests it now"
        elif not reaches(file, module):
            wrong = (
                f"names {file}, which neither imports it nor names anything in it. Instead: name a "
                "file that does"
            )
        else:
            continue
        found.append(f"{module} in {TABLE} {wrong}")
    return found


def _place(module: str) -> str:
    package, _, name = module.removeprefix("kestrelpy.").rpartition(".")
    return "/".join(["tests/unit", *filter(None, package.split(".")), f"test_{name}.py"])
