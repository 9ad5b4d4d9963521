"""The cases of long tests that `make test` leaves out, and the slow tests.

`tests/long_tests.toml` has the first. `tests/slow_tests.toml` has the second, which make test-fast
leaves out; both are written alike:

    [ "tests/simulation/test_simulation.py" ]
    test_every_promise_holds = 1                one of its cases; 0: none
    [ "tests/unit/spark/test_connect.py" ]
    "*" = 0                                       no test of the file

    python -m tests.support.long_tests JUNIT      rows for long tests without one, from the times
                                                  of a whole run (pytest --junit-xml=JUNIT)

One rule: the tables give the marks `long` and `slow`, and take nothing away: `make test-all` runs
every case.
"""

from __future__ import annotations

import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

import pytest

ROOT: Final = Path(__file__).parents[2]
# By the mark that their cases get.
TABLES: Final = {
    "long": ROOT / "tests/long_tests.toml", "slow": ROOT / "tests/slow_tests.toml"
}  # fmt: skip
EVERY: Final = "*"  # the row of a file for each test that has no row of its own
# A test that takes longer, all its cases together, gets a row.
LONG_SECONDS: Final = 4.0
# `make test` runs one of this number of examples of a state machine.
EXAMPLES_SHARE: Final = 8
_GOLDEN: Final = (5**0.5 - 1) / 2

_SHORT: list[bool] = []  # not empty: this run leaves long tests out


def is_short(expression: str) -> bool:
    """True if this expression of `-m` leaves long tests out."""
    return "not long" in expression


def begin(expression: str) -> None:
    """Note whether the run with this `-m` is short, before any test is imported."""
    _SHORT[:] = [True] if is_short(expression) else []


def share_of(number: int) -> int:
    """Return how many of this number of examples a state machine runs in this run."""
    return -(-number // EXAMPLES_SHARE) if _SHORT else number


def rows(mark: str = "long") -> dict[str, dict[str, int]]:
    """Return by file how many cases of its tests do not get this mark."""
    return tomllib.loads(TABLES[mark].read_text())


def chosen_cases(count: int, of: int) -> set[int]:
    """Return which of these cases `make test` runs: `count` of them, spread over the list.

    Where the list is a product (of writers and of moments), every second case would meet one writer
    alone; a step by the golden section meets all.
    """
    return set(sorted(range(of), key=lambda number: number * _GOLDEN % 1)[:count])


def mark_all(items: Iterable[pytest.Item]) -> None:
    """Mark what the tables leave out. Cases of `make soak` and `make sweep` do not count."""
    cases: dict[tuple[str, str], list[pytest.Item]] = defaultdict(list)
    for item in items:
        file, _, name = item.nodeid.partition("::")
        if not any(item.get_closest_marker(each) for each in ("soak", "sweep")):
            cases[file, name.partition("[")[0]].append(item)
    for mark in TABLES:
        table = rows(mark)
        for (file, name), alike in cases.items():
            of_file = table.get(file, {})
            count = of_file.get(name, of_file.get(EVERY, len(alike)))
            chosen = chosen_cases(count, len(alike))
            for number, item in enumerate(alike):
                if number not in chosen:
                    item.add_marker(mark)


def times(junit: Path) -> dict[tuple[str, str], list[float]]:
    """Return by file and name the seconds of each case of a run."""
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    for case in ElementTree.parse(junit).getroot().iter("testcase"):
        file = case.attrib["classname"].replace(".", "/") + ".py"
        name = case.attrib["name"].partition("[")[0]
        found[file, name].append(float(case.attrib["time"]))
    return found


def missing(
    ran: Mapping[tuple[str, str], Sequence[float]], table: Mapping[str, Mapping[str, int]]
) -> dict[str, dict[str, int]]:
    """Return rows for the long tests that have none: as many cases as take LONG_SECONDS."""
    found: dict[str, dict[str, int]] = defaultdict(dict)
    for (file, name), seconds in sorted(ran.items()):
        whole = sum(seconds)
        if whole > LONG_SECONDS and not {name, EVERY} & set(table.get(file, {})):
            found[file][name] = int(LONG_SECONDS * len(seconds) / whole)
    return found


def lines(table: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    """Yield the table as it stands in the file."""
    for file, tests in sorted(table.items()):
        yield f'["{file}"]'
        for name, count in sorted(tests.items()):
            yield f'"{name}" = {count}' if name == EVERY else f"{name} = {count}"


if __name__ == "__main__":
    print("\n".join(lines(missing(times(Path(sys.argv[1])), rows()))))
