"""`kestrelpy spark`: jobs as a user runs them, and the error without Spark."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kestrelpy.spark.session import what_is_missing
from tests.process.cli.command import Command, Ended
from tests.support.daemon import DaemonProcess

MINUTES = 240.0
needs_spark = pytest.mark.skipif(what_is_missing() is not None, reason=str(what_is_missing()))


def finished(kestrelpy: Command, *words: str) -> Ended:
    """A job takes longer than other commands: it starts a virtual machine of its own.

    Most jobs are tested in a Spark that is there: `tests/unit/spark/test_command_line_page.py`.
    """
    process = kestrelpy.start("spark", *words)
    out, err = process.communicate(timeout=MINUTES)
    return Ended(process.returncode, out, err.decode())


def test_help_names_the_jobs_and_imports_nothing_of_spark(kestrelpy: Command) -> None:
    told = kestrelpy("spark", "--help")
    assert told.code == 0, told
    assert b"audit" in told.out
    assert b"lifecycle" in told.out

    imported = subprocess.run(
        [sys.executable, "-c",
         "import sys, kestrelpy.cli.app; print([m for m in sys.modules if 'pyspark' in m])"],
        capture_output=True, text=True, check=True, cwd=Path(__file__).parents[3],
    )  # fmt: skip
    assert imported.stdout == "[]\n"


def test_without_java_one_sentence_says_how_to_install_it(
    kestrelpy: Command, tmp_path: Path
) -> None:
    ended = kestrelpy("spark", "audit", str(tmp_path), JAVA_HOME=str(tmp_path / "none"))

    assert ended.is_sentence(2), ended
    assert "Install Java" in ended.err


@pytest.mark.parametrize("package", ["pyspark", "numpy", "pandas", "pyarrow"])
@pytest.mark.parametrize("job", ["audit", "lifecycle", "report"])
def test_without_a_package_one_sentence_says_how_to_install_it(
    kestrelpy: Command, tmp_path: Path, job: str, package: str
) -> None:
    (tmp_path / "hidden" / package).mkdir(parents=True)
    (tmp_path / "hidden" / package / "__init__.py").write_text("raise ImportError('none')\n")
    source = str(Path(__file__).parents[3])

    ended = kestrelpy(
        "spark", job, str(tmp_path), "--out", "out",
        PYTHONPATH=f"{tmp_path / 'hidden'}:{source}",
    )  # fmt: skip

    assert ended.is_sentence(2), ended
    assert "pip install 'kestrelpy[spark]'" in ended.err


@pytest.mark.parametrize("package", ["numpy", "pyarrow"])
@pytest.mark.parametrize("job", ["lag", "redrive"])
def test_a_job_that_asks_servers_needs_two_packages_and_no_java(
    kestrelpy: Command, tmp_path: Path, job: str, package: str
) -> None:
    (tmp_path / "hidden" / package).mkdir(parents=True)
    (tmp_path / "hidden" / package / "__init__.py").write_text("raise ImportError('none')\n")
    source = str(Path(__file__).parents[3])
    words = ("spark", job, "--servers", "127.0.0.1:1", "--queues", "*",
             "--option", "fetchRetries=0")  # fmt: skip
    java = str(tmp_path / "none")

    without = kestrelpy(*words, PYTHONPATH=f"{tmp_path / 'hidden'}:{source}", JAVA_HOME=java)
    with_it = kestrelpy(*words, JAVA_HOME=java)

    assert without.is_sentence(2), without
    assert f"The package {package} is not installed" in without.err
    assert with_it.is_sentence(2), with_it
    assert "The server 127.0.0.1:1 cannot be reached" in with_it.err


@needs_spark
@pytest.mark.slow
def test_a_job_runs_over_a_daemon_that_goes_on_writing(
    kestrelpy: Command, tmp_path: Path
) -> None:
    with DaemonProcess(tmp_path / "data") as daemon:
        client = daemon.client()
        for number in range(20):
            client.set("jobs", b"%d" % number)
        assert client.get("jobs/open") == b"0"
        assert client.get("jobs/close/open") == b"1"

        lived = finished(kestrelpy, "lifecycle", "data", "--out", "lives", "--master", "local[2]")

    assert (lived.code, lived.err) == (0, ""), lived
    assert lived.out == b"20 items in lives: confirmed 1, open 19\n"
    assert list((tmp_path / "lives").glob("date=*/server=*/queue=jobs/*.parquet"))


@needs_spark
@pytest.mark.slow
def test_a_breach_is_exit_code_1_and_bad_input_exit_code_2(
    kestrelpy: Command, tmp_path: Path
) -> None:
    config = '[journal]\nsegment_max = "64KiB"\n'
    with DaemonProcess(tmp_path / "data", config=config) as daemon:
        client = daemon.client()
        for number in range(3000):
            client.set("jobs", b"%200d" % number, noreply=True)
        for _ in range(3):  # each is answered when those before it are synced
            assert client.set("jobs", b"last")
        daemon.kill()
    segments = sorted((tmp_path / "data").glob("jobs.*/*.segment"))
    assert len(segments) > 2
    segments[1].unlink()

    broken = finished(kestrelpy, "audit", "data", "--master", "local[2]", "--summary", "said.json")
    nowhere = finished(kestrelpy, "audit", "nowhere", "--master", "local[2]")

    assert broken.code == 1, broken
    assert b"0000000002.segment: truncated (the segment is missing)" in broken.out
    assert b"BREACH missing: " in broken.out
    assert json.loads((tmp_path / "said.json").read_text())["holds"] is False
    told = broken.err.splitlines()
    assert all(line.startswith("kestrelpy: Data is missing: ") for line in told), broken
    assert nowhere.code == 2, nowhere
    assert nowhere.is_sentence(2), nowhere
    assert "There is no folder nowhere." in nowhere.err
