"""A session that suits, or a sentence about what is missing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kestrelpy.spark.errors import KestrelError
from kestrelpy.spark.session import NEEDED, session, what_is_missing
from tests.support.spark_fixture import ROOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


PROCESS_SECONDS = 280


def fake_java(folder: Path, script: str) -> str:
    """A JAVA_HOME whose `java` is this shell script."""
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(0o755)
    return str(folder)


def test_without_java_a_session_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(KestrelError) as caught:
        session()

    assert str(caught.value) == (
        "There is no Java on this machine, and Spark runs on it. Install Java 17 or newer (Debian, "
        "Ubuntu: apt install openjdk-17-jre-headless), or say where it is with JAVA_HOME"
    )


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo 'openjdk version \"11.0.2\" 2019-01-15' >&2", "is version 11, too old for Spark."),
        ("echo 'java version \"1.8.0_292\"' >&2", "is version 8, too old for Spark."),
        ("echo 'cannot map memory' >&2; exit 1", "it says 'cannot map memory'."),
    ],
)
def test_a_java_that_does_not_suit_is_named_with_its_place(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str, said: str
) -> None:
    monkeypatch.setenv("JAVA_HOME", fake_java(tmp_path / "java", script))

    missing = what_is_missing()

    assert missing is not None
    assert f"at {tmp_path}/java/bin/java" in missing
    assert said in missing
    assert missing.endswith("or say where it is with JAVA_HOME")


def test_a_java_home_without_java_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    assert f"Java cannot be started at {tmp_path}/bin/java: No such file" in (
        what_is_missing() or ""
    )


def test_a_newer_java_will_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    home = fake_java(tmp_path / "java", "echo 'openjdk version \"25\" 2025-09-16' >&2")
    monkeypatch.setenv("JAVA_HOME", home)

    assert what_is_missing() is None


def test_a_spark_that_is_too_old_is_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark.__version__", "3.5.1")

    assert what_is_missing() == (
        "The package pyspark is 3.5.1, and at least 4.1 is needed. Install it: "
        "pip install 'kestrelpy[spark]'"
    )


def test_a_package_that_is_not_there_is_named_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(NEEDED, "no_such_package", (1, 0))

    assert what_is_missing() == (
        "The package no_such_package is not installed. Install it: pip install 'kestrelpy[spark]'"
    )


@pytest.mark.slow
def test_a_session_reads_the_clock_in_utc_and_speaks_arrow_over_a_unix_socket(
    spark: SparkSession,
) -> None:
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.execution.arrow.pyspark.enabled") == "true"
    assert spark.sparkContext.getConf().get("spark.python.unix.domain.socket.enabled") == "true"


@pytest.mark.slow
def test_a_spark_that_does_not_start_is_one_sentence(tmp_path: Path) -> None:
    program = (
        "from kestrelpy.spark import KestrelError\n"
        "from kestrelpy.spark.session import session\n"
        "try:\n"
        "    session('t', 'nonsense://x', {'spark.ui.enabled': 'false'})\n"
        "except KestrelError as error:\n"
        "    print('said:', error)\n"
    )
    missing = what_is_missing()
    if missing is not None:
        pytest.skip(missing)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)}, timeout=PROCESS_SECONDS,
    )  # fmt: skip

    said = done.stdout.splitlines()[-1]
    assert said == (
        "said: Spark did not start: its Java process ended at once. Its output is above; "
        "correct that setting"
    )
    assert "Master must" in done.stderr
