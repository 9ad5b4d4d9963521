"""The process's own settings of its interpreter."""

from __future__ import annotations

import gc
import signal
import subprocess
import sys

import pytest

from kestrelpy.server.process import SWITCH_SECONDS, SWITCH_SECONDS_HURRIED, tune_interpreter
from kestrelpy.server.shares import LINE_SECONDS, LINE_SECONDS_HURRIED

# A collection takes 0.1 to 0.5 µs for each object: below the 50 ms that the loop may be held.
LOOKED_THROUGH_MAX = 50_000


def test_the_garbage_collector_looks_through_a_bounded_number_of_new_objects_at_once() -> None:
    tune_interpreter()
    young, middle, old = gc.get_threshold()
    assert young * (middle + 2) <= LOOKED_THROUGH_MAX, "it runs once the count is above `middle`"
    assert young * middle * old >= 50_000_000, "all of them only after very many more"
    assert gc.get_freeze_count() > 0


def test_a_thread_that_waits_has_the_interpreter_before_a_part_of_a_turn_is_over() -> None:
    tune_interpreter()
    assert sys.getswitchinterval() == pytest.approx(SWITCH_SECONDS)
    assert SWITCH_SECONDS < LINE_SECONDS
    assert SWITCH_SECONDS_HURRIED < LINE_SECONDS_HURRIED


ENDS_WITH = "import os, sys, time; from kestrelpy.server.process import end_with_parent; "


def test_a_process_whose_parent_is_another_one_already_ends_at_once() -> None:
    words = [sys.executable, "-c", ENDS_WITH + "end_with_parent(1 << 30); print('lives on')"]
    found = subprocess.run(words, capture_output=True, timeout=60, check=False)
    assert (found.returncode, found.stdout) == (-signal.SIGKILL, b"")


def test_a_process_ends_with_its_parent() -> None:
    child = ENDS_WITH + "end_with_parent(os.getppid()); print(flush=True); time.sleep(600)"
    parent = (
        "import subprocess, sys; "
        "subprocess.Popen([sys.executable, '-c', sys.argv[1]]); sys.stdin.read()"
    )
    words = [sys.executable, "-c", parent, child]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as started:
        assert started.stdout is not None
        assert started.stdout.readline() == b"\n"  # the child has said with whom it ends
        started.kill()
        assert started.stdout.read() == b""  # it holds the pipe until it ends
