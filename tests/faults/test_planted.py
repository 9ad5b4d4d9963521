"""The list of planted faults fits the source, and planting leaves the source as it was."""

from __future__ import annotations

import tomllib
from collections import Counter
from pathlib import Path

import pytest

from tests.faults import planted as tool
from tests.faults.compiled_copy import COMPILER
from tests.faults.planted import (
    LISTS,
    NO_TEST,
    FaultList,
    NotPlanted,
    found_by,
    named_test,
    planted,
    report,
    rows_of,
    unfound,
)
from tests.faults.planted_faults import Fault
from tests.faults.runs import ROOT, SHORT, NotPassing, PureCopy, by_file, failed, failures

# Those that are compiled are planted ones.
EVERY = [fault for name in ("planted", "crossed") for fault in LISTS[name].faults]
ONE = Fault("one", "a.py", "x", "y", ("t",))
TWO = Fault("two", "b.py", "x", "y", ("t",))
each_list = pytest.mark.parametrize("listed", LISTS.values(), ids=LISTS)


@pytest.mark.parametrize("fault", EVERY, ids=lambda fault: str(fault.name))
def test_every_fault_can_be_planted_and_has_tests_to_find_it(fault: Fault) -> None:
    count = (ROOT / fault.path).read_text().count(fault.old)
    assert count == 1, "the source has changed, and so must the fault"
    assert fault.old != fault.new
    assert fault.tests
    assert all((ROOT / test).exists() for test in fault.tests)


def test_no_two_faults_have_one_name() -> None:
    assert len({fault.name for fault in EVERY}) == len(EVERY)


@pytest.mark.parametrize("name", ["planted", "crossed"])
def test_a_report_tells_of_every_fault(name: str) -> None:
    """Those that are compiled take an hour or more: a part at a time, with `--missing`."""
    listed = LISTS[name]
    told = rows_of(listed.report.read_text())

    wanted = [(fault.name, fault.path) for fault in listed.faults]
    assert [each for each in wanted if each not in told] == [], "run python -m tests.faults.planted"


def test_each_equivalent_mutant_is_of_a_file_has_a_reason_and_is_there_once() -> None:
    listed = tomllib.loads((ROOT / "tests/faults/equivalent_mutants.toml").read_text())
    rows = listed.pop("equivalent")
    assert not listed
    for row in rows:
        assert row.keys() == {"file", "old", "new", "reason"}
        assert (ROOT / row["file"]).is_file(), row["file"]
        assert row["reason"].strip()
        assert row["old"] != row["new"]
    places = Counter((row["file"], row["old"], row["new"]) for row in rows)
    assert not [place for place, count in places.items() if count > 1]


@each_list
def test_a_report_names_a_test_for_every_fault_that_is_not_known(listed: FaultList) -> None:
    assert unfound(listed.report.read_text()) == [], "write a test, or say in KNOWN why none can be"


@each_list
def test_a_report_names_tests_that_are_there(listed: FaultList) -> None:
    for (name, _), by in rows_of(listed.report.read_text()).items():
        if name in listed.known:
            assert by == found_by(Fault(name, "", "", "", ()), "", listed.known)
            continue
        if by == COMPILER:
            assert listed is LISTS["compiled"]
            continue
        test, _, file = by.removesuffix("`").rpartition("` in `")
        function = test.removeprefix("`").partition("[")[0]
        assert f"def {function}(" in (ROOT / file).read_text(), f"{name}: found by {by}"


@each_list
def test_what_is_known_is_in_the_list_and_has_a_reason(listed: FaultList) -> None:
    assert set(listed.known) <= {fault.name for fault in listed.faults}
    assert all(listed.known.values())


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_test_that_fails_without_the_fault_proves_nothing(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    source, test = tmp_path / "house.py", tmp_path / "tests" / "test_house.py"
    source.write_text("def doors():\n    return 2\n")
    test.write_text(
        "import house\n\ndef test_red():\n    assert False\n\n"
        "def test_doors():\n    assert house.doors() == 2\n"
    )
    faults = [
        Fault("a door is missing", "house.py", "return 2", "return 1", ("tests/test_house.py",)),
        Fault("two is 1 + 1", "house.py", "return 2", "return 1 + 1", ("tests/test_house.py",)),
    ]
    found: list[str] = []

    red = tool.run(PureCopy(tmp_path), faults, lambda _, by: found.append(by))

    assert found == ["tests/test_house.py::test_doors", ""]
    assert red == ["tests/test_house.py::test_red"]


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
    rows = {
        (ONE.name, ONE.path): found_by(ONE, "tests/t.py::test_it[a]", {}),
        (TWO.name, TWO.path): found_by(TWO, "", {}),
    }

    text = report([ONE, TWO], rows, [], "")

    assert "| one | `a.py` | `test_it[a]` in `tests/t.py` |" in text
    assert "| two | `b.py` | **no test** |" in text
    assert text.endswith("2 planted, 1 not found.\n")
    assert unfound(text) == ["two"]
    assert "because they failed without a fault: tests/t.py::test_x." in report(
        [], {}, ["tests/t.py::test_x"], ""
    )


def test_a_fault_that_is_known_is_shown_with_its_reason() -> None:
    by = found_by(TWO, "", {"two": "nobody can tell"})

    text = report([TWO], {("two", "b.py"): by}, [], "")

    assert "| two | `b.py` | no test, known: nobody can tell |" in text
    assert unfound(text) == []
    assert text.endswith("1 planted, 0 not found, 1 known that no test finds.\n")


@pytest.mark.parametrize(
    ("named", "found"),
    [("tests/test_house.py::test_last", "tests/test_house.py::test_last"),
     ("tests/test_house.py::test_walls", "tests/test_house.py::test_doors"),
     ("", "tests/test_house.py::test_doors")],
    ids=["it finds it again", "it finds it no more", "none"],
)  # fmt: skip
@pytest.mark.slow
def test_the_test_that_a_report_names_is_run_first(
    tmp_path: Path, named: str, found: str
) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "house.py").write_text("def doors():\n    return 2\n")
    (tmp_path / "tests" / "test_house.py").write_text(
        "import house\n\ndef test_walls():\n    assert house\n\n"
        "def test_doors():\n    assert house.doors() == 2\n\n"
        "def test_last():\n    assert house.doors() > 1\n"
    )
    faults = [Fault("a", "house.py", "return 2", "return 1", ("tests/test_house.py",))]
    told: list[str] = []

    tool.run(PureCopy(tmp_path), faults, lambda _, by: told.append(by), named=lambda _: named)

    assert told == [found]


