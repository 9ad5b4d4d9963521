"""A change of the sources of a copy is in the wheel that its tests run, and goes with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.compiled_copy import COMPILER, CompiledCopy
from tests.faults.planted import planted
from tests.faults.planted_faults import FAULTS
from tests.faults.runs import copied

PATH = "journal/write/group_commit.py"
TESTS = ["tests/unit/journal/write/test_group_commit.py"]


@pytest.mark.sweep
def test_tests_of_a_copy_see_its_sources_compiled_as_they_are(tmp_path: Path) -> None:
    """Four minutes."""
    copy = CompiledCopy(copied(tmp_path))
    fault = next(each for each in FAULTS if each.path == PATH)
    path = copy.root / PATH

    assert copy.failures(TESTS) == []
    with planted(copy.root, fault):
        (found,) = copy.failures(TESTS)
    assert found.startswith(TESTS[0])

    text = path.read_text()
    path.write_text("this: is = no Python\n")
    assert copy.failures(TESTS) == [COMPILER]
    path.write_text(text)
    assert copy.failures(TESTS) == []
