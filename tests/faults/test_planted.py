"""The list of planted faults fits the source, and planting leaves the source as it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.planted import REPORT, ROOT, NotPassing, NotPlanted, failures, planted, report
from tests.faults.planted_faults import FAULTS, Fault


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: str(fault.name))
def test_every_fault_can_be_planted_and_has_tests_to_find_it(fault: Fault) -> None:
    count = (ROOT / fault.path).read_text().count(fault.old)
    assert count == 1, "the source has changed, and so must the fault"
    assert fault.old != fault.new
    assert fault.tests
    assert all((ROOT / test).exists() for test in fault.tests)


def test_no_two_faults_have_one_name() -> None:
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)


def test_the_report_tells_of_every_fault() -> None:
    text = REPORT.read_text()

    rows = [f"| {fault.name} | `{fault.path}` |" for fault in FAULTS]
    assert [row for row in rows if row not in text] == [], "run python -m tests.faults.planted"


def test_a_planted_fault_is_found_and_gone_afterwards(tmp_path: Path) -> None:
    source, test = tmp_path / "house.py", tmp_path / "test_house.py"
    source.write_text("def doors():\n    return 2\n")
    test.write_text("import house\n\ndef test_doors():\n    assert house.doors() == 2\n")
    fault = Fault("a door is missing", "house.py", "return 2", "return 1", ("test_house.py",))

    assert failures(tmp_path, fault.tests) == []
    with planted(tmp_path, fault):
        assert failures(tmp_path, fault.tests) == ["test_house.py::test_doors"]
        with pytest.raises(NotPassing, match="pytest ended with 5"):
            failures(tmp_path, fault.tests, left_out=["test_house.py::test_doors"])

    assert source.read_text() == "def doors():\n    return 2\n"


@pytest.mark.parametrize("text", ["no such line", "twice twice"])
def test_a_fault_whose_text_does_not_stand_there_once_is_refused(
    tmp_path: Path, text: str
) -> None:
    (tmp_path / "a.py").write_text(text)

    with (
        pytest.raises(NotPlanted, match=r"a\.py: the text to replace stands there [02] times"),
        planted(tmp_path, Fault("f", "a.py", "twice", "once", ("t",))),
    ):
        raise AssertionError("it was planted")
    assert (tmp_path / "a.py").read_text() == text


def test_a_fault_that_nobody_finds_stands_out() -> None:
    faults = [Fault("one", "a.py", "x", "y", ("t",)), Fault("two", "b.py", "x", "y", ("t",))]

    text = report([(faults[0], "tests/t.py::test_it[a]"), (faults[1], "")])

    assert "| one | `a.py` | `test_it[a]` in `tests/t.py` |" in text
    assert "| two | `b.py` | **no test** |" in text
    assert text.endswith("2 planted, 1 not found.\n")
    assert "because they failed without a fault: tests/t.py::test_x." in report(
        [], ["tests/t.py::test_x"]
    )
