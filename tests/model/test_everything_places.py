"""Each setting and each verb has its place: the machine of everything draws it, or another test."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path

import pytest

from kestrelpy.config.settings import KNOWN
from tests.model.everything_places import (
    ASKED,
    CHANGES,
    NARROW,
    SCHEDULES_ELSEWHERE,
    SETTINGS_ELSEWHERE,
    VERBS_ELSEWHERE,
    met_by,
    narrow_settings,
    schedules_drawn,
    settings,
    settings_drawn,
    verbs,
)
from tests.support.named_tests import unknown

Elsewhere = Mapping[str, tuple[str, str]]
KINDS: dict[str, tuple[set[str], set[str], Elsewhere]] = {
    "setting of a queue": (settings(), settings_drawn(), SETTINGS_ELSEWHERE),
    "setting of a schedule": ({*KNOWN["schedules"]}, schedules_drawn(), SCHEDULES_ELSEWHERE),
    "verb": (verbs(), {*ASKED}, VERBS_ELSEWHERE),
}  # fmt: skip


def complaints(known: set[str], drawn: set[str], other_tests: Elsewhere) -> list[str]:
    """Return a sentence for each thing that has no place or two, and for each place without one."""
    found = [
        f"{each} is drawn by no machine. Instead: give it to a factor of everything_rows.py, or "
        "name the test that draws it in everything_places.py, with the reason"
        for each in sorted(known - drawn - {*other_tests})
    ]
    found += [f"{each} is drawn, and stands elsewhere" for each in sorted(drawn & {*other_tests})]
    found += [f"there is no {each}" for each in sorted((drawn | {*other_tests}) - known)]
    named = unknown(test for test, _ in other_tests.values())
    return found + [f"there is no test {each}" for each in named]


@pytest.mark.parametrize("kind", KINDS)
def test_each_of_a_kind_is_drawn_by_the_machine_or_by_a_named_test(kind: str) -> None:
    assert complaints(*KINDS[kind]) == []


def test_a_narrow_machine_is_measured_and_draws_what_there_is() -> None:
    for machine in NARROW:
        source = Path(inspect.getfile(machine)).read_text()
        assert f"measure({machine.__name__}, " in source, machine
        assert {*machine.weights} <= {*dir(machine)}, machine
    assert narrow_settings() <= settings() | {*KNOWN["schedules"]}


@pytest.mark.parametrize("change", CHANGES)
def test_each_change_is_met_by_its_machine(change: str) -> None:
    machine, name = CHANGES[change]
    assert name in met_by(machine)


def test_what_has_no_place_is_named_with_what_to_do() -> None:
    known, drawn, other_tests = KINDS["setting of a queue"]
    (found,) = complaints({*known, "max_moons"}, drawn, other_tests)
    assert found.startswith("max_moons is drawn by no machine. Instead: ")
    (found,) = complaints(known, drawn - {"dead_letter_age"}, other_tests)
    assert found.startswith("dead_letter_age is drawn by no machine")


def test_a_test_that_is_not_there_is_named() -> None:
    known, drawn, other_tests = KINDS["setting of a queue"]
    gone = {**other_tests, "sync_in_turn": ("tests/unit/test_cron.py::test_of_the_moon", "why not")}
    assert complaints(known, drawn, gone) == [
        "there is no test tests/unit/test_cron.py::test_of_the_moon"
    ]
