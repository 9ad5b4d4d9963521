"""tests/support/files_together.py: a process that ends costs one test, not the whole run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

CONFTEST = """
from tests.support.files_together import FilesTogether

def pytest_xdist_make_scheduler(config, log):
    return FilesTogether(config, log)
"""
DONE_THEN_CRASHES = """
import os

def test_done(): pass
def test_ends_its_process(): os._exit(1)
def test_behind(): pass
"""


def test_a_process_that_ends_costs_its_test_and_no_other(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    for number in range(6):  # files that each process has done before
        (tmp_path / f"test_a{number}.py").write_text("def test_one(): pass\ndef test_two(): pass\n")
    (tmp_path / "test_b.py").write_text(DONE_THEN_CRASHES)
    (tmp_path / "test_c.py").write_text("def test_one(): pass\ndef test_two(): pass\n")

    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "2", "--no-loadscope-reorder", "-p",
         "no:cacheprovider", str(tmp_path)],
        capture_output=True, text=True, check=False, timeout=120,
        env={**os.environ, "PYTHONPATH": os.getcwd()},
    )  # fmt: skip

    assert "1 failed, 16 passed" in ran.stdout, ran.stdout
    assert "crashed while running 'test_b.py::test_ends_its_process'" in ran.stdout
