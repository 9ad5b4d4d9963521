"""The main job on real input: nothing is lost, and whatever is handled twice has its reason."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def run_lines(lines: int, seconds: float) -> str:
    ended = subprocess.run(
        [sys.executable, "-m", "kestrelpy.examples.lines", "--lines", str(lines)],
        capture_output=True, text=True, timeout=seconds, check=False, cwd=ROOT,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout + ended.stderr  # the seed is its first line
    return ended.stdout


def check(said: str, lines: int) -> None:
    assert re.search(r"kill -9 worker \d, and start it again", said)
    assert "kill -9 daemon, and start it again" in said
    assert f"{lines:,} of {lines:,} lines handled, 0 lost" in said
    assert re.search(r"^handled twice: \d+$", said, re.MULTILINE)


def test_every_line_is_handled_though_workers_and_daemon_are_killed() -> None:
    check(run_lines(5_000, 100), 5_000)


@pytest.mark.slow
@pytest.mark.parametrize("lines", [40_000, pytest.param(120_000, marks=pytest.mark.sweep)])
def test_every_line_of_a_large_text_is_handled_though_workers_and_daemon_are_killed(
    lines: int,
) -> None:
    check(run_lines(lines, 400), lines)
