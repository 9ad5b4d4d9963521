"""tests/support/spark_classes.py: no archive, or a bad one, stops no JVM."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.spark_classes import submit_options


def test_without_an_archive_nothing_names_one(tmp_path: Path) -> None:
    assert "SharedArchiveFile" not in submit_options(tmp_path / "none.jsa")


@pytest.mark.skipif(shutil.which("java") is None, reason="no Java here")
def test_java_takes_the_options_with_an_archive_it_cannot_use(tmp_path: Path) -> None:
    archive = tmp_path / "bad.jsa"
    archive.write_bytes(b"not an archive")
    ran = subprocess.run(
        ["java", *submit_options(archive).split(), "-version"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == "", "the options keep its complaint away"
