"""A job as a person starts it: as a module, with spark-submit, watched or not."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from kestrelpy.spark.jobs.common.job import HOLDS, UNUSABLE, Progress, counted, quick_start
from kestrelpy.spark.session import what_is_missing
from tests.support.spark_classes import submit_options
from tests.support.spark_fixture import ROOT
from tests.unit.spark.jobs.stories import Story

pytestmark = pytest.mark.slow
PROCESS_SECONDS = 280
MODULE = (sys.executable, "-m", "kestrelpy.spark.jobs.audit")
MASTER = ("--master", "local[1]")
JOBS = ROOT / "kestrelpy" / "spark" / "jobs"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with one queue of three items, one of them confirmed."""
    story = Story()
    story.put(b"one", b"two", b"three")
    story.confirm(story.open())
    return story.save(tmp_path_factory.mktemp("running"))


@pytest.fixture
def place() -> Iterator[dict[str, str]]:
    """The environment of a process that finds these sources and a Java; else it is skipped."""
    missing = what_is_missing()
    if missing is not None:
        pytest.skip(missing)
    yield os.environ | {
        "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }  # fmt: skip


def ran(
    words: tuple[str, ...], environment: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run a process to its end; return its result."""
    return subprocess.run(
        words, env=environment, capture_output=True, text=True, timeout=PROCESS_SECONDS, check=False
    )


def test_no_file_beside_a_script_hides_a_module_of_python() -> None:
    """spark-submit puts the folder of the script in front of `sys.path`."""
    names = {path.stem for script in JOBS.glob("*/__main__.py") for path in script.parent.iterdir()}

    assert {"findings", "positions", "page"} <= names
    assert names & sys.stdlib_module_names == set()


def test_a_job_is_taken_by_spark_submit(data: Path, place: dict[str, str], tmp_path: Path) -> None:
    script, summary = JOBS / "audit" / "__main__.py", tmp_path / "summary"
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    done = ran(
        (str(submit), *MASTER, str(script), str(data), "--summary", str(summary)), place
    )
    assert done.returncode == HOLDS, done.stderr
    assert "jobs" in done.stdout
    assert json.loads(summary.read_text())["job"] == "audit"


def test_what_cannot_be_done_is_one_sentence_and_exit_code_2(
    tmp_path: Path, place: dict[str, str]
) -> None:
    done = ran((*MODULE, str(tmp_path / "nowhere"), *MASTER), place)
    assert done.returncode == UNUSABLE
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("kestrelpy: There is no folder ")


def test_a_module_says_one_line_of_json_and_a_terminal_shows_the_current_step(
    data: Path, place: dict[str, str]
) -> None:
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        (*MODULE, str(data), "--json", *MASTER), env=place, stdout=subprocess.PIPE, stderr=theirs
    ) as process:
        os.close(theirs)
        seen = b""
        while True:
            try:
                piece = os.read(ours, 4096)
            except OSError:  # the other end is closed
                break
            seen += piece
            if not piece:
                break
        out, _ = process.communicate(timeout=PROCESS_SECONDS)
    os.close(ours)
    assert (process.returncode, json.loads(out)["job"]) == (HOLDS, "audit")
    lines = [line for line in seen.decode().split("\r\033[K") if line]
    assert lines[0].startswith("starting Spark  0 s"), seen
    assert any(" s" in line and not line.startswith("starting Spark") for line in lines), seen
    assert seen.endswith(b"\r\033[K"), "the line goes when the answer comes"


def test_java_compiles_less_well_if_there_is_little_to_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "jobs.1").mkdir()
    segment = tmp_path / "jobs.1" / "0000000001.segment"
    less = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -Da=b"
    for size, said in ((16 << 20, less), (200 << 20, "-Da=b")):
        monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Da=b")
        with segment.open("wb") as file:
            file.truncate(size)
        with quick_start([str(tmp_path)]):
            assert os.environ["SPARK_SUBMIT_OPTS"] == said
        assert os.environ["SPARK_SUBMIT_OPTS"] == "-Da=b"


@pytest.mark.skipif(shutil.which("java") is None, reason="no Java here")
def test_a_java_that_compiles_less_well_has_room_for_all_of_spark(tmp_path: Path) -> None:
    """By itself it takes 48 MiB for compiled code, and Spark ends when that is full."""
    with quick_start([str(tmp_path)]):
        of_jobs = os.environ["SPARK_SUBMIT_OPTS"]
    for words in (of_jobs, submit_options()):
        ran = subprocess.run(
            ["java", *words.split(), "-XX:+PrintFlagsFinal", "-version"],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        flags = dict(re.findall(r"(\w+) +:?= +(\S+)", ran.stdout))
        assert flags["TieredStopAtLevel"] == "1"
        assert int(flags["ReservedCodeCacheSize"]) >= 200 << 20


def test_without_a_terminal_there_is_no_line(tmp_path: Path) -> None:
    with (tmp_path / "told").open("w+") as told:
        progress = Progress(told, watched=False)
        progress.step("reading")
        progress.end()
        told.seek(0)
        assert told.read() == ""


def test_one_is_one_and_more_are_more() -> None:
    assert counted(1, "item") == "1 item"
    assert counted(12_345, "item") == "12,345 items"
