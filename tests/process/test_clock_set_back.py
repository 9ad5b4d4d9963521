"""A real daemon whose wall clock is set back between two lives: a delay of seconds stays one.

Promise: duration.
"""

from __future__ import annotations

import os
import time
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.daemon import DaemonProcess

YEAR_NS = 31_536_000_000_000_000
# Python runs it before the program: the wall clock of that process alone is wrong.
HOOK = "import time\nreal = time.time_ns\ntime.time_ns = lambda: real() - {}\n"


def a_year_back(folder: Path) -> tuple[str, ...]:
    """The words before a command whose wall clock is a year behind."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(HOOK.format(YEAR_NS))
    return "env", f"PYTHONPATH={os.pathsep.join([str(folder), os.getcwd()])}"


@pytest.mark.parametrize("is_killed", [True, False])
def test_a_delay_of_seconds_is_over_in_seconds_after_the_clock_was_set_back_by_a_year(
    tmp_path: Path, is_killed: bool
) -> None:
    late = int(time.time()) + 600
    with DaemonProcess(tmp_path / "data") as daemon:
        with closing(daemon.client()) as client:
            client.set("jobs/delay=2s", b"duration")
            client.set(f"dated/at={late}", b"date")
        if is_killed:
            daemon.kill()
        else:
            assert daemon.stop() == 0
        daemon.start(*a_year_back(tmp_path / "hook"))
        with closing(daemon.client()) as client:
            assert client.get("jobs/t=20s") == b"duration"
            assert client.get("dated/t=1ms") is None, "a date waits for the clock"
    said = "".join(daemon.lines)
    assert "the clock was set back by at least 3" in said
