"""Which synchronous standbys keep a primary that was replaced from going on."""

from __future__ import annotations

import pytest

from journal.engine.postgres.settings import SCHEMA_VERSION, why_not_fenced, why_other_tables


@pytest.mark.parametrize(
    "names", ["n2", '"n-2"', "1 (n2)", "FIRST 1 (n2)", "ANY 2 (n2, n3)", "2 (n2,n3)", "any 1 (n2)"]
)
def test_a_primary_that_waits_for_each_named_standby_is_fenced(names: str) -> None:
    assert why_not_fenced(names) == ""


@pytest.mark.parametrize(
    ("names", "remedy"),
    [
        ("ANY 1 (n2, n3)", "ANY 2 (n2, n3) waits for each"),
        ("FIRST 1 (n2, n3)", "ANY 2 (n2, n3) waits for each"),
        ("n2, n3", "ANY 2 (n2, n3) waits for each"),
        ('any 2 ("n-2","n 3",n4)', 'ANY 3 ("n-2", "n 3", n4) waits for each'),
        ("*", "name each standby"),
        ("ANY 1 (*)", "name each standby"),
    ],
)
def test_a_primary_that_may_choose_another_standby_is_not(names: str, remedy: str) -> None:
    said = why_not_fenced(names)

    assert said.startswith(f"synchronous_standby_names is {names}: ")
    assert remedy in said


def test_tables_of_another_version_are_named_with_the_remedy() -> None:
    assert why_other_tables(SCHEMA_VERSION) == ""
    for version in (None, SCHEMA_VERSION - 1):
        assert "kestrelpy fleet init" in why_other_tables(version)
    assert "install the newer kestrelpy" in why_other_tables(SCHEMA_VERSION + 1)
