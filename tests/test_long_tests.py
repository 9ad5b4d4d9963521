"""`make test` leaves cases of long tests out as its table says."""

from __future__ import annotations

from typing import cast

import pytest

from tests.support import long_tests
from tests.support.long_tests import EVERY, chosen_cases, lines, mark_all, missing, share_of

SLOW = {"tests/test_slow.py": {"test_one": 0}}


class Case:
    """The part of a collected case that the marking asks for, and the marks that it was given."""

    def __init__(self, nodeid: str, *marks: str) -> None:
        self.nodeid = nodeid
        self.marks = list(marks)

    def get_closest_marker(self, name: str) -> str | None:
        return name if name in self.marks else None

    def add_marker(self, name: str) -> None:
        self.marks.append(name)


def left_out(*cases: Case) -> list[str]:
    """Return the cases that get the mark."""
    mark_all(cast(list[pytest.Item], cases))
    return [case.nodeid.partition("::")[2] for case in cases if "long" in case.marks]


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[str, int]]:
    made: dict[str, dict[str, int]] = {}
    monkeypatch.setattr(long_tests, "rows", lambda mark: made if mark == "long" else SLOW)
    return made


@pytest.mark.parametrize(
    ("count", "of", "which"),
    [
        (0, 0, set()), (0, 5, set()), (1, 5, {0}), (2, 4, {0, 2}), (3, 10, {0, 2, 5}),
        (9, 3, {0, 1, 2}),
    ],
)
def test_the_cases_that_stay_are_spread(count: int, of: int, which: set[int]) -> None:
    assert chosen_cases(count, of) == which


@pytest.mark.parametrize(("outer", "inner"), [(8, 2), (5, 4), (30, 3), (2, 8), (20, 5)])
def test_of_a_product_each_value_stays_somewhere(outer: int, inner: int) -> None:
    chosen = chosen_cases(2 * max(outer, inner), outer * inner)

    assert {number // inner for number in chosen} == set(range(outer))
    assert {number % inner for number in chosen} == set(range(inner))


def test_a_test_without_a_row_is_whole(table: dict[str, dict[str, int]]) -> None:
    table["tests/test_a.py"] = {"test_one": 0}

    assert left_out(Case("tests/test_a.py::test_two"), Case("tests/test_b.py::test_one")) == []


def test_a_row_leaves_its_number_of_cases(table: dict[str, dict[str, int]]) -> None:
    table["tests/test_a.py"] = {"test_one": 1}
    cases = [Case(f"tests/test_a.py::test_one[{each}]") for each in "abc"]

    assert left_out(*cases) == ["test_one[b]", "test_one[c]"]


def test_the_row_of_a_file_is_for_tests_without_one(table: dict[str, dict[str, int]]) -> None:
    table["tests/test_a.py"] = {EVERY: 0, "test_one": 1}

    assert left_out(Case("tests/test_a.py::test_one"), Case("tests/test_a.py::test_two")) == [
        "test_two"
    ]


def test_a_slow_test_gets_a_mark_of_its_own(table: dict[str, dict[str, int]]) -> None:
    slow, quick = Case("tests/test_slow.py::test_one"), Case("tests/test_slow.py::test_two")

    assert left_out(slow, quick) == []
    assert (slow.marks, quick.marks) == (["slow"], [])


@pytest.mark.parametrize("mark", ["soak", "sweep"])
def test_a_case_that_make_test_never_runs_does_not_count(
    table: dict[str, dict[str, int]], mark: str
) -> None:
    table["tests/test_a.py"] = {"test_one": 1}
    other = Case("tests/test_a.py::test_one[other]", mark)

    assert left_out(other, Case("tests/test_a.py::test_one[mine]")) == []


@pytest.mark.parametrize(
    ("expression", "examples"),
    [("not long and not soak and not sweep", 3), ("not soak and not sweep", 20), ("", 20)],
)
def test_a_state_machine_runs_a_share_of_its_examples_in_a_short_run(
    monkeypatch: pytest.MonkeyPatch, expression: str, examples: int
) -> None:
    monkeypatch.setattr(long_tests, "_SHORT", [])

    long_tests.begin(expression)

    assert share_of(20) == examples


def test_a_long_test_without_a_row_gets_as_many_cases_as_there_is_time_for() -> None:
    ran = {
        ("tests/test_a.py", "test_many"): [1.0] * 8, ("tests/test_a.py", "test_one"): [9.0],
        ("tests/test_a.py", "test_known"): [9.0], ("tests/test_b.py", "test_short"): [0.1] * 9,
    }  # fmt: skip

    found = missing(ran, {"tests/test_a.py": {"test_known": 1}})

    assert list(lines(found)) == ['["tests/test_a.py"]', "test_many = 4", "test_one = 0"]
