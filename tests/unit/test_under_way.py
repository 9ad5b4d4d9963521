"""tests/support/under_way.py: a run that is stopped, or takes long, names its tests."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.under_way import FIRST_SECONDS, UnderWay


def report(test: str, when: str) -> pytest.TestReport:
    return pytest.TestReport(test, ("", None, ""), {}, "passed", None, when)  # type: ignore[arg-type]  # xdist's "???" as well


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize("last", ["teardown", "???"])
def test_a_test_is_under_way_until_its_last_report(last: str) -> None:
    clock = Clock()
    under_way = UnderWay([].append, clock)
    under_way.pytest_runtest_logstart("a")
    clock.now = 60.0
    under_way.pytest_runtest_logstart("b")
    under_way.pytest_runtest_logreport(report("a", "call"))
    clock.now = 120.0
    assert under_way.lines() == ["2 minutes: a", "1 minute: b"]

    under_way.pytest_runtest_logreport(report("a", last))

    assert under_way.lines() == ["1 minute: b"]


def test_a_long_test_is_named_whenever_its_time_has_doubled() -> None:
    clock, said = Clock(), list[str]()
    under_way = UnderWay(said.append, clock)
    under_way.pytest_runtest_logstart("a")

    for clock.now in (FIRST_SECONDS - 1, FIRST_SECONDS, FIRST_SECONDS + 1, 2 * FIRST_SECONDS):
        under_way.look()

    assert said == ["under way for 5 minutes: a", "under way for 10 minutes: a"]


def test_a_run_that_is_stopped_names_what_it_was_busy_with(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    (tmp_path / "test_slow.py").write_text(
        "import pathlib, time\n\n"
        f"def test_sleeps():\n    pathlib.Path({str(begun)!r}).touch()\n    time.sleep(600)\n"
    )
    (tmp_path / "conftest.py").write_text("from tests.conftest import pytest_configure\n")
    run = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-n", "1", "-p", "no:cacheprovider", str(tmp_path)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env={**os.environ, "PYTHONPATH": os.getcwd()},
    )  # fmt: skip
    while not begun.exists():
        assert run.poll() is None, run.communicate()[0]
        time.sleep(0.1)

    run.send_signal(signal.SIGTERM)
    said = run.communicate(timeout=60)[0]

    assert run.returncode == -signal.SIGTERM
    assert re.search(r"stopped; under way:\n  \d minutes?: .*test_sleeps", said), said
