"""The tables of docs/clients.md, between marker comments: made of what a run has shown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from tests.process.clients.libraries import LIBRARIES, VALUES, WORKS, Library
from tests.process.clients.programs import ROOT
from tests.process.clients.steps import CASES

PAGE: Final = ROOT / "docs" / "clients.md"
Results = dict[str, dict[str, str]]  # of each library's cases

_WORK_HEAD: Final = (
    "| client | version | what works | after `CLIENT_ERROR` | after `SERVER_ERROR` | what to set |"
)
_VALUE_HEAD: Final = "| client | short text | whole number | list | text of 100,000 bytes |"


def work_row(library: Library, version: str, results: Mapping[str, str]) -> str:
    """Return the row of a library in the first table."""
    if library.instead:
        return f"| {library.name} | {version} | {library.instead} | | | {library.set_up} |"
    other = [f"{case}: {results[case]}" for case in CASES if results[case] != WORKS]
    what = f"all but {'; '.join(other)}" if other else "all"
    errors = f"{results['CLIENT_ERROR']} | {results['SERVER_ERROR']}"
    return f"| {library.name} | {version} | {what} | {errors} | {library.set_up} |"


def value_row(library: Library, results: Mapping[str, str]) -> str:
    """Return the row of a library in the second table."""
    return f"| {library.name} | {' | '.join(results[kind] for kind in VALUES)} |"


def expected(library: Library) -> dict[str, str]:
    """Return the results that the list of libraries names."""
    return {case: library.expected(case) for case in library.cases()}


def rows_of(text: str, name: str) -> list[str]:
    """Return the rows of a table, without its head."""
    between = text.partition(f"<!-- {name}: begin -->")[2].partition(f"<!-- {name}: end -->")[0]
    return between.strip().splitlines()[2:]


def version_of(text: str, library: Library) -> str:
    """Return the version that the page names for a library."""
    rows = [row for row in rows_of(text, "clients") if row.startswith(f"| {library.name} |")]
    return rows[0].split(" | ")[1] if rows else "not run"


def replaced(text: str, name: str, head: str, rows: Iterable[str]) -> str:
    """Return the page with another table between the markers of this name."""
    line = re.sub(r"[^|]+", "---", head)
    table = "\n".join([head, line, *rows])
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, rest = text.split(begin)
    return f"{before}{begin}\n{table}\n{end}{rest.split(end)[1]}"


def write(results: Results) -> None:
    """Write both tables; a library that did not run in full keeps the version of its last run."""
    text = PAGE.read_text()
    work, values = [], []
    for library in LIBRARIES:
        found = results.get(library.name, {})
        is_whole = library.name in results and all(case in found for case in library.cases())
        shown = found if is_whole else expected(library)
        version = library.program.version() if is_whole else version_of(text, library)
        work.append(work_row(library, version, shown))
        if not library.instead:
            values.append(value_row(library, shown))
    text = replaced(text, "clients", _WORK_HEAD, work)
    PAGE.write_text(replaced(text, "values", _VALUE_HEAD, values))