@pytest.mark.slow
def test_a_named_test_that_a_short_run_leaves_out_does_not_count(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "house.py").write_text("def doors():\n    return 2\n")
    (tmp_path / "tests" / "test_house.py").write_text(
        "import house\nimport pytest\n\n@pytest.mark.long\n"
        "def test_last():\n    assert house.doors() > 1\n\n"
        "def test_doors():\n    assert house.doors() == 2\n"
    )
    fault = Fault("a", "house.py", "return 2", "return 1", ("tests/test_house.py",))
    found: list[str] = []

    tool.run(
        PureCopy(tmp_path), [fault], lambda _, by: found.append(by), SHORT,
        lambda _: "tests/test_house.py::test_last",
    )  # fmt: skip

    assert found == ["tests/test_house.py::test_doors"]


def test_a_cell_names_its_test_without_brackets() -> None:
    assert named_test("`test_it[a - b]` in `tests/t.py`") == "tests/t.py::test_it"
    assert named_test("`test_it` in `tests/t.py`") == "tests/t.py::test_it"
    assert named_test(NO_TEST) == named_test("no test, known: why") == ""


def test_a_report_that_is_read_again_is_the_same() -> None:
    rows = {("one", "a.py"): "`test_it[a - b]` in `tests/t.py`", ("two", "b.py"): NO_TEST}

    assert rows_of(report([ONE, TWO], rows, [], "")) == rows


def test_a_line_of_a_log_is_no_test() -> None:
    out = (
        "ERROR tests/log.py::test_printed - by the test itself\n"
        "ERROR    kestrelpy.background:read_back.py:252 item 1 cannot be read\n"
        "=== short test summary info ===\n"
        "ERROR    kestrelpy.background:read_back.py:252 item 1 cannot be read\n"
        "FAILED tests/unit/core/index/test_dead_letters.py::test_it[a] - assert 1 == 2\n"
        "ERROR tests/core/test_late.py - ImportError\n"
    )

    assert failed(out) == [
        "tests/unit/core/index/test_dead_letters.py::test_it[a]",
        "tests/core/test_late.py",
    ]


def test_files_are_run_as_they_are_first_named(tmp_path: Path) -> None:
    for name in ("test_a.py", "test_b.py", "help.py"):
        (tmp_path / "folder").mkdir(exist_ok=True)
        (tmp_path / "folder" / name).write_text("")

    tests = ("folder/test_b.py", "folder", "other.py::test_one")

    assert by_file(tmp_path, tests) == ["folder/test_b.py", "folder/test_a.py", tests[-1]]


@pytest.mark.parametrize(
    ("test", "known", "code"),
    [("tests/t.py::test_it", {}, 0), ("", {}, 1), ("", {"one": "why"}, 0),
     ("tests/t.py::test_it", {"one": "why"}, 1)],
    ids=["found", "not found", "known", "known, and found"],
)  # fmt: skip
def test_a_run_ends_with_1_where_a_fault_is_not_as_it_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, test: str, known: dict[str, str], code: int
) -> None:
    listed = FaultList([ONE], known, tmp_path / "REPORT.md", "")
    monkeypatch.setitem(LISTS, "planted", listed)
    monkeypatch.setattr(tool, "copied", lambda folder: folder)
    monkeypatch.setattr(tool, "run", lambda _root, faults, tell, *_: tell(faults[0], test) or [])

    assert tool.main([]) == code
    assert rows_of(listed.report.read_text()) == {("one", "a.py"): found_by(ONE, test, known)}


def test_a_short_run_leaves_the_report_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = FaultList([ONE, TWO], {}, tmp_path / "REPORT.md", "")
    listed.report.write_text("before")
    monkeypatch.setitem(LISTS, "planted", listed)
    monkeypatch.setattr(tool, "copied", lambda folder: folder)
    monkeypatch.setattr(tool, "run", lambda _root, faults, tell, *_: tell(faults[0], "t.py") or [])

    assert tool.main(["--short", "--sample", "1"]) == 0

    assert listed.report.read_text() == "before"
    assert "1 planted, 0 not found." in capsys.readouterr().out
