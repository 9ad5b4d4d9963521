"""docs/command-line.md: the jobs of Spark that the page shows, each run as the reader types it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.process.cli.test_docs import EXAMPLES, environment_of, pattern, shape_of
from tests.support.daemon import DaemonProcess
from tests.support.spark_shell import SparkShell

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

JOBS = [(command, output) for section, command, output in EXAMPLES if section == "Spark"]


@pytest.fixture(scope="module")
def shell(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkShell]:
    """A user whose daemon runs, in the folder of its data, with an item for the jobs."""
    folder = tmp_path_factory.mktemp("docs")
    with DaemonProcess(folder / "data") as daemon:
        made = SparkShell(folder, environment_of(daemon, folder))
        assert made.run("kestrelpy put for-spark hello") != ""
        yield made
        made.close()


@pytest.mark.parametrize(("command", "output"), JOBS, ids=[command for command, _ in JOBS])
def test_the_spark_jobs_of_the_page_run(shell: SparkShell, command: str, output: str) -> None:
    said = shell.run(f"{command} && echo it has worked")

    # The tests of the jobs check their output; the last line is for the exit code.
    out = "".join(shape_of(line) + "\n" for line in said.splitlines())
    assert "Traceback" not in out
    assert pattern(f"{output}it has worked\n").fullmatch(out), said


def test_an_error_in_this_process_is_that_of_the_command(shell: SparkShell) -> None:
    assert shell.run("kestrelpy spark audit nowhere; echo $?").splitlines() == [
        "kestrelpy: There is no folder nowhere. Name a data directory, the folder of a journal, a "
        "backup, or an archive.",
        "2",
    ]
