"""Mutants are drawn the same each time, tried with their module's tests, and not tried twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults import mutants
from tests.faults.mutants import (
    LIVES,
    ROOT,
    SUBTLE_ROOMS,
    SURVIVED,
    Book,
    Mutant,
    Result,
    report,
    runs_of,
    sample,
    sources,
)

changes = pytest.importorskip(
    "tests.faults.mutations", reason="make mutants brings cosmic-ray", exc_type=ImportError
)

HOUSE = '''
from __future__ import annotations
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from rooms import Room
DOORS: int | str = 64
log = print

class House:
    def close(self, count: int = 2) -> int | None:
        assert count > 0
        self.room.release(count)
        log.warning("%d", 1 + 2)
        if count < self.most and not self.shut:
            self.left -= 1
        return self.left + count
'''
TEXTS = {"journal/house.py": HOUSE, "journal/other.py": HOUSE.replace("count", "number")}


def changes_of(found: list[Mutant]) -> list[tuple[str, str, str]]:
    return [(each.path, each.old, each.new) for each in found]


def changed_lines(text: str) -> set[str]:
    """The lines that a mutant may be made of."""
    found = changes.mutations("journal/house.py", text)
    return {text.splitlines()[each.line - 1].strip() for each in found}


def test_the_same_seed_draws_the_same_mutants_and_another_one_others() -> None:
    first = sample(TEXTS, 8, 1, {}, changes)

    assert changes_of(sample(TEXTS, 8, 1, {}, changes)) == changes_of(first)
    assert changes_of(sample(TEXTS, 8, 2, {}, changes)) != changes_of(first)


def test_a_larger_sample_begins_with_the_smaller_one() -> None:
    four = changes_of(sample(TEXTS, 4, 1, {}, changes))
    assert changes_of(sample(TEXTS, 9, 1, {}, changes))[:4] == four


def test_lines_that_move_leave_the_sequence_as_it_is() -> None:
    moved = {path: "\n\nA = 1\n" + text for path, text in TEXTS.items()}

    later = [each for each in changes_of(sample(moved, 99, 1, {}, changes)) if each[1] != "A = 1"]

    assert later == changes_of(sample(TEXTS, 99, 1, {}, changes))


def test_a_sample_is_drawn_over_all_modules_and_no_place_comes_twice() -> None:
    found = sample(TEXTS, 99, 1, {}, changes)

    assert {each.path for each in found} == set(TEXTS)
    assert len({each.id for each in found}) == len(found)
    assert all(each.text != TEXTS[each.path] for each in found)


def test_what_no_test_can_notice_is_left_out() -> None:
    assert changed_lines(HOUSE) == {
        "def close(self, count: int = 2) -> int | None:",
        "self.room.release(count)",
        "if count < self.most and not self.shut:",
        "self.left -= 1",
        "return self.left + count",
    }


def test_a_mutant_says_what_was_and_what_is() -> None:
    found = changes_of(sample({"journal/house.py": HOUSE}, 99, 1, {}, changes))

    assert ("journal/house.py", "self.room.release(count)", "pass") in found
    assert {old for _, old, _ in found} == changed_lines(HOUSE)


def test_a_call_that_is_left_out_leaves_a_program() -> None:
    text = "async def f(a):\n    await a.b()\n    del a[0]\n    a.c += 1; a.d()\n    return a\n"

    found = {(each.old, each.new) for each in sample({"journal/f.py": text}, 99, 1, {}, changes)}

    assert ("await a.b()", "pass") in found
    assert ("del a[0]", "pass") in found
    assert ("a.c += 1; a.d()", "pass; a.d()") in found


def test_a_mutant_listed_as_equivalent_makes_way_for_the_next() -> None:
    first, second, third = sample(TEXTS, 3, 1, {}, changes)
    judged = {(second.path, second.old, second.new): "it is the same"}

    found = sample(TEXTS, 2, 1, judged, changes)

    assert changes_of(found) == changes_of([first, third])


def test_the_tests_of_a_module_are_those_of_its_name_and_folder_first() -> None:
    runs = runs_of(ROOT, "kestrelpy/core/index/leases.py")

    assert runs.first[0] == "tests/unit/core/index/test_leases.py"
    assert all(each.startswith("tests/unit/core/") for each in runs.first)
    assert "tests/unit/core/index/test_token_range.py" in runs.then
    assert runs.then[-len(LIVES) :] == list(LIVES)
    assert not set(runs.first) & set(runs.then)


@pytest.mark.parametrize("path", sources(rooms=SUBTLE_ROOMS))
def test_every_module_has_tests_to_be_tried_with(path: str) -> None:
    runs = runs_of(ROOT, path)

    every = [each.partition("::")[0] for each in (*runs.first, *runs.then)]
    assert all((ROOT / each).is_file() for each in every)
    assert any(each.startswith(mutants.folder_of(path)) for each in every)


def test_a_second_run_goes_on_and_tries_undetected_mutants_only_when_asked(tmp_path: Path) -> None:
    done, alive, new = sample(TEXTS, 3, 1, {}, changes)
    book = Book(tmp_path / "results" / "mutants.jsonl")
    book.add(Result(done.id, done.path, done.line, done.old, done.new, "tests/t.py::test_it", 1.0))
    book.add(Result(alive.id, alive.path, alive.line, alive.old, alive.new, SURVIVED, 3.0))

    again = Book(tmp_path / "results" / "mutants.jsonl")

    assert again.open([done, alive, new], again=False) == [new]
    assert again.open([done, alive, new], again=True) == [alive, new]


def test_the_report_lists_undetected_mutants_with_what_was_and_what_is() -> None:
    results = [
        Result("1", "journal/b.py", 7, "if a < b:", "if a <= b:", SURVIVED, 3.0),
        Result("2", "journal/a.py", 9, "x", "y", "tests/t.py::test_it", 1.0),
    ]

    assert report(results) == (
        "journal/b.py:7\n  - if a < b:\n  + if a <= b:\n\n"
        "2 mutants, 1 survived, 0 never ended; 2.0 s each"
    )
