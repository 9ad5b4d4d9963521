"""The promises of docs/guarantees.md, and the tests that are evidence for each.

A test file says in its docstring (a transcript in its first comment) which promises it holds, and
under which faults:

    Promise stored: kill of the real process under load.
    Promises: order, waiters.

`python -m tests.support.promises` writes docs/evidence.md from these lines.

One rule: every promise has a test that names it, and a test names only promises of that page.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
GUARANTEES: Final = ROOT / "docs" / "guarantees.md"
EVIDENCE: Final = ROOT / "docs" / "evidence.md"
_SECTION_OR_PROMISE: Final = re.compile(r"(?m)^## (.+)$|^- \*\*([a-z-]+)\*\* — ")
_LINE: Final = re.compile(r"Promise ([a-z-]+): (.+)|Promises?:? ([a-z, -]+)\.")
_INTRODUCTION: Final = """\
# Evidence

For each promise of the [guarantees](guarantees.md): the faults under which it was tested, and the
tests that hold it. The tests say so themselves: `python -m tests.support.promises` makes this page.
Where no fault is named, the tests ask for the promise itself.
"""
_ENDING: Final = """
## Would the tests notice a fault?

Other tests try whether these tests would notice a fault. `tests/faults/PLANTED.md` lists faults
that were put into the source one at a time, and the test that found each, `tests/faults/CROSSED.md`
those that cross two features or forget a release, `tests/faults/SUBTLE.md` those that a good
engineer makes. `python -m tests.faults.planted [--list crossed]` plants them again. `make mutants
N=300 SEED=1` makes random small changes, and lists those that no test noticed. The same seed draws
the same ones, and an interrupted run continues where it stopped.
`tests/faults/equivalent_mutants.toml` lists mutants that behave like the original, each with the
reason.
"""


@dataclass
class Evidence:
    """The evidence for one promise: the faults under which it was tested, and the test files."""

    faults: list[str] = field(default_factory=list)
    tests: list[str] = field(default_factory=list)


def promised() -> dict[str, list[str]]:
    """Return the names of the promises by section, in the order of the guarantees."""
    found = dict[str, list[str]]()
    section = ""
    for match in _SECTION_OR_PROMISE.finditer(GUARANTEES.read_text()):
        if match[1]:
            section = match[1]
        else:
            found.setdefault(section, []).append(match[2])
    return found


def evidence() -> dict[str, Evidence]:
    """Return the evidence for each promise that a test names."""
    found = dict[str, Evidence]()
    for path in sorted([*ROOT.glob("tests/**/test_*.py"), *ROOT.glob("tests/scenario/*.txt")]):
        name = path.relative_to(ROOT).as_posix()
        for promise, faults in named_in(_head(path)):
            of = found.setdefault(promise, Evidence())
            of.tests.append(name)
            if faults:
                of.faults.append(faults)
    return found


def named_in(head: str) -> Iterator[tuple[str, str]]:
    """Yield each promise that the head of a file names, with its faults ("": none said).

    Raise ValueError for a line that begins like one of these and is none.
    """
    for entry in re.sub(r"\n {4,}(?=\S)", " ", head).splitlines():
        if not re.match(r"Promises?\b", entry):
            continue
        found = _LINE.fullmatch(entry)
        if found is None:
            raise ValueError(f"not a line about a promise: {entry}")
        if found[1]:
            yield found[1], found[2].removesuffix(".")
        else:
            yield from ((each.strip(), "") for each in found[3].split(","))


def page() -> str:
    """Return docs/evidence.md as it has to be."""
    known, parts = evidence(), [_INTRODUCTION]
    for section, names in promised().items():
        parts += [f"\n## {section}\n", "| promise | faults | tests |", "|---|---|---|"]
        for name in names:
            of = known.get(name, Evidence())
            tests = ", ".join(f"`{each}`" for each in of.tests)
            parts.append(f"| {name} | {'; '.join(of.faults)} | {tests} |")
    return "\n".join([*parts, _ENDING])


def _head(path: Path) -> str:
    text = path.read_text()
    if path.suffix == ".py":
        return ast.get_docstring(ast.parse(text)) or ""
    comment = text.partition("\n\n")[0].splitlines()
    return "\n".join(line.removeprefix("#").removeprefix(" ") for line in comment)


if __name__ == "__main__":
    EVIDENCE.write_text(page())
