"""The list of modules without a test of their own name says what is there, and complains else."""

from __future__ import annotations

import pytest

from tests.support.tested_house import complaints, own_tests, reaches

PATCH = "journal.tools.patch"
PATCH_TEST = "tests/unit/journal/tools/test_patch.py"


@pytest.mark.parametrize(
    ("module", "file", "is_own"),
    [
        (PATCH, PATCH_TEST, True),
        (PATCH, "tests/unit/journal/tools/test_patch_small.py", True),
        (PATCH, "tests/unit/journal/tools/test_patches.py", False),
        (PATCH, "tests/unit/journal/test_patch.py", True),
        (PATCH, "tests/unit/journal/read/test_patch.py", False),
        (PATCH, "tests/unit/core/test_patch.py", False),
        ("kestrelpy.core.index.leases", "tests/unit/core/index/test_leases.py", True),
        ("kestrelpy.core.index.leases", "tests/unit/core/test_leases.py", True),
        ("kestrelpy.server.schedules", "tests/unit/core/test_schedules.py", False),
        ("kestrelpy.cli.work", "tests/process/cli/test_work.py", True),
        ("kestrelpy.client.item", "tests/process/cli/test_item.py", False),
        ("kestrelpy.errors", "tests/unit/test_errors.py", True),
        ("kestrelpy.cli.errors", "tests/unit/test_errors.py", False),
        ("kestrelpy.protocol.verbs.handoff", "tests/model/test_handoff_machine.py", True),
        ("kestrelpy.examples.handoff", "tests/model/test_handoff_machine.py", False),
    ],
)
def test_a_test_of_a_name_is_a_module_s_own_in_its_folder_or_above(
    module: str, file: str, is_own: bool
) -> None:
    assert own_tests(module, [file]) == [file][: int(is_own)]


def test_a_file_reaches_what_it_names_and_what_its_imports_import() -> None:
    assert reaches(PATCH_TEST, PATCH)
    assert reaches(PATCH_TEST, "journal.format.kinds")
    assert not reaches(PATCH_TEST, "kestrelpy.server.turn")


@pytest.mark.parametrize(
    ("table", "files", "words"),
    [
        ({}, [], "has no test file of its own name. Instead: write " + PATCH_TEST),
        ({PATCH: "tests/gone.py: why"}, [], "names tests/gone.py, which is not there"),
        ({PATCH: "tests/test_house.py"}, ["tests/test_house.py"], "has no reason"),
        ({PATCH: "tests/unit/test_cron.py: why"}, ["tests/unit/test_cron.py"],
         "neither imports it nor names anything in it"),
        ({PATCH: f"{PATCH_TEST}: why"}, [PATCH_TEST], "Instead: take the entry out"),
        ({PATCH: "tests/unit/journal/tools/test_repair.py: why", "journal.gone": "x: y"},
         ["tests/unit/journal/tools/test_repair.py"], "journal.gone in TESTED_BY"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_one_sentence_that_says_what_instead(
    table: dict[str, str], files: list[str], words: str
) -> None:
    (complaint,) = complaints(table, [PATCH], files)

    assert words in complaint
    assert "Instead: " in complaint


def test_a_test_of_its_own_or_an_entry_that_is_true_is_enough() -> None:
    other = "tests/unit/journal/tools/test_repair.py"
    assert complaints({}, [PATCH], [PATCH_TEST]) == []
    assert complaints({PATCH: f"{other}: it repairs with it"}, [PATCH], [other]) == []
