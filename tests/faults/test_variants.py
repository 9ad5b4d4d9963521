"""Each variant of a rule has a test, and the test is there."""

from __future__ import annotations

from itertools import product

import pytest

from tests.faults.variants import NONE, RULES, VARIANTS, Rule
from tests.support.named_tests import unknown


def complaints(rule: str, cells: Rule) -> list[str]:
    """One sentence for each variant without a test, and for each test that is not there."""
    every = set(product(*VARIANTS[rule]))
    found = [
        f"{rule}: no test covers {', '.join(cell)}. Instead: name one in tests/faults/variants.py, "
        f'or say "{NONE}" and why there is no such variant'
        for cell in sorted(every - {*cells})
    ]
    found += [f"{rule}: {', '.join(cell)} is no variant" for cell in sorted({*cells} - every)]
    named = [each for each in cells.values() if not each.startswith(NONE)]
    found += [f"{rule}: there is no test {each}" for each in unknown(named)]
    found += [f"{rule}: {cell} says no reason" for cell, each in cells.items() if each == NONE]
    return found


@pytest.mark.parametrize("rule", VARIANTS)
def test_each_variant_of_a_rule_has_its_test(rule: str) -> None:
    assert complaints(rule, RULES[rule]) == []


def test_no_rule_stands_without_its_variants() -> None:
    assert RULES.keys() == VARIANTS.keys()


def test_an_empty_cell_is_named_with_what_to_do() -> None:
    rule = next(iter(RULES))
    cell = next(iter(RULES[rule]))
    (found,) = complaints(rule, {key: each for key, each in RULES[rule].items() if key != cell})
    assert found.startswith(f"{rule}: no test covers {', '.join(cell)}. Instead: ")


def test_a_test_that_is_not_there_is_named() -> None:
    rule = next(iter(RULES))
    cell = next(iter(RULES[rule]))
    gone = "tests/faults/test_variants.py::test_of_the_moon"
    assert complaints(rule, RULES[rule] | {cell: gone}) == [f"{rule}: there is no test {gone}"]
    other = "tests/scenario/keys.txt::of the moon"
    assert complaints(rule, RULES[rule] | {cell: other}) == [f"{rule}: there is no test {other}"]
